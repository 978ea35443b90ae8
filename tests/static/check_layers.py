#!/usr/bin/python3
"""Checks that the layers stay apart: server -> replica -> consensus -> protocol <- client, and tests see all.

usage: check_layers.py BUILD_FOLDER     (of preset release, built)

1. No include points upward or sideways, or goes through "..".
2. The pure files include only the system headers on a short list: no socket, file, clock, thread or random number.
3. The pure libraries take nothing from outside but the functions on a short list, whatever their headers offer.
   Only the replica, consensus/replica, knows raft.
4. The build itself keeps the layers apart: with a layer's own compile command, no header of a layer that it must
   not see is found, and an include of one does not compile.
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import tree

SEES = {
    "protocol": ("protocol",),
    "consensus": ("consensus", "protocol"),
    "replica": ("replica", "consensus", "protocol"),
    "server": ("server", "replica", "consensus", "protocol"),
    "client": ("client", "protocol"),
    "tests": tree.LAYERS,
}
# The client's pure core lies beside its drivers: these of its files are pure.
PURE_CLIENT = "lq_(answer|ask|channels?|client_limits|client_planted|core|core_impl|deadline|dial|lease|loss|plan)"
PURE_HEADERS = {
    "endian.h", "inttypes.h", "limits.h", "stdalign.h", "stdbool.h", "stddef.h", "stdint.h", "stdlib.h", "string.h",
    "unistr.h", "xxhash.h", "sodium.h", "sodium/crypto_shorthash.h",
}  # fmt: skip
# What only the replica may include and call beyond that: raft's engine, but not its I/O on libuv.
REPLICA_HEADERS = {"raft.h", "lz4frame.h", "stdarg.h", "stdio.h"}  # stdio: snprintf alone, see the symbols
REPLICA_SYMBOLS = re.compile(r"raft_(?!uv_)\w+|LZ4F_\w+|(__)?v?snprintf(_chk)?|qsort")
PURE_EXCEPTIONS = {"protocol/lq_check.c": {"stdio.h"}}  # says on stderr what failed, then aborts

# Libraries, and which of their objects are pure.
REPLICA_ARCHIVE = "consensus/replica/liblq_replica.a"
PURE_ARCHIVES = {
    "protocol/liblq_protocol.a": r".*",
    "consensus/liblq_consensus.a": r".*",
    REPLICA_ARCHIVE: r".*",
    "client/libloquet.a": PURE_CLIENT + r"\.c\.o",
}
PURE_SYMBOLS = re.compile(
    r"(__)?(mem(cpy|move|set|cmp|chr|mem|rchr)|strn?(len|cmp|chr|rchr))(_chk)?|abort|qsort"
    r"|(m|c|re)alloc|reallocarray|free"
    r"|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|u8_check|XXH\w+|crypto_shorthash(_siphash\w+)?"
)
SYMBOL_EXCEPTIONS = {"lq_check.c.o": {"stderr", "fprintf", "__fprintf_chk"}}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def is_pure(path):
    return path.parts[0] in ("protocol", "consensus") or bool(re.fullmatch(rf"client/{PURE_CLIENT}\.[ch]", str(path)))


def headers_by_layer():
    found = {layer: [] for layer in tree.LAYERS}
    for path in tree.with_suffix(".h"):
        if tree.layer_of(path) in found:
            found[tree.layer_of(path)].append(path)
    return found


def pure_headers(path):
    """System headers that a pure file may include."""
    own = REPLICA_HEADERS if tree.layer_of(path) == "replica" else set()
    return PURE_HEADERS | own | PURE_EXCEPTIONS.get(str(path), set())


def include_faults(path, owners):
    """`owners` gives, by the name of a header, the layers that have one of that name."""
    layer = tree.layer_of(path)
    for kind, name in INCLUDE.findall(tree.read(path)):
        layers = owners.get(pathlib.PurePath(name).name, set())
        if ".." in name:
            yield f"includes {name} by a way around the include folders"
        elif layers and not layers & set(SEES[layer]):
            yield f"includes {name} of {' or '.join(sorted(layers))}, which {layer} must not see"
        elif not layers and kind == '"':
            yield f"includes {name} in quotes, which no layer has"
        elif not layers and is_pure(path) and name not in pure_headers(path):
            yield f"is pure but includes <{name}>: if that is pure too, add it to PURE_HEADERS"
        elif re.match(r"raft(\.h$|/)", name) and layer not in ("replica", "tests"):
            yield f"includes <{name}>, which only the replica knows"


def check_includes(tally, headers):
    owners = {}
    for layer, paths in headers.items():
        for path in paths:
            owners.setdefault(path.name, set()).add(layer)
    for path in tree.with_suffix(".c", ".h"):
        if tree.layer_of(path) in SEES:
            tally.add(path, list(include_faults(path, owners)))


def archive_symbols(archive, pure):
    """(defined, [(object, name) taken from elsewhere]) of the objects of a static library whose names fit `pure`."""
    defined, taken, member = set(), [], ""
    output = subprocess.run(["nm", str(archive)], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        fields = line.split()
        if line.endswith(":"):
            member = line[:-1]
        elif re.fullmatch(pure, member) and len(fields) == 2:
            taken.append((member, fields[1]))
        elif re.fullmatch(pure, member) and len(fields) == 3:
            defined.add(fields[2])
    return defined, taken


def check_symbols(tally, build):
    ours = set()
    for name, pure in PURE_ARCHIVES.items():
        if not (build / name).exists():
            tally.add(name, ["was not built"])
            continue
        defined, taken = archive_symbols(build / name, pure)
        ours |= defined
        faults = [
            f"{member} takes {symbol} from outside: if that is pure, add it to PURE_SYMBOLS"
            for member, symbol in taken
            if symbol not in ours
            and not PURE_SYMBOLS.fullmatch(symbol)
            and not (name == REPLICA_ARCHIVE and REPLICA_SYMBOLS.fullmatch(symbol))
            and symbol not in SYMBOL_EXCEPTIONS.get(member, set())
        ]
        tally.add(name, faults or ([] if taken else ["no object fits " + pure]))


def folder_commands(build):
    """{folder of the tree: (compile command of one of its files without output and input, where it runs)}."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = pathlib.PurePath(os.path.relpath(os.path.join(entry["directory"], entry["file"]), tree.ROOT))
        words = shlex.split(entry["command"])
        quoted = ["-iquote", str(tree.ROOT / path.parent)]  # as the compiler does for a file of that folder
        found.setdefault(path.parent, ([*words[: words.index("-o")], *quoted], entry["directory"]))
    return found


