#!/bin/bash
# perf_matrix_test.sh - every pair of {operation, ranks, start, memory, form, dtype, reduction, root, choice}
# occurs in some run of tutti-perf, and no run finds a wrong element.
#
#     TUTTI_BIN=build/bin tests/perf_matrix_test.sh
#     SEED=7 ...           the same runs again
#     TUTTI_LONG=1 ...     besides, 400 runs drawn at random, and 64 MiB of float32 up to 8 ranks
#
# A run covers many lengths, in and out of place, and (choice "named") every algorithm of its operation.
# ctest: label=notsan timeout=900
set -uo pipefail

perf=${TUTTI_BIN:-build/bin}/tutti-perf
plan=${TUTTI_BIN:-build/bin}/tutti-plan
for tool in "$perf" "$plan"; do
    if [[ ! -x $tool ]]; then
        echo "$tool is not here: skipped"
        exit 77
    fi
done
# The same runs every time, so that a change is to blame for what changes; the long tier draws others.
seed=${SEED:-1}
if [[ ! ${SEED-} && ${TUTTI_LONG-} ]]; then seed=$(od -An -N2 -tu2 /dev/urandom | tr -d ' '); fi
echo "SEED=$seed"

declare -A algorithms
names_of() { # operation; the list has it alone on a line, and two blanks before each of its algorithms
    "$plan" list | awk -v op="$1" '/^[^ ]/ { under = $1 } /^  [^ ]/ && under == op { print $1 }' | paste -sd,
}
for op in allreduce reduce broadcast gather scatter allgather reduce_scatter alltoall barrier; do
    algorithms[$op]=$(names_of "$op")
    if [[ ! ${algorithms[$op]} && $op != barrier ]]; then
        echo "'tutti-plan list' names no algorithm for $op"
        exit 1
    fi
done

# One run a line, a word per factor. Greedy: a random pair that no run has yet, filled up 30 times at random;
# the filling with the most new pairs is taken. With random_count, so many runs at random follow.
matrix() { # random_count
    awk -v seed="$seed" -v random_count="$1" '
        function pick(f) { return 1 + int(rand() * value_count[f]) }
        function pairs(take,    i, j, fresh) {
            fresh = 0
            for (i = 1; i < factor_count; i++)
                for (j = i + 1; j <= factor_count; j++)
                    if ((i, row[i], j, row[j]) in open) {
                        fresh++
                        if (take) delete open[i, row[i], j, row[j]]
                    }
            return fresh
        }
        function emit(    f, line) {
            for (f = 1; f <= factor_count; f++) line = line value[f, row[f]] (f < factor_count ? " " : "")
            print line
        }
        BEGIN {
            srand(seed)
            factor_count = split("allreduce reduce broadcast gather scatter allgather reduce_scatter alltoall barrier;" \
                "1 2 3 4 5 6 7 8 9 16;processes threads both;private mapped;blocking started;" \
                "float32 float64 bfloat16 int32 int64;sum prod min max avg;first middle last;" \
                "chosen named deterministic", factors, ";")
            for (f = 1; f <= factor_count; f++) {
                value_count[f] = split(factors[f], values, " ")
                for (v = 1; v <= value_count[f]; v++) value[f, v] = values[v]
            }
            for (i = 1; i < factor_count; i++)
                for (j = i + 1; j <= factor_count; j++)
                    for (v = 1; v <= value_count[i]; v++)
                        for (w = 1; w <= value_count[j]; w++) open[i, v, j, w] = 1
            for (;;) {
                pair = ""
                for (pair in open) break
                if (pair == "") break
                split(pair, p, SUBSEP)
                most = 0
                for (try = 1; try <= 30; try++) {
                    for (f = 1; f <= factor_count; f++) row[f] = pick(f)
                    row[p[1]] = p[2]
                    row[p[3]] = p[4]
                    fresh = pairs(0)
                    if (fresh <= most) continue
                    most = fresh
                    for (f = 1; f <= factor_count; f++) best[f] = row[f]
                }
                for (f = 1; f <= factor_count; f++) row[f] = best[f]
                pairs(1)
                emit()
            }
            for (i = 1; i <= random_count; i++) {
                for (f = 1; f <= factor_count; f++) row[f] = pick(f)
                emit()
            }
        }'
}

runs=0 failures=0
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

attempt() { # arguments of tutti-perf
    local code
    timeout -k 5 "${limit:-60}" "$perf" "$@" >"$log" 2>&1
    code=$?
    runs=$((runs + 1))
    if ((code == 0)); then return; fi
    failures=$((failures + 1))
    echo "exit code $code: tutti-perf $*"
    grep '^tutti-perf' "$log" | head -n 5 | sed 's/^/    /'
    if ((failures == 10)); then
        echo "10 failures are enough"
        exit 1
    fi
}

run_row() { # a line of the matrix
    local op ranks start memory form dtype reduction root choice arguments
    read -r op ranks start memory form dtype reduction root choice <<<"$1"
    arguments=("$op" -c 2 -n 2 -w 1 --timeout 20 -d "$dtype" -o "$reduction"
        --counts "0,1,2,3,7,64,257,1001,4099" --sizes "64K,333333,1M")
    case $start in
    threads) arguments+=(-t "$ranks") ;;
    both) arguments+=(--ranks "$ranks" -t $((ranks % 2 ? 1 : 2))) ;;
    *) arguments+=(--ranks "$ranks") ;;
    esac
    if [[ $memory == mapped ]]; then arguments+=(--mapped); fi
    if [[ $form == started ]]; then arguments+=(--started); fi
    case $root in
    first) arguments+=(-r 0) ;;
    middle) arguments+=(-r $((ranks / 2))) ;;
    last) arguments+=(-r $((ranks - 1))) ;;
    esac
    case $choice in
    named) if [[ ${algorithms[$op]} ]]; then arguments+=(--algo "${algorithms[$op]}"); fi ;;
    deterministic) arguments+=(--deterministic) ;;
    esac
    attempt "${arguments[@]}"
}

random_count=0
if [[ ${TUTTI_LONG:-} == 1 ]]; then random_count=400; fi
while read -r row; do run_row "$row"; done < <(matrix "$random_count")

if [[ ${TUTTI_LONG:-} == 1 ]]; then
    limit=300
    for op in "${!algorithms[@]}"; do
        if [[ $op == barrier ]]; then continue; fi
        for ranks in 1 2 3 4 5 6 7 8; do
            for memory in "" --mapped; do
                attempt "$op" --ranks "$ranks" --sizes 64M -c 1 -n 1 -w 0 --timeout 120 $memory
            done
        done
    done
fi

echo "$runs runs, $failures failed, $SECONDS s"
((runs > 0 && failures == 0))
