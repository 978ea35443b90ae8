#!/usr/bin/python3
"""Checks that documentation points to what exists: relative links in Markdown, their #headings, and paths of the
project written as code (`tests/run.sh`)."""

import re
import sys

import tree

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TOP = "|".join((*tree.FOLDERS, "deploy", "docs"))
CODE_PATH = re.compile(rf"`(?:\./)?((?:{TOP})/[A-Za-z0-9_./-]+)")
HEADING = re.compile(r"^#+\s+(.*?)\s*#*$")


def prose(text):
    """The lines outside fenced blocks, with their numbers."""
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(text):
    """The anchors that a page's headings get."""
    found = set()
    for _, line in prose(text):
        match = HEADING.match(line)
        if match:
            title = re.sub(r"[^\w\s-]", "", match.group(1).lower())
            found.add(re.sub(r"\s", "-", title))
    return found


def link_fault(page, target):
    if re.match(r"[a-z]+:", target):
        return None
    name, _, anchor = target.partition("#")
    path = (tree.ROOT / page.parent / name) if name else tree.ROOT / page
    if not path.exists():
        return f"link to {target}, which does not exist"
    if anchor and path.suffix == ".md" and anchor not in anchors(path.read_text(encoding="utf-8")):
        return f"link to {target}: no such heading"
    return None


def code_fault(target):
    """`consensus/lq_map` stands for header and source. Names in capitals stand for something to be filled in
    (test_NAME.c), so only their folder must exist."""
    path = target.rstrip(".")
    if re.search(r"[A-Z]{3}", path) and not path.endswith(("README.md", "CMakeLists.txt")):
        path = path.rpartition("/")[0]
    found = any((tree.ROOT / (path + suffix)).exists() for suffix in ("", ".h", ".c"))
    return None if found else f"names {target}, which does not exist"


def faults(page):
    for number, line in prose(tree.read(page)):
        found = [link_fault(page, target) for target in LINK.findall(line)]
        found += [code_fault(target) for target in CODE_PATH.findall(line)]
        for fault in found:
            if fault:
                yield f"line {number}: {fault}"


def main():
    tally = tree.Tally()
    for page in tree.with_suffix(".md"):
        tally.add(page, list(faults(page)))
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
