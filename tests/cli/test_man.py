"""The man pages: that they are well-formed, and that nothing is missing from them."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from clicase import CliCase, program

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "client" / "man" / "make_man.py"
HEADERS = sorted((ROOT / "client" / "include").glob("*.h"))
DATED = "missing date"  # a date would make each build another one


def plain(page):
    """The text of a page without the marks of roff."""
    return re.sub(r"\\f[BIR]|\\&", "", page).replace("\\-", "-").replace("\\e", "\\")


class Man(CliCase):
    serverless = True

    def setUp(self):
        super().setUp()
        self.programs = [program(), os.environ["LOQUETD"]]
        subprocess.run([sys.executable, "-B", SCRIPT, self.folder, "1.2.3", *self.programs, *HEADERS], check=True)
        self.pages = {path.name: path.read_text(encoding="utf-8") for path in pathlib.Path(self.folder).glob("man*/*")}

    def of(self, name):
        """A page, or the one that it is another name for, as plain text."""
        page = self.pages[name]
        alias = re.fullmatch(r"\.so (man\d/\S+)\n", page)
        return plain(self.pages[pathlib.PurePath(alias.group(1)).name] if alias else page)

    def test_every_command_and_option(self):
        loquet, loquetd = self.programs
        helps = [subprocess.run([loquet, "--help"], check=True, capture_output=True, text=True).stdout]
        commands = re.findall(r"^  (\w+) ", helps[0].partition("Commands:\n")[2].partition("\n\n")[0], re.M)
        self.assertIn("acquire", commands)
        page = self.of("loquet.1")
        for command in commands:
            self.assertIn("\n.SS %s\n" % command, page)
            helps.append(subprocess.run([loquet, command, "--help"], check=True, capture_output=True, text=True).stdout)
        for option in {option for text in helps for option in re.findall(r"^  (--[\w-]+)", text, re.M)}:
            self.assertRegex(page, r"\n\.TP\n%s( \S+)?\n\S" % option)
        for code in "0 64 69 70 71 74 75 76 77 78 126 127 128+n".split():
            self.assertIn("\n.TP\n%s\n" % code, page.partition(".SH EXIT STATUS")[2])
        text = subprocess.run([loquetd, "--help"], check=True, capture_output=True, text=True).stdout
        for option in re.findall(r"^  (--[\w-]+)", text, re.M):
            self.assertRegex(self.of("loquetd.8"), r"\n\.TP\n%s( \S+)?\n\S" % option)
        self.assertEqual(self.of("loquet.conf.5"), page)
        self.assertEqual(self.of("loquetd.conf.5"), self.of("loquetd.8"))

    def test_every_function(self):
        n = 0
        for header in HEADERS:
            text = re.sub(r"/\*.*?\*/", "", header.read_text(encoding="utf-8"), flags=re.S)
            for name in re.findall(r"^(?!typedef)\w.*?\b(loquet_\w+)\(", text, re.M):
                n += 1
                page = self.of(name + ".3")
                synopsis, _, description = page.partition(".SH DESCRIPTION\n")
                self.assertIn("#include <%s>" % header.name, synopsis)
                self.assertRegex(synopsis, r"\n\w.*\b%s\(" % name)
                self.assertRegex(description, r"\A[`\w].{12}")
                self.assertIn(name + "(3)", self.of(header.stem + ".3"))
        self.assertEqual(n + len(HEADERS), len([name for name in self.pages if name.endswith(".3")]))

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_lint(self):
        paths = [name for name, page in self.pages.items() if not page.startswith(".so ")]
        self.assertGreater(len(paths), 30)
        result = subprocess.run(
            ["mandoc", "-T", "lint", "-W", "warning", *("man%s/%s" % (name[-1], name) for name in sorted(paths))],
            cwd=self.folder, capture_output=True, text=True,
        )  # fmt: skip
        faults = [line for line in result.stdout.splitlines() if DATED not in line]
        self.assertEqual(faults + result.stderr.splitlines(), [])
