"""A raw client of the Loquet protocol, written from docs/protocol.md alone: it shares no code with the project.

Three layers, each usable without the next:

* ``acquire_frame()`` and its neighbours give the bytes of one request;
* ``AnswerParser`` turns any pieces of the answer stream into ``Answer`` tuples; it knows no socket, so it also serves
  under asyncio or a selector;
* ``Connection`` is a blocking socket on which every operation has a deadline.

Whatever breaks the protocol raises ``ProtocolViolation``; an answer that does not come raises ``Silence``; a connection
that ends where it should not raises ``Ended``. All three are AssertionErrors, so that a test fails rather than errs.
"""

import collections
import select
import socket
import struct
import time
from typing import NamedTuple, Optional

MAX_KEY_BYTES = 1024
PATIENCE = 10.0  # seconds in which whatever must come has to come; costs time only when a test fails

ERROR_UNKNOWN_OP = 1
ERROR_EMPTY_KEY = 2
ERROR_KEY_TOO_LONG = 3
ERROR_KEY_NOT_UTF8 = 4
ERROR_LEASE_ZERO = 5
ERROR_SHUTTING_DOWN = 6


class ProtocolViolation(AssertionError):
    """The server sent bytes that are no answer."""


class Silence(AssertionError):
    """An expected answer did not come in time."""


class Ended(AssertionError):
    """The connection ended (how: "eof" or "reset") where an answer was expected."""

    def __init__(self, how, detail=""):
        super().__init__("connection ended (%s) %s" % (how, detail))
        self.how = how


# Requests. Keys are bytes, as no test wants them checked or encoded on the way.


def acquire_frame(key, owner, wait=0, lease=30):
    """A wait(u8) lease(u8) owner(u64) key LF"""
    return b"A" + bytes((wait, lease)) + owner.to_bytes(8, "big") + key + b"\n"


def release_frame(key, token):
    """R token(u64) key LF"""
    return b"R" + token.to_bytes(8, "big") + key + b"\n"


def renew_frame(key, token, lease=30):
    """K lease(u8) token(u64) key LF"""
    return b"K" + bytes((lease,)) + token.to_bytes(8, "big") + key + b"\n"


def cancel_frame(key, owner):
    """C owner(u64) key LF"""
    return b"C" + owner.to_bytes(8, "big") + key + b"\n"


def ping_frame(nonce):
    """P nonce(u64) LF"""
    return b"P" + nonce.to_bytes(8, "big") + b"\n"


# Answers.


class Answer(NamedTuple):
    """One answer; the fields that its op does not have are None.

    op A: token, owner, key    T, B: owner, key    R, N, K: token, key    P: nonce    E: code, text
    """

    op: str
    token: Optional[int] = None
    owner: Optional[int] = None
    key: Optional[bytes] = None
    nonce: Optional[int] = None
    code: Optional[int] = None
    text: Optional[bytes] = None


def granted(key, owner, token):
    return Answer("A", token=token, owner=owner, key=key)


def timed_out(key, owner):
    return Answer("T", owner=owner, key=key)


def busy(key, owner):
    return Answer("B", owner=owner, key=key)


def released(key, token):
    return Answer("R", token=token, key=key)


def not_held(key, token):
    return Answer("N", token=token, key=key)


def renewed(key, token):
    return Answer("K", token=token, key=key)


def pong(nonce):
    return Answer("P", nonce=nonce)


