"""Arguments, help texts, and the exit code 64."""

from clicase import CliCase

COMMANDS = ("acquire", "release", "renew", "run", "ping", "status", "member", "transfer", "bench", "version")


class Usage(CliCase):
    serverless = True

    def test_help_names_commands_options_and_exit_codes(self):
        status, out, err = self.loquet("--help")
        self.assertEqual((status, err), (0, ""))
        for word in COMMANDS + ("--endpoints", "--admin", "--json", "LOQUET_ENDPOINTS", "127.0.0.1:7311"):
            self.assertIn(word, out)
        codes = [line.split()[0] for line in out.partition("Exit codes:\n")[2].splitlines()]
        self.assertEqual(codes, "0 64 69 70 71 74 75 76 77 78 126 127 128+n".split())

    def test_help_of_each_command(self):
        for command in COMMANDS:
            with self.subTest(command):
                for words in ((command, "--help"), ("--help", command), (command, "-h")):
                    status, out, err = self.loquet(*words)
                    self.assertEqual((status, err), (0, ""))
                self.assertIn("--json", self.loquet(command, "--help")[1])
                wait = "--wait" in self.loquet(command, "--help")[1]
                self.assertEqual(wait, command in ("acquire", "run", "member", "transfer"))

    def test_version(self):
        self.assertRegex(self.loquet("version")[1], r"^loquet \d+\.\d+\.\d+\n$")
        self.assertEqual(self.loquet("--version"), self.loquet("version"))
        self.assertRegex(self.ask("version")["version"], r"^\d+\.\d+\.\d+$")

    def test_what_is_wrong_is_said(self):
        for words, said in (
            ((), "no command"),
            (("frobnicate",), "frobnicate"),
            (("--frob", "ping"), "--frob"),
            (("ping", "--frob=3"), "--frob"),
            (("ping", "-x"), "-x"),
            (("ping", "--wait", "3"), "--wait"),
            (("--wait", "3", "ping"), "ping"),
            (("ping", "--json=yes"), "--json"),
            (("ping", "extra"), "ping"),
            (("acquire",), "KEY"),
            (("acquire", "a", "b"), "KEY"),
            (("acquire", "k", "--wait"), "--wait"),
            (("acquire", "k", "--wait", "256"), "0 to 255"),
            (("acquire", "k", "--wait", "-1"), "0 to 255"),
            (("acquire", "k", "--wait", "1."), "0 to 255"),
            (("acquire", "k", "--wait", "99999999999999999999"), "0 to 255"),
            (("acquire", "k", "--wait=soon"), "0 to 255"),
            (("acquire", "k", "--lease", "0"), "1 to 255"),
            (("acquire", "k", "--lease", "256"), "1 to 255"),
            (("acquire", "k", "--lease", "1.5"), "1 to 255"),
            (("acquire", ""), "1 to 1024"),
            (("acquire", "a\nb"), "1 to 1024"),
            (("acquire", "k" * 1025), "1 to 1024"),
            (("acquire", b"\xff"), "UTF-8"),
            (("release", "k"), "TOKEN"),
            (("release", "k", "-5"), "-5"),
            (("release", "k", "12x"), "12x"),
            (("release", "k", "18446744073709551616"), "token"),
            (("renew", "k", ""), "token"),
            (("run", "k"), "COMMAND"),
            (("run", "k", "--"), "COMMAND"),
            (("--endpoints", "h:0", "ping"), "--endpoints"),
            (("--endpoints", "", "ping"), "--endpoints"),
            (("--endpoints", "::1", "ping"), "brackets"),
            (("bench", "--seconds", "0"), "1 to 1000"),
            (("bench", "--seconds", "1.5"), "1 to 1000"),
            (("bench", "--connections", "1001"), "1 to 1000"),
            (("bench", "--key-prefix", ""), "1 to 900"),
            (("bench", "--key-prefix", "k" * 901), "1 to 900"),
            (("bench", "--endpoints", "h:0"), "--endpoints"),
            (("bench", "k"), "takes none"),
            (("ping", "--seconds", "1"), "--seconds"),
            (("status", "x"), "takes none"),
            (("status", "--endpoints", "h:1"), "--endpoints"),
            (("ping", "--admin", "h:1"), "--admin"),
            (("status", "--admin", ""), "--admin"),
            (("status", "--admin", "h:0"), "--admin"),
        ):
            with self.subTest(words):
                status, out, err = self.loquet(*words)
                self.assertEqual((status, out), (64, ""), err)
                self.assertIn(said, err)
                self.assertTrue(err.startswith("loquet: "), err)

    def test_bad_endpoints_of_the_environment(self):
        self.environment["LOQUET_ENDPOINTS"] = "127.0.0.1:port"
        self.assertSays(self.loquet("ping"), 64, "LOQUET_ENDPOINTS", "port")

    def test_json_of_what_is_wrong_with_values(self):
        self.assertEqual(self.ask("ping", "--endpoints", "x:y", code=64)["result"], "invalid")
        answer = self.ask("release", "k", "x", code=64)
        self.assertEqual((answer["result"], answer["key"], answer["exit"]), ("invalid", "k", 64))
