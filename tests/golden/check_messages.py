#!/usr/bin/python3
"""Checks the golden vectors of messages between nodes without any of the project's C: that the file is well formed
(README.md beside this file), and that what is packed with `struct` as lq_message.h documents it gives the same bytes.

usage: check_messages.py FILE...     prints what is wrong, then "N passed, N failed"
"""

import json
import struct
import sys

from check_golden import Wrong, expect, run

# Numbers of 8 bytes, then flags ("f"), entries ("e"), outcomes ("o"), bytes to the end ("b"), or nothing more.
KINDS = {
    "VOTE": (1, ("term", "last_index", "last_term"), "f"),
    "VOTE_RESULT": (2, ("term",), "f"),
    "APPEND": (3, ("term", "prev_index", "prev_term", "commit"), "e"),
    "APPEND_RESULT": (4, ("term", "rejected", "last_index"), ""),
    "TIMEOUT_NOW": (5, ("term", "last_index", "last_term"), ""),
    "OPEN": (6, ("incarnation",), ""),
    "CLOSE": (7, ("incarnation",), ""),
    "SUBMIT": (8, ("term",), "b"),
    "RESEND": (9, ("term", "incarnation", "next_seq"), ""),
    "OUTCOMES": (10, ("term", "incarnation", "through"), "o"),
    "PING": (11, (), ""),
    "REMOVED": (12, ("index",), ""),
    "DIGEST": (13, ("index", "digest"), ""),
    "CHUNK": (14, ("term", "index", "index_term", "total", "check", "offset"), "b"),
    "CHUNK_RESULT": (15, ("term", "index", "check", "next"), "f"),
}
TIMES = ("time_ms", "ping_ms", "echo_ms")
MESSAGE_MAX = 4 << 20


def long(item, field):
    """u64 are 16 hexadecimal digits, since many JSON readers round them."""
    expect(isinstance(item[field], str) and len(item[field]) == 16, f"{field} is not 16 digits")
    return int(item[field], 16)


def members(item, names):
    expect(set(item) == set(names), f"members are {sorted(item)}, not {sorted(names)}")


def pack_entry(entry):
    members(entry, ("term", "check", "type", "bytes"))
    data = bytes.fromhex(entry["bytes"])
    return struct.pack(">QQBI", long(entry, "term"), long(entry, "check"), entry["type"], len(data)) + data


def pack_outcome(outcome):
    members(outcome, ("kind", "lease", "seq", "token", "stamp_ms"))
    numbers = (long(outcome, field) for field in ("seq", "token", "stamp_ms"))
    return struct.pack(">BBQQQ", outcome["kind"], outcome["lease"], *numbers)


def pack_tail(tail, message):
    if tail == "f":
        return bytes([message["flags"]])
    if tail == "e":
        return struct.pack(">I", len(message["entries"])) + b"".join(map(pack_entry, message["entries"]))
    if tail == "o":
        return struct.pack(">I", len(message["outcomes"])) + b"".join(map(pack_outcome, message["outcomes"]))
    return bytes.fromhex(message["bytes"]) if tail == "b" else b""


def pack_message(message):
    kind, numbers, tail = KINDS[message["kind"]]
    name = {"f": ("flags",), "e": ("entries",), "o": ("outcomes",), "b": ("bytes",), "": ()}[tail]
    members(message, ("kind", *TIMES, *numbers, *name))
    longs = [long(message, field) for field in (*TIMES, *numbers)]
    return struct.pack(f">BBBB{len(longs)}Q", kind, 0, 0, 0, *longs) + pack_tail(tail, message)


def pack_hello(hello):
    members(hello, ("flags", "cluster", "from", "to", "boot"))
    return struct.pack(
        ">4sBBHQIIQ", b"LQND", 1, hello["flags"], 0, long(hello, "cluster"), hello["from"], hello["to"], long(hello, "boot")
    )


def pack_refusal(refusal):
    members(refusal, ("reason", "cluster"))
    expect(refusal["reason"] in range(1, 8), "reason is not one of those that are known")
    return struct.pack(">4sBBHQ", b"LQNR", 1, refusal["reason"], 0, long(refusal, "cluster"))


PLACES = {"hello": pack_hello, "refusal": pack_refusal, "message": pack_message}


def check_vector(vector):
    expect({"name", "hex"} <= set(vector), "name or hex is missing")
    kinds = set(vector) & {*PLACES, "refused", "more"}
    expect(len(kinds) == 1 and len(vector) == 3, "wants exactly one of hello, refusal, message, refused, more")
    data = bytes.fromhex(vector["hex"])
    expect(vector["hex"] == data.hex(), "hex is not plain lower case")
    for name, pack in PLACES.items():
        if name in vector:
            body = pack(vector[name])
            expect(struct.pack(">I", len(body)) + body == data, "struct packs it differently")
    expect(vector.get("refused", "hello") in PLACES, "refused is neither hello, refusal nor message")
    expect(vector.get("more", True) is True, "more is not true")
    if "more" in vector and len(data) >= 4:
        length = int.from_bytes(data[:4], "big")
        expect(len(data) - 4 < length <= MESSAGE_MAX, "nothing is missing of it")


def check_file(path):
    """Yields (name, what is wrong or None) for every vector of the file."""
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    expect(content["format"] == 1 and content["direction"] == "node", "another format or direction")
    expect(len({vector["name"] for vector in content["vectors"]}) == len(content["vectors"]), "two of one name")
    kinds = {vector["message"]["kind"] for vector in content["vectors"] if "message" in vector}
    expect(kinds == set(KINDS), f"kinds without a vector: {set(KINDS) - kinds}")
    reasons = {vector["refusal"].get("reason") for vector in content["vectors"] if "refusal" in vector}
    expect(reasons == set(range(1, 8)), f"reasons without a vector: {set(range(1, 8)) - reasons}")
    for vector in content["vectors"]:
        try:
            check_vector(vector)
            yield vector["name"], None
        except (Wrong, KeyError, ValueError, TypeError, struct.error) as problem:
            yield vector["name"], problem


if __name__ == "__main__":
    sys.exit(run(check_file))
