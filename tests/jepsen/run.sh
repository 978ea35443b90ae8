#!/bin/bash
# Hurts a real cluster at random, and judges what its clients were told. Builds what is needed first.
#
# usage: tests/jepsen/run.sh [--runs N] [--nemesis NAME[,NAME...]] [--time S] [--seed N] [--nodes N] [--with PRESET] [...]
#   --runs N    so many runs, one after the other, until one is bad; a seed that is given grows by one with each
#   --list      the nemeses, and what this machine lacks for them
#   --help      all options
# Exit status 0: all good; 1: a rule was broken; 2: a run itself failed. docs/testing.md tells more.
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
export LQ_BUILD=${LQ_BUILD:-$root/build}
export PYTHONDONTWRITEBYTECODE=1

runs=1 seed='' preset=release build='' help=''
options=()
while [ $# -gt 0 ]; do
    case $1 in
    --runs) runs=$2 && shift 2 ;;
    --seed) seed=$2 && shift 2 ;;
    --with) preset=$2 && shift 2 ;;
    --build) build=$2 && shift 2 ;;
    -h | --help) help=yes && shift ;;
    *) options+=("$1") && shift ;;
    esac
done
if [ -n "$help" ]; then
    sed -n '2,/^set/{s/^# \{0,1\}//p}' "$0"
    exec "$root/tests/jepsen/jepsen.py" --help
fi

cd "$root" || exit 2
if [ -n "$build" ]; then
    options+=(--build "$build")
else
    options+=(--with "$preset")
    log=$(mktemp)
    if ! tests/lib/parts.sh packages >"$log" 2>&1 || ! tests/lib/parts.sh build "$preset" >>"$log" 2>&1; then
        tail -20 "$log"
        rm -f "$log"
        exit 2
    fi
    rm -f "$log"
fi

for ((i = 0; i < runs; i++)); do
    repeat=()
    [ -z "$seed" ] || repeat=(--seed "$((seed + i))")
    tests/jepsen/jepsen.py "${options[@]}" "${repeat[@]}"
    status=$?
    [ "$status" -eq 0 ] || exit "$status"
done
