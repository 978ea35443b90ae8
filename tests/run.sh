#!/bin/bash
# Builds Loquet in every way that its tests need and runs all tests. Quiet when all is well: one line for each part,
# then "N passed, N failed". docs/testing.md tells more.
#
# usage: tests/run.sh [--long] [--only NAME]... [--list]
#   --only NAME   this part and what it needs; NAME may be a pattern such as 'static-*'
#   --long        the same programs with bigger numbers, for a night
#   --list        the parts, their time limits in seconds and what each needs
# The environment variable LQ_BUILD names another folder than build/ for all that is made on the way.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
export LQ_BUILD=${LQ_BUILD:-$root/build}
export PYTHONDONTWRITEBYTECODE=1

# The table of all parts, run in this order. "counts": `tests` when the part prints its own numbers (and must have run
# at least one test), `one` when it is a single check. The command is one of tests/lib/parts.sh.
#
#   name             limit  needs                      counts  command
parts='
    packages            900  -                          one     packages
    build-release       600  packages                   one     build release
    build-dev           600  packages                   one     build dev
    build-fuzz          600  packages                   one     build fuzz
    build-planted       600  packages                   one     build planted
    build-assertions    600  packages                   one     build assertions
    build-tsan          600  packages                   one     build tsan
    static-format        60  packages                   tests   static check_format.py
    static-lengths       60  packages                   tests   static check_lengths.py
    static-scripts       60  packages                   tests   static check_scripts.py
    static-docs          60  packages                   tests   static check_docs.py
    static-layers        60  build-release              tests   layers
    static-tidy         600  build-dev,build-fuzz,build-planted  tests   tidy
    golden               60  build-release              tests   golden
    unit-release        180  build-release              tests   unit release
    unit-dev            300  build-dev                  tests   unit dev
    unit-valgrind       600  build-release              tests   unit release valgrind
    unit-assertions     180  build-assertions           tests   unit assertions
    client-tsan         180  build-release,build-tsan   tests   client_tsan
    sim                 600  build-release              tests   sim release
    sim-repeat          120  build-release              tests   sim_repeat
    sim-sanitize        600  build-dev                  tests   sim dev
    sim-assertions      300  build-assertions           tests   sim assertions
    sim-planted         900  build-planted              tests   sim_planted
    client-planted      120  build-planted              tests   client_planted
    sim-failover        240  build-release              tests   sim_failover
    fuzz                300  build-fuzz                 tests   fuzz
    cli                 180  build-release              tests   cli release
    cli-dev             240  build-dev                  tests   cli dev
    integration         240  build-release              tests   integration release
    integration-dev     300  build-dev                  tests   integration dev
    faults              180  build-release              tests   faults
    judge               180  build-release              tests   judge
    cluster             400  build-release              tests   cluster
    cluster-matrix      180  build-release              tests   cluster_matrix
    library             180  build-release              tests   library
    jepsen              300  build-release,build-dev,build-planted  tests  jepsen
    bench               120  build-release              tests   bench
    quickstart          120  build-release              one     quickstart
'

usage() {
    sed -n '2,/^set/{s/^# \{0,1\}//p}' "$0"
}

# ---- Reading the table.