class AnswerParser:
    """Pure incremental parser: feed() takes any piece of the stream and returns the answers completed by it."""

    # op byte -> size of the binary header with it; a byte of the header may be 0A, so it is consumed by its size
    HEADER_BYTES = {0x41: 17, 0x54: 9, 0x42: 9, 0x52: 9, 0x4E: 9, 0x4B: 9, 0x50: 9, 0x45: 2}

    def __init__(self):
        self._buffer = bytearray()

    @property
    def pending(self):
        """The bytes of an answer that is not complete yet."""
        return bytes(self._buffer)

    def feed(self, data):
        buffer = self._buffer
        buffer += data
        answers = []
        start = 0
        while start < len(buffer):
            header = self.HEADER_BYTES.get(buffer[start])
            if header is None:
                raise ProtocolViolation("no answer begins with %r" % bytes(buffer[start : start + 40]))
            end = buffer.find(b"\n", start + header)
            if end < 0:
                if len(buffer) - start - header > MAX_KEY_BYTES:
                    raise ProtocolViolation("an answer without an end: %r..." % bytes(buffer[start : start + 60]))
                break
            answers.append(self._decode(bytes(buffer[start : start + header]), bytes(buffer[start + header : end])))
            start = end + 1
        del buffer[:start]
        return answers

    @staticmethod
    def _decode(header, tail):
        op = chr(header[0])
        if op == "E":
            try:
                tail.decode("utf-8")
            except UnicodeDecodeError:
                raise ProtocolViolation("error text is not UTF-8: %r" % tail) from None
            return Answer("E", code=header[1], text=tail)
        number = int.from_bytes(header[1:9], "big")
        if op == "P":
            if tail:
                raise ProtocolViolation("a pong with %r after its nonce" % tail)
            return Answer("P", nonce=number)
        if not 1 <= len(tail) <= MAX_KEY_BYTES:
            raise ProtocolViolation("%s with a key of %d bytes" % (op, len(tail)))
        if op == "A":
            return Answer("A", token=number, owner=int.from_bytes(header[9:17], "big"), key=tail)
        if op in "TB":
            return Answer(op, owner=number, key=tail)
        return Answer(op, token=number, key=tail)


# Connections.


