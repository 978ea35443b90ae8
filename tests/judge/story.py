"""Short histories by hand. A line is a time in seconds, a connection and what happens on it:

    0.0 a  opens 2          client a, at node 2; a connection that is not opened is one of node 1
    0.0 a  > A k 1 0 10     sends an acquire: key, owner, wait, lease
    0.1 a  < A k 1 5        is told: key, owner, token     T, B: key, owner     A, K: ... until=3 s it says it is certain
    0.2 a  > K k 5 10       renewal: key, token, lease     > R k 5: release      > C k 1: cancel      > P 7: ping
    0.3 a  < K k 5          R, N, K: key, token            < E 6: error          < P 7: pong
    1.0 a  shut             half-close
    1.0 a  closes eof       why; own: by the client itself
    2.0 -  fault 1 2,3      number, nodes                  - healed 1
    2.0 -  store k 5 yes    the fenced store: key, token, taken or not
    3.0 -  calm 2           everybody makes progress within 2 s
    9.0 -  end
"""

import unittest

import judge
from case import Limits
from history import NS

LIMITS = Limits(late_ms=300, grace_ms=500, answer_s=5)

SENDS = {"A": ("key", "owner", "wait", "lease"), "R": ("key", "token"), "K": ("key", "token", "lease"),
         "C": ("key", "owner"), "P": ("nonce",)}  # fmt: skip
ANSWERS = {"A": ("key", "owner", "token"), "T": ("key", "owner"), "B": ("key", "owner"), "R": ("key", "token"),
           "N": ("key", "token"), "K": ("key", "token"), "E": ("code",), "P": ("nonce",)}  # fmt: skip


def _fields(names, words):
    if words and words[-1].startswith("until="):
        return {"until": round(float(words[-1][6:]) * NS), **_fields(names, words[:-1])}
    return {name: word if name == "key" else int(word) for name, word in zip(names, words, strict=True)}


def _world_event(what, words):
    if what == "fault":
        return "fault", {"id": words[0], "what": "kill", "nodes": [int(node) for node in words[1].split(",")]}
    if what == "healed":
        return "healed", {"id": words[0]}
    if what == "store":
        return "store", {"key": words[0], "token": int(words[1]), "ok": words[2] == "yes"}
    if what == "calm":
        return "calm", {"within_s": float(words[0])}
    return "end", {}


def events_of(text):
    events, opened = [], set()
    for line in text.strip().splitlines():
        time, conn, what, *words = line.split()
        t = round(float(time) * NS)
        if conn == "-":
            kind, fields = _world_event(what, words)
            events.append({"t": t, "e": kind, **fields})
            continue
        if conn not in opened:
            opened.add(conn)
            node = int(words[0]) if what == "opens" else 1
            events.append({"t": t, "e": "open", "conn": conn, "client": conn, "node": node})
        if what in "<>":
            names = (SENDS if what == ">" else ANSWERS)[words[0]]
            kind = "send" if what == ">" else "recv"
            events.append({"t": t, "e": kind, "conn": conn, "op": words[0], **_fields(names, words[1:])})
        elif what == "closes":
            events.append({"t": t, "e": "close", "conn": conn, "why": words[0]})
        elif what == "shut":
            events.append({"t": t, "e": "shut", "conn": conn})
    return sorted(events, key=lambda event: event["t"])


class StoryCase(unittest.TestCase):
    def found(self, text, of=None, **limits):
        """`of`: {connection: client}, of those whose client has another name than they."""
        events = events_of(text)
        for event in events:
            if event["e"] == "open" and event["conn"] in (of or {}):
                event["client"] = of[event["conn"]]
        return judge.judge(events, LIMITS._replace(**limits)).violations

    def good(self, text, **limits):
        self.assertEqual(self.found(text, **limits), [])

    def bad(self, rule, text, **limits):
        """The rule finds it, and shows events of it."""
        found = self.found(text, **limits)
        self.assertIn(rule, {violation.rule for violation in found}, found)
        for violation in found:
            self.assertTrue(violation.events)
