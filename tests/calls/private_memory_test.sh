#!/bin/bash
# private_memory_test.sh - what is only copied between processes arrives, through slots or by process_vm_readv.
#
# The sizes lie around the range in which the receiver may copy for itself; TUTTI_CMA=0 is the way for machines
# that forbid it.
# ctest: label=nosan
set -uo pipefail
perf=${TUTTI_BIN:?}/tutti-perf
failed=0
for allowed in 0 1; do
    for op in broadcast gather scatter allgather alltoall; do
        if ! output=$(TUTTI_CMA=$allowed timeout 60 "$perf" "$op" --ranks 2 --sizes 100K,256K,600K,1M,2M,3M \
            -n 2 -w 1 -c 1 2>&1); then
            printf 'TUTTI_CMA=%s %s failed:\n%s\n' "$allowed" "$op" "$output"
            failed=1
        fi
    done
done
exit $failed
