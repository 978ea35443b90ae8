"""The completion scripts, in bash and in a zsh on a pseudo-terminal."""

import os
import pty
import re
import select
import subprocess
import time

from clicase import KILL, PATIENCE, CliCase, program

ACTIONS = {"list", "add", "promote", "demote", "remove", "replace", "transfer"}


def listed(text, title):
    """The names that a help text lists below a title."""
    return set(re.findall(r"^  (\S+)", text.partition(title + ":\n")[2].partition("\n\n")[0], re.M))


class Completion(CliCase):
    serverless = True

    def script(self, shell):
        status, out, err = self.loquet("completion", shell)
        self.assertEqual((status, err), (0, ""))
        return out

    def commands(self):
        return listed(self.loquet("--help")[1], "Commands")

    def test_unknown_shell(self):
        self.assertSays(self.loquet("completion", "fish"), 64, "fish", "bash or zsh")
        self.assertNotIn("completion", self.commands())

    # bash: the function is called as readline would, for many lines in one shell.

    def bash(self, *lines, breaks=" =:"):
        """What is offered at the end of each line, as sets."""
        calls = "".join(
            "COMP_LINE=%s; COMP_POINT=${#COMP_LINE}; _loquet; echo \"=${COMPREPLY[*]}\"\n" % shell_word(line)
            for line in lines
        )
        text = "COMP_WORDBREAKS=%s\n%s\ncomplete -p loquet\n%s" % (shell_word(breaks), self.script("bash"), calls)
        result = subprocess.run(
            ["bash", "--norc", "-u"], input=text, env=self.environment, cwd=self.folder, capture_output=True, text=True
        )
        self.assertEqual(result.stderr, "")
        complete, *answers = result.stdout.splitlines()
        self.assertEqual(complete, "complete -F _loquet loquet")
        self.assertEqual(len(answers), len(lines))
        return [set(answer[1:].split()) for answer in answers]

    def test_bash_commands_and_actions(self):
        for offered, wanted in zip(
            self.bash(
                "loquet ", "loquet me", "loquet --wait 3 re", "loquet member ", "loquet --json member re",
                "loquet member add ", "loquet acquire ", "loquet release a:b ", "loquet frob ", "loquet --wait ",
            ),
            (
                self.commands(), {"member"}, {"release", "renew"}, ACTIONS, {"remove", "replace"},
                set(), set(), set(), set(), set(),
            ),
        ):  # fmt: skip
            self.assertEqual(offered, wanted)

    def test_bash_options_are_those_of_the_help(self):
        commands = sorted(self.commands())
        offered = self.bash("loquet --", *("loquet %s a:b --" % command for command in commands))
        for command, options in zip([None, *commands], offered):
            help_text = self.loquet(*([command] if command else []), "--help")[1]
            self.assertEqual(options, listed(help_text, "Options"), command)
        self.assertEqual(self.bash("loquet acquire --le", "loquet acquire -- --le"), [{"--lease"}, set()])

    def test_bash_files_and_commands_to_run(self):
        open(os.path.join(self.folder, "some.conf"), "w", encoding="utf-8").close()
        self.assertEqual(self.bash("loquet ping --config so", "loquet ping --config=so"), [{"some.conf"}] * 2)
        ran, behind, file, foreign = self.bash(
            "loquet run a:b bas", "loquet run k -- bas", "loquet run --wait 3 k cat so", "loquet run k cat --js"
        )
        self.assertIn("bash", ran)
        self.assertEqual(ran, behind)
        self.assertEqual(file, {"some.conf"})
        self.assertEqual(foreign, set())
        self.assertEqual(self.bash("loquet ping --config=so", breaks=" "), [{"--config=some.conf"}])

    # zsh: completion exists only in its line editor.

    def zsh(self, *lines):
        """The screen after each line and a Tab."""
        folder = os.path.join(self.folder, "functions")
        os.mkdir(folder)
        with open(os.path.join(folder, "_loquet"), "w", encoding="utf-8") as file:
            file.write(self.script("zsh"))
        environment = {**self.environment, "TERM": "dumb", "HOME": self.folder, "ZDOTDIR": self.folder}
        environment["PATH"] = os.path.dirname(program()) + ":" + environment["PATH"]
        with open(os.path.join(self.folder, ".zshrc"), "w", encoding="utf-8") as file:
            file.write(
                "fpath=(%s $fpath); autoload -Uz compinit; compinit -D -u; PS1='READY>'; LISTMAX=1000\n"
                "zstyle ':completion:*' insert-tab false\n"
                "unsetopt zle_bracketed_paste prompt_cr prompt_sp; stty cols 200\n" % folder
            )
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execvpe("zsh", ["zsh", "-i", "-o", "no_global_rcs"], environment)
        self.addCleanup(os.close, terminal)
        self.addCleanup(os.waitpid, pid, 0)
        self.addCleanup(os.kill, pid, KILL)
        self.read_until(terminal, "READY>")
        for line in lines:
            # Ctrl-U takes the line away, and the command shows that the editor is through with it.
            os.write(terminal, line.encode() + b"\t\x15print DO''NE\n")
            yield self.read_until(terminal, "\nDONE\nREADY>")

    def read_until(self, terminal, end):
        said, limit = "", time.monotonic() + 3 * PATIENCE  # its start takes long
        while end not in said.replace("\r", ""):
            ready = select.select([terminal], [], [], max(0, limit - time.monotonic()))[0]
            self.assertTrue(ready, "zsh says no more: %r" % said)
            said += os.read(terminal, 65536).decode(errors="replace")
        return said

    def test_zsh(self):
        lines = (
            "loquet ", "loquet member ", "loquet member prom", "loquet acquire --le", "loquet --json ping --no-",
            "loquet ping --",
        )  # fmt: skip
        screens = list(self.zsh(*lines))
        for name in self.commands():
            self.assertIn(name, screens[0])
        for name in ACTIONS:
            self.assertIn(name, screens[1])
        self.assertIn("member promote ", screens[2])
        self.assertIn("acquire --lease=", screens[3])
        self.assertIn("ping --no-json", screens[4])
        self.assertNotIn("--lease", screens[5], "only what the command takes")
        self.assertIn("--config", screens[5])


def shell_word(text):
    return "'%s'" % text.replace("'", "'\\''")
