"""Writes numbered records in several durable ways until it is killed, one thread each; tells on stdout what was made
durable. The victim of test_kill.py, which knows how to read them.

    preallocated  512-byte records into a file of zeros, pwritev with RWF_DSYNC
    appended      32-byte records at the end of a file, fdatasync, two records a sync
    renamed       a whole file under a temporary name, fsync, renamed over the last one, its directory synced
    removed       file N is made and synced, then file N - 2 is removed, then the directory is synced
"""

import os
import sys
import threading

SLOTS = 256


def record(number, size):
    return (b"%d " % number).ljust(size - 1, b"%d" % (number % 10)) + b"\n"


def say(way, number):
    os.write(1, b"%s %d\n" % (way.encode(), number))


def sync_dir():
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)


def preallocated(number):
    new = not os.path.exists("preallocated")
    fd = os.open("preallocated", os.O_RDWR | os.O_CREAT, 0o600)
    if new or os.fstat(fd).st_size < SLOTS * 512:
        os.posix_fallocate(fd, 0, SLOTS * 512)
        os.fsync(fd)
        sync_dir()
    while True:
        os.pwritev(fd, [record(number, 512)], number % SLOTS * 512, os.RWF_DSYNC)
        say("preallocated", number)
        number += 1


def appended(number):
    fd = os.open("appended", os.O_WRONLY | os.O_CREAT, 0o600)
    sync_dir()
    os.ftruncate(fd, number * 32)
    os.lseek(fd, 0, os.SEEK_END)
    while True:
        os.write(fd, record(number, 32))
        os.writev(fd, [record(number + 1, 32)])
        os.fdatasync(fd)
        number += 2
        say("appended", number - 1)


def renamed(number):
    while True:
        fd = os.open("renamed.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(fd, record(number, 3000))
        os.fsync(fd)
        os.close(fd)
        os.rename("renamed.tmp", "renamed")
        sync_dir()
        say("renamed", number)
        number += 1


def removed(number):
    while True:
        fd = os.open("file-%d" % number, os.O_WRONLY | os.O_CREAT, 0o600)
        os.ftruncate(fd, 0)
        os.pwrite(fd, record(number, 700), 0)
        os.fsync(fd)
        os.close(fd)
        if os.path.exists("file-%d" % (number - 2)):
            os.unlink("file-%d" % (number - 2))
        sync_dir()
        say("removed", number)
        number += 1


def main():
    """DIR WAY=FIRST...: each way begins with record FIRST."""
    os.chdir(sys.argv[1])
    for argument in sys.argv[2:]:
        way, first = argument.split("=")
        threading.Thread(target=globals()[way], args=(int(first),)).start()


if __name__ == "__main__":
    main()
