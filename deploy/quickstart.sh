#!/bin/bash
# Loquet in a minute: builds it, starts a server on a free port of this machine, and shows what a lock does.
# Safe to run again; all that it started is ended with it. Installs missing packages of Debian (root or sudo).
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
build=${LQ_BUILD:-$root/build}/release
scratch=$(mktemp -d)
server=
waiter=

# shellcheck disable=SC2317 # run by trap
clean_up() {
    local pid
    for pid in $waiter $server; do
        kill "$pid" 2>/dev/null || true
    done
    wait
    rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

tell() {
    printf '\n%s\n' "$*"
}

give_up() {
    echo "quickstart: $*" >&2
    exit 1
}

# Shows a command, runs it, and shows what it printed.
show() {
    local word line=
    for word in "$@"; do
        [[ $word != *[\ \"\$]* ]] || word="'$word'"
        line="$line $word"
    done
    echo "    \$$line"
    "$@" 2>&1 | tee "$scratch/last" | sed 's/^/      /'
}

# The token in the output of an acquire.
token_in() {
    sed -n 's/^token //p' "$1"
}

# Waits up to 10 s until a command succeeds.
until_true() {
    for _ in $(seq 200); do
        if "$@"; then
            return 0
        fi
        sleep 0.05
    done
    return 1
}

tell "Setting up and building (the first time takes a minute) ..."
deploy/install-deps.sh build
options=()
[ -e "$build/CMakeCache.txt" ] || options=(-DLOQUET_TESTS=OFF) # the tests need more packages
if ! { cmake --preset release -B "$build" "${options[@]}" &&
    cmake --build "$build" -j "$(nproc)" --target loquetd loquet; } >"$scratch/log" 2>&1; then
    tail -30 "$scratch/log" >&2
    give_up "the build failed, see above"
fi
PATH=$build/server:$build/client/cli:$PATH

tell "A server, on a free port:"
echo "    \$ loquetd --listen 127.0.0.1:0 &"
loquetd --listen 127.0.0.1:0 2>"$scratch/server.log" &
server=$!
listening() {
    grep -q 'msg=listening' "$scratch/server.log" || ! kill -0 "$server" 2>/dev/null
}
until_true listening || give_up "the server does not say that it listens"
LOQUET_ENDPOINTS=$(sed -n 's/.*msg=listening address=//p' "$scratch/server.log")
[ -n "$LOQUET_ENDPOINTS" ] || give_up "the server did not start: $(cat "$scratch/server.log")"
export LOQUET_ENDPOINTS
show loquet ping

tell "Take a lock for at most 60 seconds. The token is your proof, and grows with every grant:"
show loquet acquire --lease 60 backup
first=$(token_in "$scratch/last")

tell "It is taken now. Who does not want to wait is told so:"
if show loquet acquire backup; then
    give_up "two holders at once"
fi

tell "A second taker waits in the queue, first come, first served:"
echo "    \$ loquet acquire --wait 30 backup &"
loquet acquire --wait 30 backup >"$scratch/waiter" 2>&1 &
waiter=$!
sleep 1
[ ! -s "$scratch/waiter" ] || give_up "the waiter did not wait: $(cat "$scratch/waiter")"
echo "      (a second later: it still waits)"

tell "Release the lock. It goes straight to the waiter, with a greater token:"
show loquet release backup "$first"
wait "$waiter" || give_up "the waiter was not granted the lock: $(cat "$scratch/waiter")"
waiter=
second=$(token_in "$scratch/waiter")
sed 's/^/      /' "$scratch/waiter"
[ "$second" -gt "$first" ] || give_up "token $second is not greater than $first"
show loquet release backup "$second"

tell "Or let loquet hold the lock while a command runs, renew it, and release it at the end:"
# shellcheck disable=SC2016 # the command's own shell fills it in
show loquet run --lease 10 --wait 5 backup -- sh -c 'echo "I alone do the backup, with token $LOQUET_TOKEN"'

tell "Stopping the server:"
kill "$server"
wait "$server" || give_up "the server did not end well: $(cat "$scratch/server.log")"
server=
echo "    done. The programs are in $build/server and $build/client/cli."