class Connection:
    """One connection with deadlines. Answers are handed out in the order of their arrival, except that match() takes
    the first fitting one and leaves the others for later. `when` is the monotonic arrival time of the last answer
    handed out. Not for use by several threads at once."""

    def __init__(self, address, receive_buffer=None, patience=PATIENCE):
        self.patience = patience
        self.when = None
        self._arrived = collections.deque()  # (time, Answer)
        self._parser = AnswerParser()
        self._ended = None  # "eof" or "reset"
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            if receive_buffer is not None:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            self.sock.settimeout(patience)
            self.sock.connect(address)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            self.sock.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def fileno(self):
        return self.sock.fileno()

    # Sending

    def send(self, data):
        """Sends all of data, or raises Ended/Silence."""
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as e:
            raise Ended("reset", str(e)) from None
        except TimeoutError:
            raise Silence("the server did not take %d bytes in %.1f s" % (len(data), self.patience)) from None

    def send_in_one_write(self, data):
        """Gives data to the kernel with a single write(2)."""
        seconds = int(self.patience)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", seconds, 0))
        self.sock.settimeout(None)
        try:
            count = self.sock.send(data)
        finally:
            self.sock.settimeout(self.patience)
        if count != len(data):
            raise Silence("the server took only %d of %d bytes in %d s" % (count, len(data), seconds))

    def send_what_fits(self, data, offset=0):
        """Sends without blocking from offset on; returns how many bytes went, 0 when none fits now."""
        self.sock.settimeout(0)
        try:
            return self.sock.send(memoryview(data)[offset:])
        except BlockingIOError:
            return 0
        except (BrokenPipeError, ConnectionResetError) as e:
            raise Ended("reset", str(e)) from None
        finally:
            self.sock.settimeout(self.patience)

    def shutdown_write(self):
        """Half-close: our side has nothing more to say."""
        self.sock.shutdown(socket.SHUT_WR)

    def abort(self):
        """Ends the connection with a reset; over loopback it has reached the other socket when this returns."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 0))
        self.sock.close()

    def close(self):
        self.sock.close()

    # Receiving

    def poll(self, timeout):
        """Waits at most timeout for bytes and parses them; True if any answer is at hand afterwards."""
        if self._arrived or self._ended is not None:
            return bool(self._arrived)
        readable = select.poll()
        readable.register(self.sock, select.POLLIN)
        if readable.poll(max(0.0, timeout) * 1000):
            self._read_once()
        return bool(self._arrived)

    def _read_once(self):
        try:
            data = self.sock.recv(1 << 18)
        except ConnectionResetError:
            self._ended = "reset"
            return
        now = time.monotonic()
        if not data:
            self._ended = "eof"
            if self._parser.pending:
                raise ProtocolViolation("the stream ends inside an answer: %r" % self._parser.pending)
        for answer in self._parser.feed(data):
            self._arrived.append((now, answer))

    def receive(self, timeout=None):
        """The next answer."""
        answer = self.try_receive(self.patience if timeout is None else timeout)
        if answer is None:
            if self._ended is not None:
                raise Ended(self._ended)
            raise Silence("no answer in %.1f s" % (self.patience if timeout is None else timeout))
        return answer

    def try_receive(self, timeout):
        """The next answer, or None if none came in time or the connection ended."""
        deadline = time.monotonic() + timeout
        while not self._arrived and self._ended is None:
            left = deadline - time.monotonic()
            self.poll(left)
            if left <= 0:
                break
        if not self._arrived:
            return None
        self.when, answer = self._arrived.popleft()
        return answer

    def receive_many(self, count):
        return [self.receive() for _ in range(count)]

    def match(self, fits, timeout=None):
        """The first answer for which fits(answer) holds; the others stay at hand in their order."""
        passed = collections.deque()
        deadline = time.monotonic() + (self.patience if timeout is None else timeout)
        try:
            while True:
                answer = self.receive(max(0.0, deadline - time.monotonic()))
                if fits(answer):
                    return answer
                passed.append((self.when, answer))
        finally:
            passed.extend(self._arrived)
            self._arrived = passed

    def receive_to_end(self):
        """All answers up to the end of the stream, which has to be an end of file: a reset raises Ended."""
        answers = []
        deadline = time.monotonic() + self.patience
        while True:
            answer = self.try_receive(max(0.0, deadline - time.monotonic()))
            if answer is not None:
                answers.append(answer)
            elif self._ended == "eof":
                return answers
            elif self._ended is not None:
                raise Ended(self._ended, "after %r" % answers[-3:])
            elif time.monotonic() >= deadline:
                raise Silence("the server does not close; after %r" % answers[-3:])

    @property
    def ended(self):
        """None, "eof" or "reset", as far as was read."""
        return self._ended

    # Round trips

    def acquire(self, key, owner, wait=0, lease=30):
        self.send(acquire_frame(key, owner, wait, lease))
        return self.match(lambda a: a.op in "ATBE" and (a.op == "E" or (a.owner, a.key) == (owner, key)))

    def release(self, key, token):
        self.send(release_frame(key, token))
        return self.match(lambda a: a.op in "RNE" and (a.op == "E" or (a.token, a.key) == (token, key)))

    def renew(self, key, token, lease=30):
        self.send(renew_frame(key, token, lease))
        return self.match(lambda a: a.op in "KNE" and (a.op == "E" or (a.token, a.key) == (token, key)))

    def ping(self, nonce=0x70696E67):
        self.send(ping_frame(nonce))
        return self.match(lambda a: a.op == "E" or (a.op == "P" and a.nonce == nonce))


def next_answer(connections, timeout=PATIENCE):
    """(connection, answer): the next answer on any of these connections."""
    deadline = time.monotonic() + timeout
    poller = select.poll()
    by_fd = {}
    for c in connections:
        if c.poll(0):
            return c, c.receive()
        if c.ended is not None:
            raise Ended(c.ended, "while waiting on %d connections" % len(connections))
        by_fd[c.fileno()] = c
        poller.register(c.fileno(), select.POLLIN)
    while True:
        left = deadline - time.monotonic()
        for fd, _ in poller.poll(max(0.0, left) * 1000):
            if by_fd[fd].poll(0):
                return by_fd[fd], by_fd[fd].receive()
            if by_fd[fd].ended is not None:
                raise Ended(by_fd[fd].ended, "while waiting on %d connections" % len(connections))
        if left <= 0:
            raise Silence("no answer on any of %d connections in %.1f s" % (len(connections), timeout))
