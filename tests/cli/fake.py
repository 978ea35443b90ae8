"""A server that does what a test says: for answers that come late, never, twice or in a foreign tongue.

    with FakeServer(script) as server:   # script(peer) runs in a thread for each connection, in their order
        ...                              # server.endpoint for --endpoints, server.heard: (time, request) of all
"""

import socket
import threading
import time
from typing import NamedTuple


class Request(NamedTuple):
    op: str
    head: bytes  # header with the op byte
    key: bytes
    when: float  # CLOCK_BOOTTIME, when its last byte had come

    @property
    def number(self):
        """Owner (A, C), token (R, K) or nonce (P)."""
        return self.head[-8:]

    @property
    def lease(self):
        return self.head[2] if self.op == "A" else self.head[1]

    @property
    def wait(self):
        return self.head[1]


HEADER_BYTES = {"A": 11, "R": 9, "K": 10, "C": 9, "P": 9}


class Peer:
    """One connection, seen from the server."""

    def __init__(self, server, sock):
        self.server, self.sock, self.buffer = server, sock, b""

    def request(self):
        """The next request; None when the connection has ended. Pings are answered on the way."""
        while True:
            header = HEADER_BYTES[chr(self.buffer[0])] if self.buffer else 1
            end = self.buffer.find(b"\n", header)
            if len(self.buffer) > header and end >= 0:
                head, key, self.buffer = self.buffer[:header], self.buffer[header:end], self.buffer[end + 1 :]
                request = Request(chr(head[0]), head, key, time.clock_gettime(time.CLOCK_BOOTTIME))
                self.server.heard.append(request)
                if request.op != "P":
                    return request
                self.sock.sendall(head + b"\n")
                continue
            data = self.sock.recv(4096)
            if not data:
                return None
            self.buffer += data

    def grant(self, request, token=4711):
        self.sock.sendall(b"A" + token.to_bytes(8, "big") + request.number + request.key + b"\n")

    def answer(self, op, request):
        """T, B, R, K or N."""
        self.sock.sendall(op.encode() + request.number + request.key + b"\n")

    def send(self, data):
        self.sock.sendall(data)

    def idle(self):
        """Takes in all that comes, says nothing, until the client is gone."""
        while self.request() is not None:
            pass


class FakeServer:
    def __init__(self, script, port=0):
        self.script = script
        self.heard = []
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        self.endpoint = "127.0.0.1:%d" % self.port
        self.socks = []
        threading.Thread(target=self.serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.listener.close()
        for sock in self.socks:
            sock.close()

    def serve(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.socks.append(sock)
            threading.Thread(target=self.talk, args=(sock,), daemon=True).start()

    def talk(self, sock):
        try:
            self.script(Peer(self, sock))
        except OSError:
            pass
        finally:
            sock.close()

    def ops(self):
        return "".join(request.op for request in self.heard if request.op != "P")


def well_behaved(peer):
    """A script: grants and confirms whatever it is asked."""
    while (request := peer.request()) is not None:
        if request.op == "A":
            peer.grant(request)
        else:
            peer.answer(request.op, request)