names=()
declare -A limit=() needs=() counts=() command=() state=()
while read -r name the_limit the_needs the_counts the_command; do
    [ -n "$name" ] || continue
    names+=("$name")
    limit[$name]=$the_limit
    [ "$the_needs" != - ] || the_needs=
    needs[$name]=${the_needs//,/ }
    counts[$name]=$the_counts
    command[$name]=$the_command
done <<<"$parts"

list() {
    local name
    for name in "${names[@]}"; do
        printf '%-16s %5s s   %s\n' "$name" "${limit[$name]}" "${needs[$name]}"
    done
}

declare -A chosen=()
choose() {
    local name needed
    for name in "${names[@]}"; do
        # shellcheck disable=SC2053 # the right side is meant as a pattern
        if [[ $name == $1 ]]; then
            chosen[$name]=yes
            for needed in ${needs[$name]}; do
                choose "$needed"
            done
        fi
    done
}

# ---- Running one part.

# Processes that carry the mark of this run, whatever group or session they moved to.
marked_pids() {
    grep -lsz "^LQ_TEST_RUN=$mark\$" /proc/[0-9]*/environ | cut -d/ -f3
}

# Ends what is left of a part. Prints what it was.
end_marked() {
    local pids
    pids=$(marked_pids)
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        [ -n "$pids" ] || return 0
        sleep 0.1
        pids=$(marked_pids)
    done
    # shellcheck disable=SC2086 # a list of numbers
    [ -z "$pids" ] || ps -o pid=,args= -p "${pids//$'\n'/,}"
    # shellcheck disable=SC2086
    kill -TERM $pids 2>/dev/null
    sleep 0.5
    # shellcheck disable=SC2046
    kill -KILL $(marked_pids) 2>/dev/null
}

# Adds up what a log says about passed and failed tests: the summaries of Check and of Python's unittest, and plain
# "N passed, N failed" lines, with or without the "3: " that ctest puts before them.
count_log() {
    awk '
        { sub(/^[0-9]+: /, "") }
        /^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+/ {
            gsub(/[^0-9 ]/, "")
            passed += $2 - $3 - $4; failed += $3 + $4
        }
        /^[0-9]+ passed, [0-9]+ failed/ { passed += $1; failed += $3 }
        /^Ran [0-9]+ tests? in / { passed += $2 }
        /^FAILED \((failures|errors)=/ {
            gsub(/[^0-9 ]/, "")
            passed -= $1 + $2 + $3; failed += $1 + $2 + $3
        }
        END { print passed + 0, failed + 0 }' "$1"
}

passed=0
failed=0
running=

fail() {
    local name=$1 log=$2 why=$3
    printf 'FAILED %-16s %s\n' "$name" "$why"
    if [ -s "$log" ]; then
        tail -n 60 "$log" | sed 's/^/    /'
        echo "    the whole log: $log"
    fi
}

run_part() {
    local name=$1 log=$logs/$1.log needed status leftover good bad why=
    local begin=$SECONDS
    for needed in ${needs[$name]}; do
        if [ "${state[$needed]:-}" != ok ]; then
            failed=$((failed + 1))
            fail "$name" /dev/null "not run: it needs $needed"
            return
        fi
    done
    mark=$$-$name
    # shellcheck disable=SC2086 # command words
    LQ_TEST_RUN=$mark timeout --kill-after=5 "$((limit[$name] * longer))" \
        tests/lib/parts.sh ${command[$name]} >"$log" 2>&1 </dev/null &
    running=$!
    wait "$running"
    status=$?
    running=
    leftover=$(end_marked)
    read -r good bad < <(count_log "$log")
    [ "${counts[$name]}" = tests ] || good=1 bad=0
    if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
        why="ran longer than $((limit[$name] * longer)) s"
    elif [ "$status" -ne 0 ]; then
        why="status $status"
    elif [ "$bad" -gt 0 ]; then
        why="$bad of its tests failed"
    elif [ "$good" -eq 0 ]; then
        why="ran no test"
    elif [ -n "$leftover" ]; then
        why="left processes behind: $leftover"
    fi
    if [ -z "$why" ]; then
        state[$name]=ok
        passed=$((passed + good))
        printf 'ok     %-16s %6d passed %5d s\n' "$name" "$good" $((SECONDS - begin))
    else
        [ "${counts[$name]}" = tests ] || good=0
        [ "$bad" -gt 0 ] || bad=1
        passed=$((passed + good))
        failed=$((failed + bad))
        fail "$name" "$log" "$why ($good passed, $bad failed)"
    fi
}

# shellcheck disable=SC2317 # run by trap
stop() {
    trap - INT TERM
    [ -z "$running" ] || kill -TERM "$running" 2>/dev/null
    end_marked
    echo "stopped"
    exit 130
}

# ---- What was asked for.

longer=1
while [ $# -gt 0 ]; do
    case $1 in
    --long)
        longer=20
        export LQ_LONG=1
        ;;
    --only)
        before=${#chosen[@]}
        choose "${2:-}"
        if [ "${#chosen[@]}" -eq "$before" ] && [ -z "${chosen[${2:-none}]:-}" ]; then
            echo "no part is called '${2:-}': see --list" >&2
            exit 64
        fi
        shift
        ;;
    --list)
        list
        exit 0
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 64
        ;;
    esac
    shift
done
[ ${#chosen[@]} -gt 0 ] || choose '*'

logs=$LQ_BUILD/test-logs
mkdir -p "$logs"
mark=none
trap stop INT TERM
for name in "${names[@]}"; do
    if [ -n "${chosen[$name]:-}" ]; then
        run_part "$name"
    fi
done
echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
