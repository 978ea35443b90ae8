#!/usr/bin/python3
"""Fails functions longer than 70 lines and files longer than their bound, in C, Python and shell."""

import ast
import sys

import tree

FUNCTION_MAX = 70
FILE_MAX = 400
TEST_FILE_MAX = 500  # tables of cases and generated-looking lists are easier to read in one piece


def c_functions(lines):
    """Yields (name, first line, length). A body begins and ends with a brace in the first column (see .clang-format)."""
    begin = None
    for at, line in enumerate(lines):
        if line == "{":
            begin = at
            while begin > 0 and lines[begin - 1] and lines[begin - 1][-1] not in ";}/" and lines[begin - 1][0] != "#":
                begin -= 1
        elif line == "}" and begin is not None:
            yield lines[begin].strip(), begin + 1, at + 1 - begin
            begin = None


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def shell_functions(lines):
    """Yields (name, first line, length) of functions written `name() {` up to a brace in the first column."""
    begin = None
    for at, line in enumerate(lines):
        if line.endswith("() {") and not line.startswith(" "):
            begin = at
        elif line == "}" and begin is not None:
            yield lines[begin].strip(), begin + 1, at + 1 - begin
            begin = None


def faults(path):
    text = tree.read(path)
    lines = text.split("\n")
    longest = TEST_FILE_MAX if path.parts[0] == "tests" else FILE_MAX
    if len(lines) - 1 > longest:
        yield f"{len(lines) - 1} lines, more than {longest}"
    if path.suffix in (".c", ".h"):
        functions = c_functions(lines)
    elif path.suffix == ".py":
        functions = python_functions(text)
    else:
        functions = shell_functions(lines)
    for name, line, length in functions:
        if length > FUNCTION_MAX:
            yield f"line {line}: {name}: {length} lines, more than {FUNCTION_MAX}"


def main():
    tally = tree.Tally()
    for path in tree.with_suffix(".c", ".h", ".py", ".sh"):
        tally.add(path, list(faults(path)))
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
