"""A relay in front of a server, which can be hurt: it stands for the network between a client and that server.

    relay = Relay(("127.0.0.1", 7311))      # listens on relay.address
    relay.cut()                             # all connections end with a reset
    relay.stall(2.0)                        # nothing passes for so long, in neither direction
    relay.close()

One thread carries the bytes. A connection that can't be made to the server is closed at once, as if nobody listened.
"""

import contextlib
import selectors
import socket
import struct
import threading
import time

CHUNK = 1 << 16
HELD_BYTES = 1 << 20  # of one direction, before its reading stops


class Pipe:
    """One direction of a connection."""

    def __init__(self, source, sink):
        self.source, self.sink = source, sink
        self.held = b""
        self.is_over = False  # the source said so


class Relay:
    def __init__(self, target):
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.address = self.listener.getsockname()
        self.listener.setblocking(False)
        self.pipes = {}  # source -> Pipe
        self.orders, self.lock = [], threading.Lock()
        self.stalled_until = 0.0
        self.is_closing = False
        self.wake_in, self.wake_out = socket.socketpair()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    # For others

    def cut(self):
        self._order(self._cut)

    def stall(self, seconds):
        self._order(lambda: setattr(self, "stalled_until", time.monotonic() + seconds))

    def close(self):
        self._order(lambda: setattr(self, "is_closing", True))
        self.thread.join()

    def _order(self, act):
        """Carried out by the thread; returns when it was."""
        done = threading.Event()
        with self.lock:
            self.orders.append((act, done))
        self.wake_out.send(b"x")
        done.wait()

    # The thread

    def _run(self):
        while not self.is_closing:
            self._turn()
        self._cut()
        for s in (self.listener, self.wake_in, self.wake_out):
            s.close()

    def _turn(self):
        stall = self.stalled_until - time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(self.wake_in, selectors.EVENT_READ)
            selector.register(self.listener, selectors.EVENT_READ)
            if stall <= 0:
                self._register(selector)
            ready = selector.select(max(0.001, stall) if stall > 0 else None)
        for key, events in ready:
            if key.fileobj is self.listener:
                self._accept()
            elif key.fileobj is self.wake_in:
                self.wake_in.recv(CHUNK)
                self._obey()
            else:
                self._carry(key.fileobj, events)

    def _register(self, selector):
        for source, pipe in self.pipes.items():
            back = self.pipes[pipe.sink]
            events = 0 if pipe.is_over or len(pipe.held) > HELD_BYTES else selectors.EVENT_READ
            events |= selectors.EVENT_WRITE if back.held else 0
            if events:
                selector.register(source, events)

    def _obey(self):
        with self.lock:
            orders, self.orders = self.orders, []
        for act, done in orders:
            act()
            done.set()

    def _accept(self):
        with contextlib.suppress(OSError):
            client, _ = self.listener.accept()
            try:
                server = socket.create_connection(self.target, timeout=0.5)
            except OSError:
                client.close()
                return
            for s in (client, server):
                s.setblocking(False)
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.pipes[client], self.pipes[server] = Pipe(client, server), Pipe(server, client)

    def _carry(self, source, events):
        pipe = self.pipes.get(source)
        if pipe is None:
            return  # ended in this very turn
        back = self.pipes[pipe.sink]
        try:
            if events & selectors.EVENT_READ:
                data = source.recv(CHUNK)
                pipe.held += data
                pipe.is_over = not data
            for p in (pipe, back):
                if p.held:
                    p.held = p.held[self._send(p.sink, p.held) :]
                if p.is_over and not p.held:
                    self._end(source)
                    return
        except OSError:
            self._end(source, is_hard=True)

    @staticmethod
    def _send(sink, data):
        try:
            return sink.send(data)
        except BlockingIOError:
            return 0

    def _end(self, source, is_hard=False):
        pipe = self.pipes.pop(source)
        self.pipes.pop(pipe.sink)
        for s in (source, pipe.sink):
            if is_hard:  # a reset
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()

    def _cut(self):
        for source in list(self.pipes):
            if source in self.pipes:
                self._end(source, is_hard=True)
