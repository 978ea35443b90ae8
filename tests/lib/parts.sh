#!/bin/bash
# The commands of tests/run.sh, one function each: parts.sh COMMAND [ARGUMENT]...
# Numbers that make a run longer or shorter are set here; docs/testing.md explains them.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
out=${LQ_BUILD:-$root/build}
jobs=${LQ_JOBS:-2}
long=${LQ_LONG:-}
valgrind='valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite --num-callers=25'

# Sets an environment variable unless the caller did: number NAME USUAL LONG
number() {
    local value=$2
    [ -z "$long" ] || value=$3
    if [ -z "${!1:-}" ]; then
        export "$1=$value"
    fi
}

need() {
    if [ ! -e "$1" ]; then
        echo "$1 is not there"
        exit 1
    fi
}

packages() {
    deploy/install-deps.sh build test bench
}

# build PRESET: all of it, or what the preset is for.
build() {
    local options=(-DLOQUET_TESTS=ON -DCMAKE_RULE_MESSAGES=OFF) targets=() file
    case $1 in
    release) options+=(-DLOQUET_BENCH=ON "-DLOQUET_TEST_LAUNCHER=$root/tests/lib/launch.sh") ;;
    dev) options+=(-DLOQUET_BENCH=ON) ;;
    tsan)
        for file in blocking names threads uv; do
            targets+=(--target "test_client_$file")
        done
        ;;
    fuzz) targets=(--target lq_fuzz) ;;
    planted)
        for file in loquet_sim test_client_random loquetd lq_users lqfaults; do
            targets+=(--target "$file")
        done
        ;;
    assertions)
        options+=("-DLOQUET_RAFT_PREFIX=$out/raft")
        targets=(--target loquet_sim)
        for file in tests/unit/test_engine*.c; do # what is next to libraft
            targets+=("$(basename "$file" .c)")
        done
        tests/sim/raft_assertions.sh "$out/raft"
        ;;
    esac
    cmake --log-level=WARNING --preset "$1" -S "$root" -B "$out/$1" "${options[@]}"
    cmake --build "$out/$1" -j "$jobs" "${targets[@]}"
}

# ---- Tests in C, run by ctest.

# The output of the tests that failed, at most 40 lines of each, marked so that run.sh does not count it twice.
what_failed() {
    awk '
        / Testing: / { n = 0 }
        { lines[n++] = $0 }
        /^Test (Failed|Timeout)/ || /^Test killed/ { failed = 1 }
        /^"[^"]*" end time: / {
            if (failed) {
                for (i = n > 40 ? n - 40 : 0; i < n - 2; i++) { print "| " lines[i] }
            }
            failed = 0
        }' "$1"
}

# run_ctest PRESET SELECTION: the whole output, so that the counts are in it; at the end once more what failed.
run_ctest() {
    local log=$out/$1/Testing/Temporary/LastTest.log
    if ! ctest --test-dir "$out/$1" "${@:2}" --verbose --no-tests=error --parallel "$jobs" \
        --timeout "$ctest_limit"; then
        printf '\nWhat failed, from %s:\n' "$log"
        what_failed "$log"
        return 1
    fi
}

# unit PRESET [valgrind]: valgrind is about 30 times slower, and so has smaller numbers.
unit() {
    local selection=^unit leave_out=()
    ctest_limit=170
    case $* in
    *valgrind)
        ctest_limit=580
        leave_out=(-E client_package) # it builds programs
        export LQ_LAUNCHER=$valgrind
        export CK_TIMEOUT_MULTIPLIER=20
        number LQ_SEEDS 1 20
        number LQ_OPS 1500 500000
        number LQ_THREADS 100 1000
        ;;
    dev) export CK_TIMEOUT_MULTIPLIER=5 ;;
    assertions) selection='^unit\.engine' ;;
    esac
    if [ -n "$long" ]; then
        ctest_limit=$((ctest_limit * 20))
        export CK_TIMEOUT_MULTIPLIER=100
        number LQ_SEEDS 200 200
        number LQ_OPS 20000000 20000000
    fi
    run_ctest "$1" -R "$selection" "${leave_out[@]}"
}

# The blocking client, whose threads share it, under ThreadSanitizer; the server is the plain one.
client_tsan() {
    local name log status=0
    log=$(mktemp)
    number LQ_THREADS 200 1000
    for name in blocking names threads uv; do
        LOQUETD=$out/release/server/loquetd CK_TIMEOUT_MULTIPLIER=5 "$out/tsan/tests/client/test_client_$name" \
            >>"$log" 2>&1 || status=1
    done
    cat "$log"
    awk -F '[:,]' '/%: Checks: / { n += $3; bad += $5 + $7 } END { print n - bad " passed, " bad + 0 " failed" }' "$log"
    rm -f "$log"
    return $status
}

