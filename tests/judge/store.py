#!/usr/bin/python3
"""The fenced store: the thing that a lock protects. It takes a write of a key only with a token that is not below the
greatest it has seen, and records what it took and refused. Beside it is one without a fence, which takes everything: where
it would have put the write of an older holder over that of a newer one, the event has the token that was "lost".

    tests/judge/store.py HISTORY        prints its port, serves until stdin ends

A write is a line `KEY TOKEN SENT`, the answer `yes` or `no`. SENT is the time on the writer's monotonic clock, and ends up
in the history beside the time at which the store decided.
"""

import selectors
import socket
import sys

from history import Recorder


class FencedStore:
    def __init__(self, recorder):
        self.greatest = {}
        self.unfenced = {}  # key -> the token that wrote last
        self.recorder = recorder

    def write(self, key, token, sent):
        taken = token >= self.greatest.get(key, 0)
        if taken:
            self.greatest[key] = token
        before = self.unfenced.get(key, 0)
        self.unfenced[key] = token
        lost = {"lost": before} if before > token else {}
        self.recorder.event("store", key=key, token=token, ok=taken, sent=sent, **lost)
        return taken


def answer(store, connection, pending):
    """Takes what came on a connection; returns the unfinished rest, or None at its end."""
    try:
        data = connection.recv(1 << 16)
        *lines, rest = (pending + data).split(b"\n")
        replies = []
        for line in lines:
            key, token, sent = line.decode("latin-1").rsplit(" ", 2)
            replies.append(b"yes\n" if store.write(key, int(token), int(sent)) else b"no\n")
        connection.sendall(b"".join(replies))
    except ConnectionError:
        return None
    return rest if data else None


def main():
    with open(sys.argv[1], "w", encoding="ascii") as file:
        store = FencedStore(Recorder(file))
        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        selector = selectors.DefaultSelector()
        selector.register(listener, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        pending = {}
        while True:
            for key, _ in selector.select():
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    selector.register(connection, selectors.EVENT_READ)
                    pending[connection] = b""
                    continue
                rest = answer(store, key.fileobj, pending[key.fileobj])
                if rest is None:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    del pending[key.fileobj]
                else:
                    pending[key.fileobj] = rest


if __name__ == "__main__":
    main()
