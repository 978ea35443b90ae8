#!/usr/bin/env bash
# Loquet beside Redis and beside a bare echo server: the same load generator, the same shape, in one run, in alternating
# rounds. Prints medians and fails if a goal is missed (compare_report.py has the goals).
#
#   LOQUETD=path/to/loquetd tests/bench/compare_redis.sh [--rounds N] [--duration S] [--out FOLDER]
#
# LOQUETD   the server (default: the one of the release build)
# LQ_BENCH  the load generator (default: the one of the release build, else it is built in build/bench)
# Missing packages are installed with apt-get, as root or through sudo. Everything listens on free ports of 127.0.0.1 and
# is gone at the end. Exit status: 0 all goals met, 1 a goal missed or a run failed, 64 bad options, 69 something missing.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
rounds=5
duration=5
out=
connections=64
depths="1 16"
key_bytes=32
key_set=100000
pids=()

usage()
{
    sed -n '2,10s/^# \{0,1\}//p' "$0"
}

die()
{
    echo "compare_redis: $2" >&2
    exit "$1"
}

parse()
{
    while [ $# -gt 0 ]; do
        case "$1" in
        --rounds | --duration | --out)
            [ $# -ge 2 ] || die 64 "$1 needs a value"
            printf -v "${1#--}" '%s' "$2"
            shift 2
            ;;
        --help)
            usage
            exit 0
            ;;
        *)
            die 64 "'$1' is not an option: --help lists them"
            ;;
        esac
    done
    [[ $rounds =~ ^[1-9][0-9]*$ ]] || die 64 "--rounds: '$rounds' is not a number above 0"
    [[ $duration =~ ^[0-9]+(\.[0-9]+)?$ ]] || die 64 "--duration: '$duration' is not a number of seconds"
}

as_root()
{
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Installs what is missing. The package redis-server starts a service; one that came only now is stopped again.
install_missing()
{
    local packages=()
    command -v redis-server >/dev/null || packages+=(redis-server)
    command -v redis-cli >/dev/null || packages+=(redis-tools)
    if [ ! -x "$LQ_BENCH" ]; then
        command -v cmake >/dev/null || packages+=(cmake)
        command -v cc >/dev/null || packages+=(gcc libc6-dev make)
        command -v pkg-config >/dev/null || packages+=(pkg-config)
        [ -e /usr/include/hiredis/hiredis.h ] || packages+=(libhiredis-dev)
        [ -e /usr/include/jansson.h ] || packages+=(libjansson-dev)
    fi
    [ ${#packages[@]} -gt 0 ] || return 0
    echo "installing: ${packages[*]}"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}" >/dev/null
    if [[ " ${packages[*]} " == *" redis-server "* ]]; then
        as_root update-rc.d redis-server disable >/dev/null 2>&1 || true
        as_root service redis-server stop >/dev/null 2>&1 || true
    fi
}

build_bench()
{
    [ ! -x "$LQ_BENCH" ] || return 0
    LQ_BENCH=$root/build/bench/lq_bench
    if ! { cmake -S "$here" -B "$root/build/bench" && cmake --build "$root/build/bench"; } >"$tmp/build.log" 2>&1; then
        cat "$tmp/build.log" >&2
        die 69 "lq_bench can't be built, see above"
    fi
    [ -x "$LQ_BENCH" ] || die 69 "lq_bench was left out: $(grep 'left out' "$tmp/build.log")"
}

cleanup()
{
    local pid
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$tmp"
}

# start_logged NAME COMMAND...: starts a server that logs msg=listening address=..., sets NAME_pid and NAME_at.
start_logged()
{
    local name=$1 log=$tmp/$1.log address=''
    shift
    "$@" >/dev/null 2>"$log" &
    pids+=($!)
    printf -v "${name}_pid" '%s' $!
    for _ in {1..200}; do
        address=$(sed -n 's/.*msg=listening.* address=\([^ ]*\).*/\1/p' "$log" | head -n 1)
        [ -z "$address" ] || break
        kill -0 "${pids[-1]}" 2>/dev/null || break
        sleep 0.05
    done
    [ -n "$address" ] || { cat "$log" >&2; die 69 "$1 does not listen, its log is above"; }
    printf -v "${name}_at" '%s' "$address"
}

free_port()
{
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Redis can't choose a port itself, so another program may take ours first: then it is another one.
start_redis()
{
    local port
    for _ in {1..5}; do
        port=$(free_port)
        mkdir -p "$tmp/redis"
        redis-server --port "$port" --bind 127.0.0.1 --save "" --appendonly no --dir "$tmp/redis" \
            >"$tmp/redis.log" 2>&1 &
        pids+=($!)
        redis_pid=$!
        # shellcheck disable=SC2034 # run_one reads it by name
        redis_at=127.0.0.1:$port
        for _ in {1..200}; do
            kill -0 "$redis_pid" 2>/dev/null || break
            [ "$(redis-cli -p "$port" ping 2>/dev/null)" != PONG ] || return 0
            sleep 0.05
        done
    done
    cat "$tmp/redis.log" >&2
    die 69 "redis-server does not start, its log is above"
}

# run_one PROTOCOL DEPTH ROUND: one run, its report goes to a file of its own.
run_one()
{
    local at=$1_at pid=$1_pid
    "$LQ_BENCH" --json --protocol "$1" --target "${!at}" --server-pid "${!pid}" --connections "$connections" \
        --depth "$2" --keys own --key-set "$key_set" --key-bytes "$key_bytes" --seed "$3" --warmup 1 \
        --duration "$duration" >"$out/$1-$2-$3.json" ||
        { cat "$out/$1-$2-$3.json" >&2; die 1 "the run of $1 at depth $2 failed, its report is above"; }
}

parse "$@"
: "${LOQUETD:=$root/build/release/server/loquetd}"
: "${LQ_BENCH:=$root/build/release/tests/bench/lq_bench}"
[ -x "$LOQUETD" ] || die 69 "no loquetd at $LOQUETD: set LOQUETD to its path, or build the release preset"
tmp=$(mktemp -d)
trap cleanup EXIT
trap 'exit 130' INT TERM
if [ -z "$out" ]; then out=$tmp/out; fi
mkdir -p "$out"
install_missing
build_bench

start_logged loquet "$LOQUETD" --listen 127.0.0.1:0
start_logged echo "$LQ_BENCH" --echo-server --listen 127.0.0.1:0
start_redis
echo "$(redis-server --version | cut -d' ' -f1-3); $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg)"
for ((round = 1; round <= rounds; round++)); do
    for depth in $depths; do
        for protocol in loquet redis echo; do
            run_one "$protocol" "$depth" "$round"
        done
    done
    echo "round $round of $rounds done"
done
/usr/bin/python3 "$here/compare_report.py" "$out"
