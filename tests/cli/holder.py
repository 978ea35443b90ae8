"""A command for `loquet run`: holder.py FOLDER COUNT [WORD...]

COUNT processes in one group (the first is the parent of the others) write the time of CLOCK_BOOTTIME into
FOLDER/beat-PID every 2 ms. WORDs: `stubborn`: all ignore TERM, INT and HUP; `notes`: all write the names of signals that
come into FOLDER/notes and live on; `leave`: the first one ends at once with status 5, the others stay; `away`: the
others leave the group for sessions of their own, and their parent for good, as daemons do; `headless`: the main thread of
each of the others ends, and another one goes on.
"""

import ctypes
import os
import signal
import struct
import sys
import threading
import time

SIGNALS = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "CONT")


def note(number, _):
    with open(os.path.join(sys.argv[1], "notes"), "a", encoding="utf-8") as file:
        file.write(signal.Signals(number).name[3:] + "\n")


def beat(folder):
    fd = os.open(os.path.join(folder, "beat-%d" % os.getpid()), os.O_WRONLY | os.O_CREAT, 0o600)
    while True:
        os.pwrite(fd, struct.pack("d", time.clock_gettime(time.CLOCK_BOOTTIME)), 0)
        time.sleep(0.002)


def main():
    folder, count, words = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    for name in SIGNALS:
        if "notes" in words:
            signal.signal(getattr(signal, "SIG" + name), note)
        elif "stubborn" in words and name in ("TERM", "INT", "HUP"):
            signal.signal(getattr(signal, "SIG" + name), signal.SIG_IGN)
    for _ in range(count - 1):
        if os.fork() == 0:
            if "away" in words:
                os.setsid()
                if os.fork() != 0:
                    os._exit(0)
            if "headless" in words:
                threading.Thread(target=beat, args=(folder,)).start()
                ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)  # exit, of this thread alone
            beat(folder)
    if "leave" in words:
        while len([name for name in os.listdir(folder) if name.startswith("beat-")]) < count - 1:
            time.sleep(0.002)
        os._exit(5)
    beat(folder)


main()
