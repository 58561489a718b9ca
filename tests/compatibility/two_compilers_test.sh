#!/bin/bash
# Ranks of a library built by gcc and of one built by clang choose the same algorithm for every call: all compute it for themselves, in whole
# numbers, and a call ends where their plans differ. Runs beside either build, if the other one is there and as new.
# ctest: label=nosan
set -uo pipefail
cd "${TUTTI_ROOT:?}" || exit 1
own=${TUTTI_BUILD:?}
case $(realpath "$own") in
"$(realpath build)") other=$PWD/build/clang ;;
"$(realpath -m build/clang)") other=$PWD/build ;;
*)
    echo "skipped: this is neither the release nor the clang build"
    exit 77
    ;;
esac
if [[ ! -x $other/bin/tutti-perf ]]; then
    echo "skipped: there is no $other/bin/tutti-perf"
    exit 77
fi
for build in "$own" "$other"; do
    newer=$(find src studio include -name '*.[ch]' -newer "$build/bin/tutti-perf" -print -quit)
    if [[ $newer ]]; then
        echo "skipped: $newer is newer than $build/bin/tutti-perf"
        exit 77
    fi
done
# Programs contain the library.
compilers=$(for build in build build/clang; do readelf -p .comment $build/bin/tutti-perf | grep -c clang; done)
if [[ $compilers != $'0\n1' ]]; then
    echo "skipped: build is not by gcc and build/clang by clang"
    exit 77
fi
failures=0
# together VARIABLE... -- WORD...: rank 1 of three is the other build's; WORDs are for tutti-perf, with those in $odd for that rank alone.
odd=
together() {
    local variables=()
    while [[ $1 != -- ]]; do variables+=("$1"); shift; done
    shift
    said=$(env TUTTI_CALIBRATION=shipped TUTTI_LOG=info "${variables[@]}" timeout -k 1 60 "$own/bin/tutti-run" -n 3 --no-prefix \
        sh -c 'if [ "$RANK" = 1 ]; then exec "$0/bin/tutti-perf" "$@" '"$odd"'; fi; exec "'"$own"'/bin/tutti-perf" "$@"' "$other" "$@" \
        --iters 1 --warmup_iters 1 --place out 2>&1)
}
sizes=8,128,2K,32K,512K,2M
for collective in allreduce reduce broadcast gather scatter allgather reduce_scatter alltoall barrier; do
    words=("$collective")
    [[ $collective == barrier ]] || words+=(--sizes "$sizes")
    for variables in TUTTI_TRANSPORT=auto TUTTI_TRANSPORT=tcp; do
        [[ $variables == *auto ]] && kind=() || kind=("$variables")
        if ! together "${kind[@]}" -- "${words[@]}"; then
            echo "FAILED: $collective, $variables: $said"
            failures=$((failures + 1))
        elif ! grep -q "next best" <<<"$said"; then
            echo "FAILED: $collective: nothing was chosen by the model: $said"
            failures=$((failures + 1))
        fi
    done
done
for words in "--mapped --sizes 64K,1M" "--sizes 2K,512K -d bfloat16" "--sizes 2K,512K -d float8_e4m3" "--sizes 2K,512K -d float64 -o user"; do
    # shellcheck disable=SC2086 # words of their own
    if ! together -- allreduce $words; then
        echo "FAILED: allreduce $words: $said"
        failures=$((failures + 1))
    fi
done

# Other choices would show.
odd='--algo tree'
if together -- allreduce --sizes 64K || ! grep -q "with another algorithm" <<<"$said"; then
    echo "FAILED: a rank that takes another algorithm is not noticed: $said"
    failures=$((failures + 1))
fi
((failures == 0)) || exit 1
echo "ranks of both builds choose alike"
