#!/usr/bin/python3
"""A bad cable: copies frames between an interface and a TAP device that it makes, late, out of order, or twice.

    tests/jepsen/wire.py INTERFACE TAP DELAY_MS JITTER_MS REORDER_PERCENT DUPLICATE_PERCENT

Each frame is late by DELAY plus up to JITTER, in both directions, and they keep their order, but for the share of them that
overtakes. Who runs it puts INTERFACE off the bridge and TAP on it, and ends it with SIGTERM.
"""

import fcntl
import heapq
import os
import random
import select
import socket
import struct
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
EVERY_PROTOCOL = 3
FRAME_BYTES = 1 << 16
FRAMES_MAX = 20000  # under way; more are lost


def open_tap(name):
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return tap


def open_interface(name):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL))
    sock.bind((name, EVERY_PROTOCOL))
    sock.setblocking(False)
    return sock


class Wire:
    def __init__(self, interface, tap, delay_s, jitter_s, reorder, duplicate):
        self.interface, self.tap = interface, tap
        self.delay_s, self.jitter_s, self.reorder, self.duplicate = delay_s, jitter_s, reorder, duplicate
        self.random = random.Random()
        self.under_way = []  # (due, count, whether it goes to the TAP, frame)
        self.last_due = {True: 0.0, False: 0.0}
        self.count = 0

    def take(self, to_tap, frame):
        if len(self.under_way) >= FRAMES_MAX:
            return
        due = time.monotonic() + self.delay_s + self.random.uniform(0, self.jitter_s)
        if self.random.random() < self.reorder:
            due -= self.random.uniform(0, self.delay_s)
        else:
            due = self.last_due[to_tap] = max(due, self.last_due[to_tap])
        self._put(due, to_tap, frame)
        if self.random.random() < self.duplicate:
            self._put(due + self.random.uniform(0, self.delay_s + self.jitter_s), to_tap, frame)

    def _put(self, due, to_tap, frame):
        self.count += 1
        heapq.heappush(self.under_way, (due, self.count, to_tap, frame))

    def deliver(self):
        now = time.monotonic()
        while self.under_way and self.under_way[0][0] <= now:
            _, _, to_tap, frame = heapq.heappop(self.under_way)
            try:
                if to_tap:
                    os.write(self.tap, frame)
                else:
                    self.interface.send(frame)
            except OSError:
                pass  # down, or full: it is lost

    def read_interface(self):
        try:
            while True:
                frame, address = self.interface.recvfrom(FRAME_BYTES)
                if address[2] != socket.PACKET_OUTGOING:  # not what we sent ourselves
                    self.take(True, frame)
        except OSError:
            pass  # no more for now, or down

    def read_tap(self):
        try:
            while True:
                self.take(False, os.read(self.tap, FRAME_BYTES))
        except OSError:
            pass

    def run(self):
        while True:
            wait_s = max(0.0, self.under_way[0][0] - time.monotonic()) if self.under_way else None
            ready = select.select([self.interface, self.tap], [], [], wait_s)[0]
            if self.interface in ready:
                self.read_interface()
            if self.tap in ready:
                self.read_tap()
            self.deliver()


def main():
    interface, tap = sys.argv[1:3]
    delay, jitter, reorder, duplicate = (float(text) for text in sys.argv[3:7])
    sock = open_interface(interface)
    Wire(sock, open_tap(tap), delay / 1000, jitter / 1000, reorder / 100, duplicate / 100).run()


if __name__ == "__main__":
    main()
