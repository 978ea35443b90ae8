"""Histories: what clients of a lock service asked and were told, when. Written by a Recorder while it happens, read back
as operations for the judge.

A history is a file of JSON lines, each an event with "t", nanoseconds of CLOCK_MONOTONIC (one machine), and "e":

    open      conn, client, node                       a connection is there
    send      conn, op A: key owner wait lease / R: key token / K: key token lease / C: key owner / P: nonce
    recv      conn, op and fields of an answer         E: code; A, K: until, if the client says how long it is certain
    shut      conn                                     the client says that it will send nothing more
    close     conn, why                                own: the client closed it; else eof, reset, refused, ...
    unknown   conn, op and fields of a request         it was open when its connection closed: nobody knows
    fault     id, what, nodes                          begins; nodes: whose connections it excuses; detail, if it has one
              mild                                     true: it must not change anything, so it excuses nothing
    healed    id                                       that fault has ended
    store     key, token, ok                           the fenced store took or refused a write
    calm      within_s                                 from now on all is well, and everybody makes progress within that
    end                                                nothing was left out up to here
    torn     file                                      said by load(): that file breaks off, so everything ends here

A send is stamped before its bytes go to the kernel, an answer after they came. So a request takes effect after its `send`,
and before the answer's `recv`. Owners are used once in a history. Keys are text, one character for each byte. Clients of
libloquet, which goes to any node, are at node 0; they don't know when it sends C, and record it beside the acquire.
"""

import json
import os
import time

NS = 1_000_000_000
ANY_NODE = 0  # of clients that go where they like
TORN_NS = NS  # so long a thread may take from the time in a line to its writing

_encode = json.JSONEncoder(separators=(",", ":")).encode


class BadHistory(Exception):
    """The history itself is wrong, so nothing can be said of the service."""


class Recorder:
    """Appends events to a file; for several threads."""

    def __init__(self, file):
        self._file = file
        self._write = file.write

    def event(self, kind, t=None, **fields):
        fields["t"] = time.monotonic_ns() if t is None else t
        fields["e"] = kind
        self._write(_encode(fields) + "\n")  # one call: lines of threads do not mix

    def flush(self):
        self._file.flush()

    def close(self):
        self.event("end")
        self._file.close()


def load(paths):
    """The events of some files, in the order of their times. Where a file breaks off within its last line, its writer was
    killed: its clients went on for a while, and nobody knows with what. So nothing is left of the other files either from
    there on, and a `torn` event tells it."""
    events, torn, ends = [], [], []
    for path in paths:
        found, is_torn = _read(path)
        events += found
        if is_torn:
            torn.append(os.path.basename(path))
            ends.append(max((event["t"] for event in found), default=0) - TORN_NS)
    events.sort(key=lambda event: event["t"])
    if torn:
        end = min(ends)
        events = [event for event in events if event["t"] <= end]
        if not events:
            raise BadHistory("nothing is left of it, as %s breaks off so soon" % ", ".join(torn))
        events += [{"t": end, "e": "torn", "file": name} for name in torn]
    return events


def _read(path):
    """The events of a file, and whether it breaks off."""
    events, line = [], "\n"
    with open(path, encoding="ascii") as file:
        for number, line in enumerate(file, 1):
            try:
                event = json.loads(line)
                event["t"], event["e"]
            except (ValueError, KeyError, TypeError):
                if not line.endswith("\n"):
                    break  # only the last one can be without
                raise BadHistory("%s:%d is no event: %.80s" % (path, number, line)) from None
            events.append(event)
    return events, not line.endswith("\n")


class Connection:
    def __init__(self, event):
        self.open_event = event
        self.client = event["client"]
        self.node = event["node"]
        self.opened = event["t"]
        self.closed = None  # time
        self.close_event = None
        self.shut = None  # time of the half-close
        self.error = None  # the E that came
        self.operations = []  # in the order sent
        self.pings = []  # nonces without their answer
        self.last_answer = None


class Acquire:
    """An acquire and what came of it: outcome A, T, B, or None (unknown, or still open at the end)."""

    __slots__ = (
        "event", "answer", "conn", "key", "owner", "wait", "lease", "sent", "answered", "outcome", "token", "cancelled",
        "given_up",
    )  # fmt: skip

    def __init__(self, event, conn):
        self.event, self.conn, self.answer = event, conn, None
        self.key, self.owner = event["key"], event["owner"]
        self.wait, self.lease = event["wait"] * NS, event["lease"] * NS
        self.sent, self.answered = event["t"], None
        self.outcome = self.token = None
        self.cancelled = None  # when the first C was sent, at the earliest
        self.given_up = None  # when it was sent for certain, or the connection shut


class Touch:
    """A release (op R) or a renewal (op K): outcome R, K, N or None."""

    __slots__ = ("event", "answer", "conn", "op", "key", "token", "lease", "sent", "answered", "outcome")

    def __init__(self, event, conn):
        self.event, self.conn, self.answer = event, conn, None
        self.op, self.key, self.token = event["op"], event["key"], event["token"]
        self.lease = event.get("lease", 0) * NS
        self.sent, self.answered, self.outcome = event["t"], None, None


