#!/bin/bash
# tutti-perf says which values each number may have: in the error, which names the option and the value, and for iterations also in
# --help and in the manual page. Single calls of --one-clock begin together, and ranks whose clocks differ are told so.
# ctest: label=nosan
set -euo pipefail

perf=${TUTTI_BIN:?}/tutti-perf
bad=0
expect() { # rule, option, value
    local said status=0
    said=$("$perf" allreduce "$2" "$3" 2>&1) || status=$?
    if [[ $status != 2 || $said != "tutti-perf: $2 must be $1, is '$3' (see tutti-perf --help)" ]]; then
        echo "$2 $3: status $status, and not '$2 must be $1, is '$3'': $said"
        bad=1
    fi
}
for value in 0 -1 10000001 99999999999999999999 '' x 1.5 5x; do
    expect 'a whole number from 1 to 10000000' --iters "$value"
done
expect 'a whole number from 0 to 10000000' --warmup_iters -1
expect 'a whole number from 0 to 10000000' --check 1e3
expect 'a whole number from -100 to 100' --priority 101
expect 'a whole number from 0 to 63' --misalign 64
expect 'a whole number from 1 to 100000, or mixed' --tensors 0
expect 'a number from 0.001 to 1e+06' --timeout 0
expect 'a number from 0 to 3600' --time nan
expect 'one of table, json, csv, peers' --format yaml
expect 'one of null, packed, gaps, reversed' --displs holes
expect 'one of host, mapped, device' --memory vram
expect 'a whole number from 0 to 1024' --device -1
expect 'a number of bytes such as 4096, 64k or 1m' --minbytes 4kb

page=$(sed 's/\\-/-/g; s/\\~/ /g; s/\\f.//g; s/\\&//g' "${TUTTI_ROOT:?}/man/tutti-perf.1")
help=$("$perf" --help)
for option in iters warmup_iters check; do
    least=0
    if [[ $option == iters ]]; then least=1; fi
    if ! grep -A 1 -e "--$option " <<<"$help" | grep "$least to 10000000" >/dev/null; then
        echo "tutti-perf --help does not say the range of --$option"
        bad=1
    fi
    if ! grep -A 4 -e "--$option " <<<"$page" | grep "$least to 10000000" >/dev/null; then
        echo "man/tutti-perf.1 does not say the range of --$option"
        bad=1
    fi
done

said=$(timeout -k 1 60 "$perf" broadcast --one-clock --ranks 4 --sizes 8 -n 5 -c 0 2>/dev/null) || bad=1
if [[ $said != *"one at a time that all begin together"* ]]; then
    echo "--one-clock: $said"
    bad=1
fi
# Rank 1 is in a time namespace of its own, where there may be any.
if unshare --time --fork --monotonic 100000 true 2>/dev/null; then
    # shellcheck disable=SC2016
    said=$(timeout -k 1 60 "$TUTTI_BIN/tutti-run" -n 2 bash -c '[[ $TUTTI_RANK == 1 ]] && apart=(unshare --time --fork --monotonic 100000)
        exec "${apart[@]}" "$@"' perf "$perf" broadcast --one-clock --sizes 8 -n 5 2>&1) && bad=1
    if [[ $said != *"ranks 1 and 0 do not have the same clock"* ]]; then
        echo "--one-clock with two clocks: $said"
        bad=1
    fi
fi
exit $bad
