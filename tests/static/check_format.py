#!/usr/bin/python3
"""clang-format in check mode over every C file. To mend a file: clang-format -i FILE."""

import subprocess
import sys

import tree


def main():
    tally = tree.Tally()
    paths = tree.with_suffix(".c", ".h")
    result = subprocess.run(
        ["clang-format", "--dry-run", "-Werror", *map(str, paths)], cwd=tree.ROOT, capture_output=True, text=True
    )
    lines = result.stderr.splitlines()
    for path in paths:
        tally.add(path, [line for line in lines if line.startswith(f"{path}:")][:3])
    if result.returncode and not tally.failed:
        tally.add("clang-format", lines or ["failed without a word"])
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
