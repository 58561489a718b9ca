#!/bin/bash
# perf_encoded_test.sh - tutti-perf finds nothing wrong in what goes encoded, asked for by the calls or by rules, and takes nothing for
# encoded that is not.
#
#     TUTTI_BIN=build/bin tests/tools/perf_encoded_test.sh
# ctest: label=nosan timeout=300
set -uo pipefail

perf=${TUTTI_BIN:-build/bin}/tutti-perf
bad=0
run() { # what is printed if it fails, command
    local said
    if ! said=$(timeout -k 1 100 "${@:2}" 2>&1); then
        printf '%s: %s\n' "$1" "$said"
        bad=1
    fi
}
brief=(--sizes 100,70K -n 1 -w 0 -c 1 --time 0.001)
for op in reduce broadcast gather scatter allgather reduce_scatter sendrecv; do
    run "$op" "$perf" "$op" --threads 3 "${brief[@]}" --encoding int8/everywhere/required
done
for op in allgatherv reduce_scatterv; do
    run "$op" "$perf" "$op" --threads 3 "${brief[@]}" --encoding int8/everywhere/required
done
for op in gatherv scatterv allgatherv reduce_scatterv alltoallv; do
    run "$op" "$perf" "$op" --threads 3 "${brief[@]}" --encoding bfloat16/everywhere/required
done
for encoding in bfloat16 fp8_e4m3 int4 mxfp8; do
    run "allreduce $encoding" "$perf" allreduce --threads 2 "${brief[@]}" --op sum,avg --encoding "$encoding/everywhere/required"
    run "alltoall $encoding" "$perf" alltoall --threads 2 "${brief[@]}" --encoding "$encoding/everywhere/required"
done
run 'named algorithms' "$perf" allreduce --threads 3 "${brief[@]}" --algo ring,twoshot --encoding bfloat16/everywhere/required
run '16-bit floats' "$perf" allreduce --threads 2 "${brief[@]}" -d bfloat16,float16 --encoding mxfp8/everywhere/required
run 'lists' "$perf" allreduce --threads 2 "${brief[@]}" --tensors 6 --encoding int8/everywhere/required
# Rules leave alone what cannot be encoded: it is checked bit by bit.
export TUTTI_ENCODINGS='allreduce:1k-=int8/everywhere/required;send:1k-=bfloat16/everywhere/required;allgather=mxfp8/everywhere;alltoall=float16/everywhere/required'
run 'rules' "$perf" allreduce --threads 2 "${brief[@]}" -d float32,float16,int32 -o sum,avg,max
run 'rules, in deterministic mode' "$perf" allreduce --threads 2 "${brief[@]}" --deterministic
run 'rules for messages' "$perf" sendrecv --threads 2 "${brief[@]}" -d float32,int32
run 'rules of which none is taken' "$perf" allgather --threads 2 "${brief[@]}"
run 'rules, v forms' "$perf" allgatherv --threads 2 "${brief[@]}"
run 'rules, v forms of own counts' "$perf" alltoallv --threads 2 "${brief[@]}"
unset TUTTI_ENCODINGS
if "$perf" allreduce --threads 2 "${brief[@]}" --encoding bfloat17 >/dev/null 2>&1; then
    echo 'an encoding that is none was taken'
    bad=1
fi
exit $bad
