#!/bin/bash
# Runs every fuzz target of a build for a few seconds: first the kept inputs and the seeds, then new ones.
#
# usage: run.sh BUILD_FOLDER [NAME...]     (BUILD_FOLDER: of preset fuzz)
#   FUZZ_SECONDS  time for new inputs of each target, 5 if not set
#   LQ_SEED       seed of the fuzzer, random if not set
#   LQ_JOBS       targets at the same time, 2 if not set
# An input that fails is kept in BUILD_FOLDER/found/NAME/; when its fault is mended, move it to corpus/NAME/.
# Inputs that reached new code are kept in BUILD_FOLDER/corpus/NAME/ and begin the next run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
shift

run_one() {
    local name=$1
    local program=$build/tests/fuzz/fuzz_$name found=$build/found/$name grown=$build/corpus/$name
    local kept=$here/corpus/$name seeds=$build/seeds/$name log=$build/fuzz_$name.log options
    local seed=${LQ_SEED:-$((RANDOM * 32768 + RANDOM + 1))}
    mkdir -p "$found" "$grown" "$seeds"
    if [ ! -d "$kept" ]; then
        echo "fuzz_$name: no folder of kept inputs: $kept"
        return 1
    fi
    if [ "$name" = frame ]; then
        "$here/make_seeds.py" "$seeds" "$here"/../golden/requests.json "$here"/../golden/answers.json
    fi
    read -r -a options <"$program.options" || true
    options+=("-artifact_prefix=$found/" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 "-seed=$seed")
    if "$program" "${options[@]}" -runs=0 "$kept" "$seeds" >"$log" 2>&1 &&
        "$program" "${options[@]}" "-max_total_time=${FUZZ_SECONDS:-5}" "$grown" "$kept" "$seeds" >"$log" 2>&1; then
        echo "fuzz_$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, seed $seed"
    else
        echo "fuzz_$name: failed with seed $seed; the input is in $found/; $log ends with:"
        tail -40 "$log"
        return 1
    fi
}

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    for program in "$build"/tests/fuzz/fuzz_*.options; do
        name=${program##*/fuzz_}
        names+=("${name%.options}")
    done
fi

passed=0
failed=0
jobs=${LQ_JOBS:-2}
for ((i = 0; i < ${#names[@]}; i += jobs)); do
    pids=()
    for name in "${names[@]:i:jobs}"; do
        run_one "$name" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        if wait "$pid"; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
        fi
    done
done
echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
