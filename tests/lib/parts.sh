#!/bin/bash
# The commands of tests/run.sh, one function each: parts.sh COMMAND [ARGUMENT]...
# Numbers that make a run longer or shorter are set here; docs/testing.md explains them.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
out=${LQ_BUILD:-$root/build}
jobs=${LQ_JOBS:-2}
long=${LQ_LONG:-}
valgrind='valgrind;--quiet;--error-exitcode=99;--leak-check=full;--errors-for-leak-kinds=definite;--num-callers=25'

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

# build PRESET
build() {
    local options=(-DLOQUET_TESTS=ON -DCMAKE_RULE_MESSAGES=OFF) targets=()
    case $1 in
    release | clang) options+=(-DLOQUET_BENCH=ON) ;;
    fuzz) targets=(--target lq_fuzz) ;;
    debug) options+=("-DLOQUET_TEST_LAUNCHER=$valgrind") ;;
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

# unit PRESET: debug runs under valgrind, about 30 times slower, and so with smaller numbers.
unit() {
    ctest_limit=170
    case $1 in
    debug)
        ctest_limit=580
        export CK_TIMEOUT_MULTIPLIER=20
        number LQ_SEEDS 2 20
        number LQ_OPS 5000 500000
        ;;
    dev) export CK_TIMEOUT_MULTIPLIER=5 ;;
    esac
    if [ -n "$long" ]; then
        ctest_limit=$((ctest_limit * 20))
        export CK_TIMEOUT_MULTIPLIER=100
        number LQ_SEEDS 200 200
        number LQ_OPS 20000000 20000000
    fi
    run_ctest "$1" -R ^unit
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
    tests/static/check_tidy.py "$out/tidy-stamps" "$out/clang" "$out/fuzz"
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
