#!/usr/bin/python3
"""Checks the golden vectors without any of the project's C: that the files are well formed (README.md
beside this file), and that frames packed with `struct` straight from the protocol page give the same bytes.

usage: check_golden.py FILE...     prints what is wrong, then "N passed, N failed"
"""

import json
import struct
import sys

# The tables of the protocol page: fields before the key, then what stands before the line feed.
REQUESTS = {
    "A": (">cBBQ", ("wait", "lease", "owner"), "key"),
    "R": (">cQ", ("token",), "key"),
    "K": (">cBQ", ("lease", "token"), "key"),
    "C": (">cQ", ("owner",), "key"),
    "P": (">cQ", ("nonce",), None),
}
ANSWERS = {
    "A": (">cQQ", ("token", "owner"), "key"),
    "T": (">cQ", ("owner",), "key"),
    "B": (">cQ", ("owner",), "key"),
    "R": (">cQ", ("token",), "key"),
    "N": (">cQ", ("token",), "key"),
    "K": (">cQ", ("token",), "key"),
    "P": (">cQ", ("nonce",), None),
    "E": (">cB", ("code",), "text"),
}
DIRECTIONS = {"request": REQUESTS, "answer": ANSWERS}
LONG = ("owner", "token", "nonce")
KEY_MAX = 1024


class Wrong(Exception):
    """What is wrong with a vector."""


def expect(condition, text):
    if not condition:
        raise Wrong(text)


def number(field, value):
    """Small numbers are JSON numbers; u64 are 16 hexadecimal digits, since many JSON readers round them."""
    if field in LONG:
        expect(isinstance(value, str) and len(value) == 16, f"{field} is not 16 digits")
        return int(value, 16)
    expect(type(value) is int and 0 <= value <= 255, f"{field} is not 0 to 255")
    return value


def encode(table, frame):
    expect(frame.get("op") in table, "op of another direction")
    layout, fields, body = table[frame["op"]]
    names = {"op", *fields} | ({body} if body else set())
    expect(set(frame) == names, f"fields are {sorted(frame)}, not {sorted(names)}")
    header = struct.pack(layout, frame["op"].encode(), *(number(f, frame[f]) for f in fields))
    text = frame[body].encode("utf-8") if body else b""
    expect(len(text) <= KEY_MAX and b"\n" not in text, "key or text too long, or with a line feed")
    expect(text or body != "key", "a frame without its key")
    expect(frame.get("lease", 1) > 0, "a frame with lease 0")
    return header + text + b"\n"


def check_vector(table, vector):
    expect({"name", "hex"} <= set(vector), "name or hex is missing")
    kinds = set(vector) & {"frame", "error", "more"}
    expect(len(kinds) == 1 and len(vector) == 3, "wants exactly one of frame, error, more")
    data = bytes.fromhex(vector["hex"])
    expect(vector["hex"] == data.hex(), "hex is not plain lower case")
    if "frame" in vector:
        expect(encode(table, vector["frame"]) == data, "struct packs it differently")
    elif "error" in vector:
        expect(vector["error"] in range(1, 6), "error is not a code that a decoder finds")
    else:
        expect(vector["more"] is True, "more is not true")


def check_stream(vectors, stream):
    expect(set(stream) == {"name", "of"} and len(stream["of"]) > 1, "wants name, and of: two vectors or more")
    for name in stream["of"]:
        expect(name in vectors, f"no vector is named {name}")
    ends = [name for name in stream["of"] if "frame" not in vectors[name]]
    expect(len(ends) <= 1, "more than one end")


def check_file(path):
    """Yields (name, what is wrong or None) for every vector and stream of the file."""
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    expect(content["format"] == 1 and content["direction"] in DIRECTIONS, "another format or direction")
    table = DIRECTIONS[content["direction"]]
    vectors = {vector["name"]: vector for vector in content["vectors"]}
    expect(len(vectors) == len(content["vectors"]), "two vectors of one name")
    ops = {vector["frame"]["op"] for vector in vectors.values() if "frame" in vector}
    expect(ops == set(table), f"ops without a vector: {set(table) - ops}")
    for name, item, check, context in (
        *((n, v, check_vector, table) for n, v in vectors.items()),
        *((s["name"], s, check_stream, vectors) for s in content["streams"]),
    ):
        try:
            check(context, item)
            yield name, None
        except (Wrong, KeyError, ValueError, struct.error) as problem:
            yield name, problem


def run(check_file):
    """Checks the files of the command line and prints what came of it. Returns the exit status."""
    passed = failed = 0
    for path in sys.argv[1:]:
        try:
            results = list(check_file(path))
        except (Wrong, KeyError, ValueError) as problem:
            results = [("the file", problem)]
        for name, problem in results:
            passed += problem is None
            failed += problem is not None
            if problem is not None:
                print(f"{path}: {name}: {problem}")
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(run(check_file))
