#!/bin/bash
# Builds libraft with its assertions in: the distribution's library is built without them, and misuse of it is silent.
# The source is that of the Debian package libraft-dev which is installed; it is fetched through apt, checked by apt,
# and built only when FOLDER does not hold that version yet. Prints the path of the static library.
#
# usage: tests/sim/raft_assertions.sh FOLDER         (then: cmake -DLOQUET_RAFT_PREFIX=FOLDER ...)
#
# Needs the packages of deploy/install-deps.sh build. Changes nothing in the system and needs no root: apt gets source
# entries, lists and cache of its own in a temporary folder.
set -euo pipefail

give_up() {
    [ -z "${log:-}" ] || grep -E '^(E|W|Err):|error:' "$log" | head -20 >&2 || true
    echo "raft_assertions: $*" >&2
    exit 1
}

# Prints the files in which apt's sources name the archive that the installed package came from.
entries() {
    local version suite
    version=$(dpkg-query -W -f '${Version}' libraft-dev)
    suite=$(apt-cache madison libraft-dev |
        awk -v version="$version" '$3 == version && $NF == "Packages" { sub("/.*", "", $6); print $6; exit }')
    [ -n "$suite" ] || return 0
    # shellcheck disable=SC2016 # the field's name is for apt
    apt-get indextargets --format '$(SOURCESENTRY)' 'Created-By: Packages' "Release: $suite" |
        sed 's/:[0-9]*$//' | sort -u
}

# fetch SOURCE VERSION: leaves its upstream archive, to which Debian's package adds no patch, in the current folder.
fetch() {
    local file files apt
    mapfile -t files < <(entries)
    [ ${#files[@]} -gt 0 ] || give_up "no entry in apt's sources has the installed libraft-dev"
    mkdir -p apt/parts apt/lists/partial apt/cache/archives/partial
    for file in "${files[@]}"; do
        sed 's/^Types:.*/Types: deb-src/; s/^deb[[:space:]]/deb-src /' "$file" >"apt/parts/${file##*/}"
    done
    apt=(apt-get -qq -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$PWD/apt/parts"
        -o "Dir::State::Lists=$PWD/apt/lists" -o "Dir::Cache=$PWD/apt/cache" -o "APT::Sandbox::User=$(id -un)")
    "${apt[@]}" update >"$log" 2>&1 || true # what is missing shows in the next step
    "${apt[@]}" source --only-source --tar-only "$1=$2" >>"$log" 2>&1 ||
        give_up "apt-get could not fetch the source of $1 $2 (no network, or a mirror without sources)"
}

# Builds the engine alone: no uv, no fixture. The header is the installed one, so that all structs are laid out alike.
compile() {
    local sources symbols top=$PWD
    mkdir -p made/include made/lib objects
    tar -xf ./*.orig.tar.?z* --strip-components=1
    cp "$(pkg-config --variable=includedir raft)/raft.h" include/
    cp include/raft.h made/include/
    mapfile -t sources < <(find "$top/src" -name '*.c' ! -name 'uv*' ! -name 'fixture.c')
    (cd objects && cc -c -std=c11 -D_GNU_SOURCE -DV0_ENABLED -UNDEBUG -O2 -g -fPIC -fno-omit-frame-pointer -w \
        "-ffile-prefix-map=$top=libraft" "${sources[@]}") >"$log" 2>&1 || give_up "libraft does not compile"
    ar rcs made/lib/libraft.a objects/*.o
    symbols=$(nm made/lib/libraft.a)
    grep -q 'U __assert_fail$' <<<"$symbols" || give_up "the library has no assertions"
    grep -q 'T raft_step$' <<<"$symbols" || give_up "the library has no raft_step"
}

[ $# -eq 1 ] || { sed -n '2,/^set/{s/^# \{0,1\}//p}' "$0" && exit 2; }
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
read -r source version < <(dpkg-query -W -f '${source:Package} ${source:Version}\n' libraft-dev 2>/dev/null) ||
    give_up "libraft-dev is not installed: run deploy/install-deps.sh build"

if [ "$(cat "$prefix/version" 2>/dev/null)" != "$version" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cd "$work"
    log=$work/log
    fetch "$source" "$version"
    compile
    rm -f "$prefix/version"
    cp -r made/include made/lib "$prefix/"
    echo "$version" >"$prefix/version"
fi
echo "$prefix/lib/libraft.a"