# ---- The simulator. A seed is one test.

# What loquet_sim prints, and at the end once more what failed, and its own last count as run.sh reads it.
count_seeds() {
    awk '
        { print }
        /^FAILED: / || /^replay: / { failures[n++] = $0 }
        /^[0-9]+ seeds passed, [0-9]+ failed$/ { count = $1 " passed, " $4 " failed" }
        END {
            if (n) { print "\nWhat failed:" }
            for (i = 0; i < n && i < 20; i++) { print failures[i] }
            print count
        }'
}

# simulate PRESET OPTION...: fresh seeds, SIM_SEEDS of them, or those from LQ_SEED on.
simulate() {
    environment
    "$out/$1/tests/sim/loquet_sim" --seeds "$SIM_SEEDS" ${LQ_SEED:+--first "$LQ_SEED"} --jobs "$jobs" "${@:2}" 2>&1
}

# sim PRESET
sim() {
    case $1 in
    release) number SIM_SEEDS 2000 100000 ;;
    dev) number SIM_SEEDS 200 5000 ;;
    assertions) number SIM_SEEDS 300 10000 ;;
    esac
    simulate "$1" | count_seeds
}

sim_repeat() {
    number SIM_SEEDS 100 2000
    simulate release --repeat-check | count_seeds
}

sim_failover() {
    local status=0
    number SIM_SEEDS 200 1000
    simulate release --failover closed | count_seeds || status=1
    simulate release --failover silent | count_seeds || status=1
    return $status
}

# find_planted NUMBER NAME: whether some seed finds that fault. It counts only if a check says so, be it one of the
# simulator or one of the program, and if the same seed is well without the fault.
find_planted() {
    local found seed why
    if found=$(simulate planted --plant "$1" --until-fail --quick); then
        echo "$2 ($1): not found within $SIM_SEEDS seeds, $(head -n 1 <<<"$found")"
        return 1
    fi
    seed=$(sed -n 's/^replay: .*--seed \([0-9]*\).*/\1/p' <<<"$found" | head -n 1)
    why=$(grep -m 1 -E '^FAILED: at |: check failed: ' <<<"$found") || why=
    if [ -z "$seed" ] || [ -z "$why" ]; then
        printf '%s (%s): no check found it:\n%s\n' "$2" "$1" "$(tail -n 20 <<<"$found")"
        return 1
    fi
    if ! "$out/planted/tests/sim/loquet_sim" --seed "$seed" >/dev/null; then
        echo "$2 ($1): seed $seed fails without it, too"
        return 1
    fi
    echo "$2 ($1): seed $seed: $why"
}

# Each fault of protocol/lq_planted.h is one test.
sim_planted() {
    local fault name good=0 bad=0
    number SIM_SEEDS 2000 2000
    while read -r fault name; do
        if find_planted "$fault" "$name"; then
            good=$((good + 1))
        else
            bad=$((bad + 1))
        fi
    done < <(sed -n 's/^ *LQ_PLANT_\([A-Z_]*\) = \([1-9][0-9]*\),.*/\2 \1/p' protocol/lq_planted.h)
    echo "$good passed, $bad failed"
    [ $bad -eq 0 ]
}

# Each fault of client/lq_client_planted.h is one test: the random test of the client's core fails with it by a check of
# its own or of the program, and passes at the same seed without it.
client_planted() {
    local fault name found seed good=0 bad=0 test=$out/planted/tests/unit/test_client_random
    number LQ_SEEDS 20 200
    while read -r fault name; do
        found=$(LQ_PLANT=$fault "$test" 2>&1) && found="passed: $found"
        seed=$(sed -n 's/^seed \([0-9]*\) .*/\1/p' <<<"$found")
        if grep -qE ':F:client random:|check failed: ' <<<"$found" && LQ_SEED=$seed "$test" >/dev/null; then
            echo "$name ($fault): seed $seed: $(tail -n 1 <<<"$found")"
            good=$((good + 1))
        else
            printf '%s (%s): not found, or found without it:\n%s\n' "$name" "$fault" "$found"
            bad=$((bad + 1))
        fi
    done < <(sed -n 's/^ *LQ_PLANT_CLIENT_\([A-Z_]*\) = \([1-9][0-9]*\),.*/\2 \1/p' client/lq_client_planted.h)
    echo "$good passed, $bad failed"
    [ $bad -eq 0 ]
}