def compiles(command, text):
    words, folder = command
    result = subprocess.run(
        [*words, "-fsyntax-only", "-x", "c", "-"], cwd=folder, input=text, capture_output=True, text=True
    )
    return result.returncode == 0, result.stderr


def folder_faults(folder, command, headers):
    layer = tree.layer_of(folder)
    own = [path.name for path in headers[layer] if path.parent == folder]
    visible = {path.name for seen in SEES[layer] for path in headers[seen]}
    worked, complaint = compiles(command, "".join(f'#include "{name}"\n' for name in own[:1]) + "extern int unused;\n")
    if not worked:
        yield f"an include of its own {own[:1]} does not compile, so this check is worth nothing: {complaint}"
    for other in (other for other in SEES if other not in SEES[layer]):
        names = [path.name for path in headers[other] if path.name not in visible]
        tries = "".join(f'#if __has_include("{name}")\n#error found {name}\n#endif\n' for name in names)
        for name in re.findall(r"error: #error found (\S+)", compiles(command, tries + "extern int unused;\n")[1]):
            yield f"{layer} can include {name} of {other}"
        if names and compiles(command, f'#include "{names[0]}"\nextern int unused;\n')[0]:
            yield f"an include of {names[0]} compiles in {layer}"


def check_build(tally, build, headers):
    commands = folder_commands(build)
    for layer in (layer for layer in SEES if layer != "tests"):
        folders = [folder for folder in commands if folder.parts and tree.layer_of(folder) == layer]
        for folder in folders:
            tally.add(f"folder {folder}", list(folder_faults(folder, commands[folder], headers)))
        if not folders:
            tally.add(f"layer {layer}", ["nothing of it is compiled"])


def main():
    build = pathlib.Path(sys.argv[1])
    tally = tree.Tally()
    headers = headers_by_layer()
    check_includes(tally, headers)
    check_symbols(tally, build)
    check_build(tally, build, headers)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
