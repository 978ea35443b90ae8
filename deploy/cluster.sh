#!/bin/bash
# A cluster of loquetd on this machine, for trying and testing: every node a process of its own, on loopback.
#
# usage: deploy/cluster.sh [--dir DIR] [--nodes N] COMMAND [NODE...]
#
#   start [NODE...]   starts nodes, all if none is named, and waits until they are ready. The first time this founds
#                     a cluster of N nodes (3) in DIR, on free ports.
#   stop [NODE...]    ends nodes in an orderly way, all if none is named
#   kill NODE...      ends them as a crash would (SIGKILL)
#   freeze NODE...    stops them from running (SIGSTOP), and
#   thaw NODE...      lets them run again (SIGCONT)
#   status            what every node says of itself
#   leader            prints the number of the leader
#   pid NODE          prints the process id of a node
#   env               prints what to put into the environment of `loquet`: eval "$(deploy/cluster.sh env)"
#   logs [NODE]       prints the log of a node, or all
#   destroy           ends all and removes what was made in DIR, and DIR if nothing else is in it
#
# DIR is build/cluster unless given, here or in LOQUET_CLUSTER_DIR. The programs are those of build/release, unless
# LOQUETD and LOQUET name others. Options of loquetd for all nodes: LOQUET_CLUSTER_OPTIONS.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
release=${LQ_BUILD:-$root/build}/release
loquetd=${LOQUETD:-$release/server/loquetd}
loquet=${LOQUET:-$release/client/cli/loquet}
dir=${LOQUET_CLUSTER_DIR:-$root/build/cluster}
wanted=3

# Long enough for a slow machine with a lot of state.
ready_seconds=30
stop_seconds=10

give_up() {
    echo "cluster: $*" >&2
    exit 1
}

usage() {
    sed -n '2,/^set/{s/^# \{0,1\}//p}' "$0"
}

# ---- What there is. DIR/members has a line per node: number, client, peer and admin address.

field() {
    awk -v node="$1" -v at="$2" '$1 == node { print $at }' "$dir/members"
}

all_nodes() {
    awk '{ print $1 }' "$dir/members"
}

list_of() {
    awk -v at="$1" '{ printf "%s%s", (NR > 1 ? "," : ""), $at }' "$dir/members"
}

need_cluster() {
    [ -s "$dir/members" ] || give_up "there is no cluster in $dir yet: deploy/cluster.sh start"
}

need_node() {
    [ -n "$(field "$1" 1)" ] || give_up "there is no node '$1': the nodes are $(all_nodes | tr '\n' ' ')"
}

# The process of a node, if it runs: the number in the file counts only while it is that of a process which we started.
pid_of() {
    local pid
    pid=$(cat "$dir/node$1/pid" 2>/dev/null) || return 1
    grep -qzxF -- "--data-dir=$dir/node$1/data" "/proc/$pid/cmdline" 2>/dev/null && echo "$pid"
}

# ---- Founding.

# Prints so many TCP ports of loopback that nobody listens on, below those that the kernel gives to outgoing
# connections: they stay free while a node is down.
free_ports() {
    local port taken=' '
    while [ "$(wc -w <<<"$taken")" -lt "$1" ]; do
        port=$((12000 + (RANDOM * 32768 + RANDOM) % 20000))
        [[ $taken != *" $port "* ]] || continue
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || taken+="$port "
    done
    echo "$taken"
}

found() {
    local node ports
    mkdir -p "$dir"
    dir=$(cd "$dir" && pwd)
    [ ! -s "$dir/members" ] || return 0
    read -r -a ports <<<"$(free_ports $((3 * wanted)))"
    for ((node = 1; node <= wanted; node++)); do
        echo "$node 127.0.0.1:${ports[3 * node - 3]} 127.0.0.1:${ports[3 * node - 2]} 127.0.0.1:${ports[3 * node - 1]}"
    done >"$dir/members.new"
    mv "$dir/members.new" "$dir/members"
}

# ---- Starting.

members_option() {
    awk '{ printf "%s%s=%s", (NR > 1 ? "," : ""), $1, $3 }' "$dir/members"
}

launch() {
    local node=$1
    mkdir -p "$dir/node$node"
    # shellcheck disable=SC2086 # a list of options
    setsid "$loquetd" --node-id="$node" --name="node$node" --data-dir="$dir/node$node/data" \
        --listen="$(field "$node" 2)" --peer="$(field "$node" 3)" --admin="$(field "$node" 4)" \
        --bootstrap --initial-cluster="$(members_option)" ${LOQUET_CLUSTER_OPTIONS:-} \
        </dev/null >/dev/null 2>>"$dir/node$node/log" &
    echo $! >"$dir/node$node/pid"
    disown
}

is_ready() {
    local address
    address=$(field "$1" 4)
    exec 3<>"/dev/tcp/${address%:*}/${address##*:}" || return 1
    printf 'GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
    timeout 1 head -1 <&3 | grep -q ' 200 '
} 2>/dev/null