golden() {
    ctest_limit=50
    run_ctest release -R ^golden
}

fuzz() {
    number FUZZ_SECONDS 10 600
    tests/fuzz/run.sh "$out/fuzz"
}

# ---- Checks of the source itself.

static() {
    "tests/static/$1"
}

layers() {
    tests/static/check_layers.py "$out/release"
}

tidy() {
    tests/static/check_tidy.py "$out/tidy-stamps" "$out/dev" "$out/fuzz" "$out/planted"
}

# ---- Whole programs. PRESET says which build of them.

# What the test programs in Python need to know.
environment() {
    [ -z "${LQ_SEED:-}" ] || export LOQUET_TEST_SEED="${LOQUET_TEST_SEED:-$LQ_SEED}"
    export ASAN_OPTIONS=abort_on_error=1:detect_leaks=1:detect_stack_use_after_return=1
    export UBSAN_OPTIONS=print_stacktrace=1
}

cli() {
    need tests/cli/run.py
    environment
    LOQUETD=$out/$1/server/loquetd LOQUET=$out/$1/client/cli/loquet tests/cli/run.py
}

integration() {
    need tests/integration/run.py
    environment
    LOQUETD=$out/$1/server/loquetd tests/integration/run.py
}

# The tools that judge a cluster, by themselves.
faults() {
    need "$out/release/tests/faults/liblqfaults.so"
    environment
    number LQ_FAULTS_ROUNDS 30 1000
    LQ_FAULTS_LIB=$out/release/tests/faults/liblqfaults.so tests/faults/run.py
}

judge() {
    environment
    number LQ_JUDGE_SEEDS 4 100
    LOQUETD=$out/release/server/loquetd tests/judge/run.py
}

# Real clusters: what is done to their nodes, and the tests of simple mode through each of them.
cluster() {
    need "$out/release/tests/faults/liblqfaults.so"
    environment
    number LQ_POWER_ROUNDS 6 100
    export LOQUET_TEST_JOBS="${LOQUET_TEST_JOBS:-4}"
    export LQ_FAULTS_LIB=$out/release/tests/faults/liblqfaults.so
    LOQUETD=$out/release/server/loquetd tests/integration/run.py --in tests/cluster
}

# The library in front of a cluster that is hurt, and the examples.
# One run of tests/jepsen; prints how it ended if that was not well. jepsen_run NAME ARGUMENT...
jepsen_run() {
    local log=$out/jepsen-$1.log
    if tests/jepsen/jepsen.py --out "$out/jepsen" "${@:2}" >"$log" 2>&1; then
        echo "1 passed, 0 failed"
        rm -rf "$(tail -1 "$log")"
    else
        head -1 "$log"
        tail -50 "$log"
        echo "0 passed, 1 failed"
    fi
}

# What the failover runs are made of; then mixed runs, side by side as each has namespaces of its own: as shipped, with
# sanitizers, and with clocks of different rates.
jepsen() {
    local seconds=${LQ_JEPSEN_SECONDS:-60} preset
    environment
    LOQUETD=$out/release/server/loquetd LQ_FAULTS_LIB=$out/release/tests/faults/liblqfaults.so tests/jepsen/run.py
    if [ -n "$long" ]; then
        tests/jepsen/run.sh --runs 60 --time 90
        tests/jepsen/planted.py
        return
    fi
    for preset in release dev planted; do
        jepsen_run "$preset" --with "$preset" --time "$seconds" --rate 300 &
    done
    wait
}

library() {
    environment
    number LQ_LIBRARY_SECONDS 25 600
    export LQ_USERS=$out/release/tests/client/lq_users LQ_EXAMPLES=$out/release/client/examples
    LOQUETD=$out/release/server/loquetd tests/integration/run.py --in tests/client test_examples test_faults
}

cluster_matrix() {
    environment
    LOQUETD=$out/release/server/loquetd tests/cluster/matrix.py
}

bench() {
    need "$out/release/tests/bench/lq_bench"
    ctest_limit=60
    run_ctest release -R ^bench
    LOQUETD=$out/release/server/loquetd LQ_BENCH=$out/release/tests/bench/lq_bench tests/lib/bench_smoke.py
}

quickstart() {
    deploy/quickstart.sh
}

"$@"
