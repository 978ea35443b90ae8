"""`loquet run` on a terminal: under an interactive shell, and as the first process of a session."""

import os
import re
import select
import subprocess
import time

from clicase import PATIENCE, CliCase, program

CTRL_C, CTRL_D, CTRL_Z, CTRL_BACKSLASH = "\x03", "\x04", "\x1a", "\x1c"
PROMPT = "ready>"


class Terminal:
    """A pseudo-terminal with a session on it."""

    def __init__(self, words, environment, folder):
        self.master, slave = os.openpty()
        self.text = ""
        environment = dict(environment, PS1=PROMPT, LOQUET=program(), HISTFILE="", TERM="dumb", HOME=folder)
        self.process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *words], stdin=slave, stdout=slave, stderr=slave, env=environment,
            cwd=folder, close_fds=True,
        )  # fmt: skip
        os.close(slave)

    def type(self, text):
        os.write(self.master, text.encode())

    def read(self, timeout):
        if select.select([self.master], [], [], timeout)[0]:
            try:
                self.text += os.read(self.master, 65536).decode(errors="replace").replace("\r", "")
            except OSError:  # the last process has closed the terminal
                return False
        return True

    def expect(self, pattern, timeout=PATIENCE):
        """Reads until the pattern shows; returns its match and forgets all up to its end."""
        deadline = time.monotonic() + timeout
        while (found := re.search(pattern, self.text)) is None:
            left = deadline - time.monotonic()
            if left <= 0 or not self.read(left):
                raise AssertionError("%r did not show on the terminal, but:\n%s" % (pattern, self.text))
        self.text = self.text[found.end() :]
        return found

    def line(self, text, pattern):
        """Types a command line; expects the pattern in what follows the echo, and the prompt after it."""
        self.type(text + "\n")
        self.expect(re.escape(text) + "\n")
        found = self.expect(pattern)
        self.expect(PROMPT)
        return found

    def suspend(self):
        """Ctrl-Z; the shell has to say that the job stopped. What is typed right behind Ctrl-Z may get lost with any job
        of two processes: the kernel drops unread input together with the signal. So a moment has to pass."""
        self.type(CTRL_Z)
        self.expect(r"Stopped.*\n" + PROMPT)
        time.sleep(0.1)

    def wait(self):
        while self.read(0.05) and self.process.poll() is None:
            pass
        return self.process.wait(PATIENCE)

    def close(self):
        os.close(self.master)  # hangs up
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Shell(CliCase):
    def setUp(self):
        super().setUp()
        self.terminal = self.open("bash", "--norc", "--noprofile", "-i")
        self.terminal.expect(PROMPT)

    def open(self, *words):
        terminal = Terminal(words, self.environment, self.folder)
        self.addCleanup(terminal.close)
        return terminal

    def run_cat(self, words="$LOQUET run k -- cat"):
        """Starts a cat that has the terminal: what is typed comes twice, as echo and as output."""
        self.terminal.type(words + "\n")
        self.terminal.expect(re.escape(words) + "\n")
        self.until_has_terminal("cat")
        self.terminal.type("hello\n")
        self.terminal.expect("hello\nhello\n")

    def test_input_and_end_of_file(self):
        self.run_cat()
        self.terminal.type(CTRL_D)
        self.terminal.expect(PROMPT)
        self.terminal.line("echo status $?", "status 0\n")

    def test_ctrl_c(self):
        self.run_cat()
        self.terminal.type(CTRL_C)
        self.terminal.expect(PROMPT)
        self.terminal.line("echo status $?", "status 130\n")
        self.assertFalse(self.is_held("k"))

    def test_ctrl_backslash(self):
        self.run_cat("$LOQUET run k -- sh -c 'ulimit -c 0; exec cat'")
        self.terminal.type(CTRL_BACKSLASH)
        self.terminal.expect(PROMPT)
        self.terminal.line("echo status $?", "status 131\n")

    def test_ctrl_z_and_foreground(self):
        """The shell gets its terminal back; the lock stays held, far longer than its lease; fg goes on where it was."""
        self.run_cat("$LOQUET run --lease 1 k -- cat")
        for _ in range(2):
            self.terminal.suspend()
            self.terminal.line("jobs", r"Stopped .*run --lease 1")
            time.sleep(1.5)
            self.assertTrue(self.is_held("k"))
            self.terminal.type("fg\n")
            self.until_has_terminal("cat")
            self.terminal.type("again\n")
            self.terminal.expect("again\nagain\n")
        self.terminal.type(CTRL_C)
        self.terminal.expect(PROMPT)
        self.assertFalse(self.is_held("k"))

    def test_ctrl_z_and_background(self):
        self.run_cat("$LOQUET run k -- sh -c 'cat; sleep 60'")
        self.terminal.suspend()
        self.terminal.line("bg", r"LOQUET run")
        self.until_stopped()  # cat reads, in the background
        self.terminal.line("kill %1; kill -CONT %1; wait; echo over", "over")
        self.assertFalse(self.is_held("k"))

    def until_stopped(self):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.terminal.type("jobs -s | wc -l\n")
            if self.terminal.expect(r"wc -l\n(\d+)").group(1) == "1":
                self.terminal.expect(PROMPT)
                return
            self.terminal.expect(PROMPT)
        self.fail("it did not stop")

    def test_started_in_the_background(self):
        self.terminal.type("$LOQUET run k -- cat &\n")
        self.until_stopped()
        self.terminal.type("fg\n")
        self.until_has_terminal("cat")
        self.terminal.type("hello\n")
        self.terminal.expect("hello\nhello\n")
        self.terminal.type(CTRL_D)
        self.terminal.expect(PROMPT)
        self.terminal.line("echo status $?", "status 0\n")

    def test_in_the_background_without_input(self):
        self.terminal.line("$LOQUET run k -- sleep 0.3 & wait $!; echo status $?", "status 0\n")

    def test_pipelines(self):
        self.terminal.line("echo hello | $LOQUET run k -- cat | tr a-z A-Z", "HELLO\n")
        self.terminal.line("$LOQUET run k -- echo hello | tr a-z A-Z", "HELLO\n")

    def test_ctrl_c_on_a_pipeline(self):
        """The terminal is the pipeline's, so loquet gets the signal and passes it on."""
        self.terminal.type("$LOQUET run k -- sleep 60 | cat; echo status ${PIPESTATUS[*]}\n")
        self.until_runs()
        time.sleep(0.2)
        self.terminal.type(CTRL_C)
        self.terminal.expect(r"\^C")
        self.terminal.expect(PROMPT)
        self.until(lambda: not self.is_held("k"), "it is over")

    def test_ctrl_z_on_a_pipeline(self):
        self.terminal.type("$LOQUET run k -- sh -c 'sleep 0.8; echo hello' | cat\n")
        self.until_runs()
        time.sleep(0.2)
        self.terminal.suspend()
        self.assertTrue(self.is_held("k"))
        self.terminal.type("fg\n")
        self.terminal.expect("hello\n" + PROMPT)

    def test_terminal_is_lent_to_who_asks_in_a_pipeline(self):
        """The command reads from the terminal although its output is a pipe."""
        self.terminal.type("$LOQUET run k -- cat | tr a-z A-Z\n")
        self.until_has_terminal("cat")
        self.terminal.type("hello\n")
        self.terminal.type(CTRL_D)
        self.terminal.expect("HELLO\n")
        self.terminal.expect(PROMPT)
        self.terminal.line("echo still here", "still here\n")

    def test_terminal_is_lent_from_the_start(self):
        found = self.terminal.line("$LOQUET run k -- sh -c 'ps -o pgid=,tpgid= -p $$'", r"^ *(\d+) +(\d+)\n")
        self.assertEqual(found.group(1), found.group(2))

    def test_terminal_is_given_back_to_a_script(self):
        """Its shell has no job control, so nobody but us can give it back."""
        self.run_cat("bash -c '$LOQUET run k -- true; cat'")
        self.terminal.type(CTRL_D)
        self.terminal.expect(PROMPT)

    def test_shell_as_the_command(self):
        """An interactive shell under the lock has job control of its own, and gives the terminal back."""
        self.terminal.line("$LOQUET run k -- bash --norc --noprofile -i", r"")
        self.terminal.line("echo $LOQUET_KEY", "k\n")
        self.terminal.type("cat\n")
        self.until_has_terminal("cat")
        self.terminal.type("hello\n")
        self.terminal.expect("hello\nhello\n")
        self.terminal.suspend()
        self.terminal.type("fg\n")
        self.until_has_terminal("cat")
        self.terminal.type(CTRL_C)
        self.terminal.expect(PROMPT)
        self.terminal.type("exit 9\n")
        self.terminal.expect("exit\n")
        self.terminal.expect(PROMPT)
        self.terminal.line("echo status $?", "status 9\n")
        self.run_cat()

    def test_ctrl_c_while_waiting(self):
        self.take("k")
        self.terminal.type("$LOQUET run --wait 60 k -- cat\n")
        self.terminal.expect("cat\n")
        time.sleep(0.5)
        self.terminal.type(CTRL_C)
        self.terminal.expect("signal INT")
        self.terminal.expect(PROMPT)
        self.terminal.line("echo status $?", "status 130\n")

    def test_terminal_that_hangs_up(self):
        self.run_cat()
        os.close(self.terminal.master)
        self.until(lambda: not self.is_held("k"), "it is over")
        self.terminal.master = os.open("/dev/null", os.O_RDONLY)

    def test_lock_lost_gives_the_terminal_back(self):
        self.run_cat("$LOQUET run --lease 1 k -- cat")
        self.server.kill()
        self.terminal.expect("'k' was lost")
        self.terminal.expect(PROMPT)
        self.terminal.line("echo status $?", "status 76\n")


class SessionLeader(CliCase):
    """As under ssh -t or in a container: nobody can continue us, so nothing must stop us."""

    def test_without_a_shell(self):
        terminal = Terminal([program(), "run", "k", "--", "cat"], self.environment, self.folder)
        self.addCleanup(terminal.close)
        self.until_has_terminal("cat")
        terminal.type("hello\n")
        terminal.expect("hello\nhello\n")
        terminal.type(CTRL_Z)
        terminal.expect(r"\^Z")
        self.until_has_terminal("cat")
        terminal.type("again\n")
        terminal.expect("again\nagain\n")
        terminal.type(CTRL_C)
        self.assertEqual(terminal.wait(), 130)
        self.assertFalse(self.is_held("k"))

    def test_shell_as_the_command(self):
        terminal = Terminal(
            [program(), "run", "k", "--", "bash", "--norc", "--noprofile", "-i"], self.environment, self.folder
        )
        self.addCleanup(terminal.close)
        terminal.expect(PROMPT)
        terminal.line("echo $((40 + 2))", "42\n")
        terminal.type("exit 3\n")
        self.assertEqual(terminal.wait(), 3)
