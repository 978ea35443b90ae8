"""The files of the project, for the static checks: those that git tracks or would track, or simply all outside
build folders when there is no git. Shared by the check_*.py beside it."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("protocol", "consensus", "server", "client", "tests")
LAYERS = (*FOLDERS, "replica")


def layer_of(path):
    """A layer is a folder at the top; but consensus/replica is one of its own, above consensus."""
    return "replica" if path.parts[:2] == ("consensus", "replica") else path.parts[0]


def files():
    """Paths relative to ROOT, sorted."""
    try:
        names = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, capture_output=True, text=True,
        ).stdout.split("\0")  # fmt: skip
        paths = [pathlib.PurePath(name) for name in names if name]
    except (OSError, subprocess.CalledProcessError):
        paths = [path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file()]
        paths = [path for path in paths if not path.parts[0].startswith(("build", ".git"))]
    return sorted(path for path in paths if (ROOT / path).is_file())


def with_suffix(*suffixes):
    return [path for path in files() if path.suffix in suffixes]


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


class Tally:
    """Counts what was looked at; prints faults at once and the closing line at the end."""

    def __init__(self):
        self.passed = self.failed = 0

    def add(self, name, faults):
        """One thing that was looked at, and what is wrong with it (a list of texts)."""
        self.passed += not faults
        self.failed += bool(faults)
        for fault in faults:
            print(f"{name}: {fault}")

    def close(self):
        """Prints "N passed, N failed" and returns the exit status."""
        print(f"{self.passed} passed, {self.failed} failed")
        return 0 if self.passed and not self.failed else 1
