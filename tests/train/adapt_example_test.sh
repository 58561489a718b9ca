#!/bin/bash
# The example of adaptation sees a slow rank, and learns with each synchrony.
# ctest: label=nosan
set -uo pipefail

bad=0
# run EXPECTED [-n RANKS] OPTION...: the program's output must have that in it, and a loss that fell.
run() {
    local expected=$1 said status ranks=2
    shift
    if [[ ${1-} == -n ]]; then
        ranks=$2
        shift 2
    fi
    said=$("${TUTTI_BIN:?}/tutti-run" -n "$ranks" "$TUTTI_BIN/adapt" --compute-ms 1 --nominal 1 "$@" 2>&1)
    status=$?
    if grep -E 'batch [0-9]+ ->|synchrony .* ->' <<<"$said" | grep -vE '^\[[0-9]+\] +[0-9.]+ s  '; then
        echo "adapt $*: no time before that"
        bad=1
    fi
    if [[ $status != 0 || $said != *"$expected"* ]] ||
        ! awk '$2 == "loss" && $5 < $3 { fell = 1 } END { exit !fell }' <<<"$said"; then
        printf 'adapt %s: status %s, without "%s" or a loss that fell\n%s\n' "$*" "$status" "$expected" "$said"
        bad=1
    fi
}
# Times are what the options say, so that no other load of this machine hides or makes a slow rank.
run 'synchrony full -> every 10 steps: rank 1 needs' --observations 5 --slow 1:20:0-1000000
run 'steps a second' --mode full --observations 8 --encoding int8/everywhere/required
run 'synchrony full -> bounded by 3 steps: rank 1 needs' -n 3 --server adapt --observations 5 --slow 1:20:0-1000000
for mode in synchronous bounded asynchronous quorum; do run 'steps a second' -n 3 --server $mode --observations 8; done
for mode in full local diloco; do run 'steps a second' --mode "$mode" --observations 8; done

if "$TUTTI_BIN/adapt" --slow nonsense 2>/dev/null || "$TUTTI_BIN/adapt" --every 2>/dev/null; then
    echo "adapt takes nonsense"
    bad=1
fi
said=$("$TUTTI_BIN/tutti-run" -n 1 "$TUTTI_BIN/adapt" --encoding bfloat17 2>&1)
if [[ $? == 0 || $said != *"no encoding of that name; there are bfloat16"* ]]; then
    printf 'adapt takes an unknown encoding, or does not list the known ones\n%s\n' "$said"
    bad=1
fi
exit $bad