wait_until_ready() {
    local node until=$((SECONDS + ready_seconds))
    for node; do
        until is_ready "$node"; do
            kill -0 "$(cat "$dir/node$node/pid")" 2>/dev/null ||
                give_up "node $node has ended: $(tail -3 "$dir/node$node/log")"
            [ $SECONDS -lt $until ] ||
                give_up "node $node is not ready after $ready_seconds s; see deploy/cluster.sh logs $node"
            sleep 0.02
        done
    done
}

start() {
    local node
    [ -x "$loquetd" ] || give_up "$loquetd is not there: build it (deploy/quickstart.sh does), or set LOQUETD"
    found
    [ $# -gt 0 ] || mapfile -t nodes < <(all_nodes)
    for node in "${nodes[@]}"; do
        need_node "$node"
        pid_of "$node" >/dev/null || launch "$node"
    done
    wait_until_ready "${nodes[@]}"
}

# ---- Ending.

# wait_gone PID NODE
wait_gone() {
    local until=$((SECONDS + stop_seconds))
    while pid_of "$2" >/dev/null; do
        if [ $SECONDS -ge $until ]; then
            kill -KILL "$1" 2>/dev/null || true
            give_up "node $2 did not stop within $stop_seconds s, and was killed"
        fi
        sleep 0.02
    done
}

# end_nodes SIGNAL NODE...
end_nodes() {
    local signal=$1 node pid
    shift
    for node; do
        need_node "$node"
        if pid=$(pid_of "$node"); then
            kill -"$signal" "$pid"
            [ "$signal" != TERM ] || kill -CONT "$pid"
        fi
    done
    for node; do
        if pid=$(pid_of "$node"); then
            wait_gone "$pid" "$node"
        fi
        rm -f "$dir/node$node/pid"
    done
}

signal_nodes() {
    local signal=$1 node pid
    shift
    for node; do
        need_node "$node"
        pid=$(pid_of "$node") || give_up "node $node does not run"
        kill -"$signal" "$pid"
    done
}

# ---- Looking.

leader() {
    local node address answer
    for node in $(all_nodes); do
        address=$(field "$node" 4)
        answer=$({
            exec 3<>"/dev/tcp/${address%:*}/${address##*:}" || exit
            printf 'GET /v1/status HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
            timeout 1 cat <&3
        } 2>/dev/null) || true
        if grep -q '"role": *"leader"' <<<"$answer"; then
            echo "$node"
            return 0
        fi
    done
    give_up "no node says that it leads"
}

show_logs() {
    local node
    for node; do
        need_node "$node"
        sed "s/^/node$node /" "$dir/node$node/log"
    done
}

# ---- What was asked for.

while [ $# -gt 0 ]; do
    case $1 in
    --dir) dir=${2:?--dir needs a folder} && shift 2 ;;
    --nodes) wanted=${2:?--nodes needs a number} && shift 2 ;;
    -h | --help) usage && exit 0 ;;
    -*) give_up "no option is called '$1': see --help" ;;
    *) break ;;
    esac
done
command=${1:-}
[ -n "$command" ] || {
    usage >&2
    exit 64
}
shift
nodes=("$@")
[[ $wanted =~ ^[1-7]$ ]] || give_up "--nodes: '$wanted' is not a number from 1 to 7"
case $command in
start) start "$@" && exit 0 ;;
esac
need_cluster
dir=$(cd "$dir" && pwd)
case $command in
destroy) [ $# -eq 0 ] || give_up "destroy removes the whole cluster: take out a node with 'loquet member remove'" ;;
stop | logs) [ $# -gt 0 ] || mapfile -t nodes < <(all_nodes) ;;
kill | freeze | thaw | pid) [ $# -gt 0 ] || give_up "$command: which nodes? They are $(all_nodes | tr '\n' ' ')" ;;
esac
case $command in
stop) end_nodes TERM "${nodes[@]}" ;;
kill) end_nodes KILL "${nodes[@]}" ;;
freeze) signal_nodes STOP "${nodes[@]}" ;;
thaw) signal_nodes CONT "${nodes[@]}" ;;
status) "$loquet" status --admin "$(list_of 4)" ;;
leader) leader ;;
pid) pid_of "${nodes[0]}" || give_up "node ${nodes[0]} does not run" ;;
env)
    echo "export LOQUET_ENDPOINTS=$(list_of 2)"
    echo "export LOQUET_ADMIN=$(list_of 4)"
    ;;
logs) show_logs "${nodes[@]}" ;;
destroy)
    mapfile -t nodes < <(all_nodes)
    end_nodes KILL "${nodes[@]}"
    for node in "${nodes[@]}"; do
        rm -rf "$dir/node$node"
    done
    rm -f "$dir/members"
    rmdir "$dir" 2>/dev/null || echo "cluster: $dir stays, since there are other things in it"
    ;;
*) give_up "no command is called '$command': see --help" ;;
esac
