#!/bin/bash
# perf_matrix_test.sh - every operation in all its forms, and no run of tutti-perf finds a wrong element.
#
#     TUTTI_BIN=build/bin tests/tools/perf_matrix_test.sh
#     SEED=7 ...           other runs
#     TUTTI_LONG=1 ...     all runs, many more drawn at random, and 64 MiB of float32 up to 8 ranks
#
# Four families of operations have factors of their own (below); within a family, every pair of values of two factors
# occurs in some run. The quick tier makes every twelfth one of these. A run covers several counts, dtypes and reductions, in and out of place, and (choice "named")
# every algorithm of its operation.
# ctest: label=nosan label=once timeout=900 first
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

# A factor is its name and its values; a value that stands there twice is drawn more often.
ranks="ranks 1 2 3 4 5 6 7 8"
start="start processes threads both"
memory="memory private mapped"
form="form blocking started prepared grouped"
dtypes="dtypes float32,int8,uint16 float64,int16,float8_e4m3 bfloat16,uint64,int32 float16,uint8,int64"
dtypes+=" float8_e5m2,uint32,float32"
reductions="reductions sum,band prod,lor min,bxor max,land,scaled avg,bor,lxor user,user-any"
root="root first middle last"
choice="choice chosen chosen named deterministic"
misalign="misalign 0 0 1 3 8"
tensors="tensors none none 1 6 mixed"
skew="skew none linear random zero-some one"
displs="displs null packed gaps reversed"
priority="priority 0 -100 9"
families=(
    "op allreduce reduce reduce_scatter;$ranks;$start;$memory;$form;$dtypes;$reductions;$root;$choice;$misalign;$tensors;$priority"
    "op broadcast gather scatter allgather alltoall;$ranks;$start;$memory;$form;$dtypes;$root;$choice;$misalign;$tensors"
    "op gatherv scatterv allgatherv reduce_scatterv alltoallv;$ranks;$start;$memory;$form;$dtypes;$reductions;$root;$choice;$misalign;$skew;$displs"
    "op sendrecv pingpong barrier;$ranks;$start;$memory;$form;$dtypes;$misalign;$priority"
)

# One run a line, "factor=value" for every factor. Greedy: a random pair that no run has yet, filled up 30 times
# at random; the filling with the most new pairs is taken. With random_count, so many runs at random follow.
matrix() { # family, random_count
    awk -v seed="$seed" -v family="$1" -v random_count="$2" '
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
            for (f = 1; f <= factor_count; f++) line = line name[f] "=" value[f, row[f]] (f < factor_count ? " " : "")
            print line
        }
        BEGIN {
            srand(seed)
            factor_count = split(family, factors, ";")
            for (f = 1; f <= factor_count; f++) {
                value_count[f] = split(factors[f], values, " ") - 1
                name[f] = values[1]
                for (v = 1; v <= value_count[f]; v++) value[f, v] = values[v + 1]
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
    local -A with=()
    local factor
    for factor in $1; do with[${factor%%=*}]=${factor#*=}; done
    local op=${with[op]} ranks=${with[ranks]} arguments
    if [[ $op == pingpong && $ranks == 1 ]]; then return; fi # nobody to play with
    local names=${algorithms[${op%v}]-}
    if [[ ${with[choice]-} != named ]]; then names=; fi
    arguments=("$op" -c 1 -n 1 -w 0 --timeout 20 --form "${with[form]}" --misalign "${with[misalign]}")
    if [[ $names ]]; then # so many algorithms do not need so many counts and dtypes
        arguments+=(--algo "$names" -d "${with[dtypes]%%,*}" --counts 1,257,40009)
    else
        arguments+=(-d "${with[dtypes]}" --counts 0,1,3,64,1001,8209 --sizes 333333)
    fi
    if [[ ${with[form]} == prepared ]]; then arguments+=(-c 3); fi # the same buffers with other contents
    case ${with[start]} in
    threads) arguments+=(-t "$ranks") ;;
    both) arguments+=(--ranks "$ranks" -t $((ranks % 2 ? 1 : 2))) ;;
    *) arguments+=(--ranks "$ranks") ;;
    esac
    if [[ ${with[memory]} == mapped ]]; then arguments+=(--mapped); fi
    case ${with[root]-} in
    first) arguments+=(-r 0) ;;
    middle) arguments+=(-r $((ranks / 2))) ;;
    last) arguments+=(-r $((ranks - 1))) ;;
    esac
    if [[ ${with[reductions]-} ]]; then arguments+=(-o "${with[reductions]}"); fi
    if [[ ${with[choice]-} == deterministic ]]; then arguments+=(--deterministic); fi
    if [[ ${with[priority]-} ]]; then arguments+=(--priority "${with[priority]}"); fi
    if [[ ${with[tensors]-none} != none ]]; then arguments+=(--tensors "${with[tensors]}"); fi
    if [[ ${with[skew]-} ]]; then arguments+=(--skew "${with[skew]}" --displs "${with[displs]}"); fi
    attempt "${arguments[@]}"
}

random_count=0 stride=12
if [[ ${TUTTI_LONG:-} == 1 ]]; then random_count=150 stride=1; fi
for family in "${families[@]}"; do
    number=0
    while read -r row; do
        if ((number++ % stride == 0)); then run_row "$row"; fi
    done < <(matrix "$family" "$random_count")
done

if [[ ${TUTTI_LONG:-} == 1 ]]; then
    limit=300
    for op in allreduce reduce broadcast gather scatter allgather reduce_scatter alltoall \
        gatherv scatterv allgatherv reduce_scatterv alltoallv sendrecv; do
        for count in 1 2 3 4 5 6 7 8; do
            for kind in "" --mapped; do
                attempt "$op" --ranks "$count" --sizes 64M -c 1 -n 1 -w 0 --timeout 120 $kind
            done
        done
    done
fi

echo "$runs runs, $failures failed, $SECONDS s"
((runs > 0 && failures == 0))