class Fault:
    def __init__(self, event):
        self.event = event
        self.begin, self.end = event["t"], None
        self.nodes = set(event["nodes"])


class History:
    """Events, sorted into operations. What does not fit becomes a complaint: (text, events)."""

    def __init__(self, events):
        self.events = events
        self.connections = {}
        self.acquires, self.touches, self.faults, self.stores = [], [], [], []
        self.complaints = []
        self.calm = None  # event
        self.torn = []  # events
        self.begin = events[0]["t"] if events else 0
        self.end = events[-1]["t"] if events else 0
        self._owners = {}  # owner -> Acquire
        self._open_touches = {}  # (conn, op, token, key) -> [Touch]
        self._faults = {}
        for event in events:
            handler = getattr(self, "_on_" + event["e"], None)
            if handler is None:
                raise BadHistory("unknown event %r" % (event,))
            try:
                handler(event)
            except KeyError as missing:
                raise BadHistory("%s is missing, or not known, in %r" % (missing, event)) from None

    def _complain(self, text, *events):
        self.complaints.append((text, list(events)))

    def _on_open(self, event):
        if event["conn"] in self.connections:
            raise BadHistory("connection %s was opened twice" % event["conn"])
        self.connections[event["conn"]] = Connection(event)

    def _on_send(self, event):
        conn = self.connections[event["conn"]]
        op = event["op"]
        if op == "A":
            acquire = Acquire(event, conn)
            if self._owners.setdefault(acquire.owner, acquire) is not acquire:
                raise BadHistory("owner %d was used twice" % acquire.owner)
            self.acquires.append(acquire)
            conn.operations.append(acquire)
        elif op in "RK":
            touch = Touch(event, conn)
            self.touches.append(touch)
            conn.operations.append(touch)
            self._open_touches.setdefault((event["conn"], touch.token, touch.key), []).append(touch)
        elif op == "C":
            acquire = self._owners.get(event["owner"])
            if acquire is not None and acquire.conn is conn and acquire.key == event["key"]:
                acquire.cancelled = acquire.cancelled or event["t"]
                if conn.node != ANY_NODE:
                    acquire.given_up = acquire.given_up or event["t"]
        elif op == "P":
            conn.pings.append(event["nonce"])
        else:
            raise BadHistory("unknown request %r" % (event,))

    def _on_recv(self, event):
        conn = self.connections[event["conn"]]
        op = event["op"]
        conn.last_answer = event["t"]
        if conn.closed is not None:
            raise BadHistory("an answer on a closed connection: %r" % (event,))
        if conn.error is not None:
            self._complain("an answer behind an error", conn.error, event)
        if op == "E":
            conn.error = event
        elif op in "ATB":
            self._acquire_answered(event, conn)
        elif op in "RKN":
            self._touch_answered(event, conn)
        elif op == "P" and event["nonce"] in conn.pings:
            conn.pings.remove(event["nonce"])
        else:
            self._complain("an answer to nothing that was asked", event)

    def _acquire_answered(self, event, conn):
        acquire = self._owners.get(event["owner"])
        if acquire is None or acquire.conn is not conn or acquire.key != event["key"]:
            self._complain("an answer to an acquire that was never sent on this connection", event)
        elif acquire.outcome is not None:
            self._complain("an acquire was answered twice", acquire.event, acquire.answer, event)
        else:
            acquire.answer, acquire.answered, acquire.outcome = event, event["t"], event["op"]
            acquire.token = event.get("token")

    def _touch_answered(self, event, conn):
        """R and K with the same token on one connection are answered in their order, so an answer belongs to the
        oldest; a service that swaps them is caught, as R never answers a K, nor K an R."""
        waiting = self._open_touches.get((event["conn"], event["token"], event["key"]))
        if not waiting:
            self._complain("an answer to a release or renewal that was never sent, or that had its answer", event)
            return
        touch = waiting.pop(0)
        if event["op"] not in (touch.op, "N"):
            self._complain("%s is no answer to %s" % (event["op"], touch.op), touch.event, event)
        touch.answer, touch.answered, touch.outcome = event, event["t"], event["op"]

    def _on_shut(self, event):
        conn = self.connections[event["conn"]]
        conn.shut = event["t"]
        for operation in conn.operations:
            if isinstance(operation, Acquire):
                operation.given_up = operation.given_up or event["t"]

    def _on_close(self, event):
        conn = self.connections[event["conn"]]
        conn.closed, conn.close_event = event["t"], event

    def _on_unknown(self, event):
        """Said for readers; what is open at the end of its connection is unknown anyway."""

    def _on_fault(self, event):
        fault = Fault(event)
        self._faults[event["id"]] = fault
        if not event.get("mild"):
            self.faults.append(fault)

    def _on_healed(self, event):
        self._faults[event["id"]].end = event["t"]

    def _on_store(self, event):
        self.stores.append(event)

    def _on_calm(self, event):
        self.calm = event

    def _on_torn(self, event):
        self.torn.append(event)

    def _on_end(self, event):
        self.end = event["t"]

    def operations(self):
        return len(self.acquires) + len(self.touches)
