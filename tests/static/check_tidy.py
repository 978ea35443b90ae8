#!/usr/bin/python3
"""clang-tidy over every C file that some build compiles; a C file that no build compiles is a fault.

usage: check_tidy.py STAMP_FOLDER BUILD_FOLDER...

The compile commands come from the build folders (presets dev, fuzz and planted). A file that was clean is not looked at again
as long as it, the headers it includes, its command and .clang-tidy stay the same: its stamp lies in STAMP_FOLDER.
LQ_JOBS files are checked at the same time, 2 if not set.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

import tree


def commands(build_folders):
    """{path relative to the tree: (build folder, arguments, folder to run in)}, the first folder winning."""
    found = {}
    for folder in build_folders:
        database = pathlib.Path(folder) / "compile_commands.json"
        for entry in json.loads(database.read_text(encoding="utf-8")):
            path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), tree.ROOT)
            found.setdefault(path, (folder, shlex.split(entry["command"]), entry["directory"]))
    return found


def stamp_of(path, arguments, folder):
    """A name for all that the result depends on."""
    plain = [a for i, a in enumerate(arguments) if a not in ("-o", "-c") and arguments[i - 1] != "-o"]
    result = subprocess.run([*plain, "-MM"], cwd=folder, capture_output=True, text=True)
    headers = result.stdout.replace("\\\n", " ").partition(":")[2].split()
    digest = hashlib.sha256(json.dumps(arguments).encode())
    for name in [tree.ROOT / ".clang-tidy", tree.ROOT / "tests/.clang-tidy", tree.ROOT / path, *headers]:
        digest.update(pathlib.Path(folder, name).read_bytes())
    return digest.hexdigest()


def check(path, known, stamps):
    if path not in known:
        return ["no build compiles it, so nothing checks it"]
    folder, arguments, where = known[path]
    stamp = stamps / stamp_of(path, arguments, where)
    if stamp.exists():
        return []
    result = subprocess.run(
        ["clang-tidy", "--quiet", "-p", folder, str(path)], cwd=tree.ROOT, capture_output=True, text=True
    )
    if result.returncode == 0:
        stamp.touch()
        return []
    lines = (result.stdout + result.stderr).splitlines()
    return [line for line in lines if " error: " in line or " warning: " in line] or lines or ["clang-tidy failed"]


def main():
    stamps = pathlib.Path(sys.argv[1])
    stamps.mkdir(parents=True, exist_ok=True)
    known = commands(sys.argv[2:])
    paths = [str(path) for path in tree.with_suffix(".c")]
    tally = tree.Tally()
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("LQ_JOBS", "2"))) as pool:
        for path, faults in zip(paths, pool.map(lambda path: check(path, known, stamps), paths)):
            tally.add(path, faults)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
