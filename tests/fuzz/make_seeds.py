#!/usr/bin/python3
"""Writes the bytes of every golden vector and stream to a file of its own, as seeds for fuzz_frame.

usage: make_seeds.py FOLDER GOLDEN_FILE...
"""

import json
import pathlib
import sys


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        hexes = {vector["name"]: vector["hex"] for vector in content["vectors"]}
        for stream in content["streams"]:
            hexes["stream-" + stream["name"]] = "".join(hexes[name] for name in stream["of"])
        for name, text in hexes.items():
            (folder / f"{content['direction']}-{name}").write_bytes(bytes.fromhex(text))


if __name__ == "__main__":
    main()
