#!/bin/bash
# Loquet in a minute: builds it, starts a cluster of three nodes on this machine, and kills its leader while one client
# holds a lock and another waits for it. Safe to run again; all that it started is ended with it. Installs missing
# packages of Debian (root or sudo).
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
build=${LQ_BUILD:-$root/build}/release
scratch=$(mktemp -d)
export LOQUET_CLUSTER_DIR=$scratch/cluster
waiter=

# shellcheck disable=SC2317 # run by trap
clean_up() {
    if [ -n "$waiter" ]; then
        kill "$waiter" 2>/dev/null || true
    fi
    wait
    if [ -d "$LOQUET_CLUSTER_DIR" ]; then
        deploy/cluster.sh destroy >/dev/null 2>&1 || true
    fi
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

tell "A cluster of three nodes, each a process with a disk of its own:"
begin=$SECONDS
show deploy/cluster.sh start
show deploy/cluster.sh status
eval "$(deploy/cluster.sh env)"
IFS=, read -r -a node <<<"$LOQUET_ENDPOINTS"
grep -q leader "$scratch/last" || give_up "no node leads"

tell "Let node 3 lead, to kill it later:"
show loquet member transfer 3

tell "Through node 1, take a lock for at most 60 seconds. The token is your proof, and grows with every grant:"
show loquet acquire --endpoints "${node[0]}" --lease 60 backup
first=$(token_in "$scratch/last")

tell "Through node 2, a second taker waits in the queue, first come, first served:"
echo "    \$ loquet acquire --endpoints ${node[1]} --wait 30 backup &"
loquet acquire --endpoints "${node[1]}" --wait 30 backup >"$scratch/waiter" 2>&1 &
waiter=$!
sleep 0.5
[ ! -s "$scratch/waiter" ] || give_up "the waiter did not wait: $(cat "$scratch/waiter")"
echo "      (it waits)"

tell "Now the leader dies:"
show deploy/cluster.sh kill 3
[ ! -s "$scratch/waiter" ] || give_up "the waiter was disturbed: $(cat "$scratch/waiter")"

tell "Who waits does not notice. Release the lock through node 2, with the token that node 1 gave:"
show loquet release --endpoints "${node[1]}" backup "$first"
wait "$waiter" || give_up "the waiter was not granted the lock: $(cat "$scratch/waiter")"
waiter=
second=$(token_in "$scratch/waiter")
echo "      (the waiter:)"
sed 's/^/      /' "$scratch/waiter"
[ "$second" -gt "$first" ] || give_up "token $second is not greater than $first"

tell "Two of three nodes are a majority, and go on. The dead one comes back and catches up:"
show deploy/cluster.sh status || true
show deploy/cluster.sh start
show deploy/cluster.sh status
show loquet release --endpoints "${node[2]}" backup "$second"

tell "Or let loquet hold the lock while a command runs, renew it, and release it at the end:"
# shellcheck disable=SC2016 # the command's own shell fills it in
show loquet run --lease 10 --wait 5 backup -- sh -c 'echo "I alone do the backup, with token $LOQUET_TOKEN"'

tell "That took $((SECONDS - begin)) s. The programs are in $build/server and $build/client/cli;"
echo "deploy/cluster.sh starts a cluster that stays, and loquetd without options is a single server in memory."
