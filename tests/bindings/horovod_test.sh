#!/bin/bash
# Programs that use Horovod run over Tutti: every function, random orders of names, faults, and training beside DDP with gloo.
#
# Some versions of torchrun --standalone have a port of their own, and a second one would take the store of the first.
# ctest: label=nosan label=once timeout=600 lock=torchrun waits needs=wheel
# shellcheck source=tests/bindings/torch.sh
source "${TUTTI_ROOT:?}/tests/bindings/torch.sh"

tests=$TUTTI_ROOT/bindings/python/tests/horovod_programs
horovod=("${forked[@]}" -W ignore -m tutti.horovod)
export TUTTI_TIMEOUT=60s TUTTI_INIT_TIMEOUT=60s

# Runs a program on so many ranks, and counts the lines that say that all is well.
expect() {
    local ranks=$1 count=$2 text=$3
    shift 3
    tutti-run -n "$ranks" "${horovod[@]}" "$@" >log 2>&1 || { cat log; return 1; }
    [[ $(grep -c "$text" log) == "$count" ]] || { cat log; echo "not $count times: $text"; return 1; }
}

# No program loads PyTorch for having Tutti, and Horovod is not found without being asked for.
said=$("$python" -c 'import sys, tutti.horovod; print("torch" in sys.modules)')
[[ $said == False ]] || { echo "tutti.horovod loads PyTorch"; exit 1; }
if "$python" -c 'import tutti.horovod, horovod' 2>/dev/null; then echo "horovod is found unasked, or installed"; exit 1; fi

if [[ ${TUTTI_LONG:-} == 1 ]]; then orders=10000; else orders=300; fi
expect 4 8 'all functions are right' "$tests/functions.py"
expect 4 4 "$orders operations are right" "$tests/orders.py" "$orders" "${RANDOM}"
expect 2 2 'trained alike' "$tests/train.py"

# A killed rank is the end of the job, so its status says nothing of the others.
tutti-run -n 3 "${horovod[@]}" "$tests/faults.py" >log 2>&1 && { cat log; echo "the killed rank did not count"; exit 1; }
[[ $(grep -c 'the survivor has seen all' log) == 2 ]] || { cat log; exit 1; }

# A thread that waits for an operation that no rank matches ends when the main thread does.
TUTTI_TIMEOUT=30m expect 2 2 'ends: "allreduce.of rank' "$tests/threads.py"

# As a module, with arguments, and under another launcher.
mkdir -p package
printf 'import sys, horovod.torch as hvd\nhvd.init()\nprint(hvd.rank(), hvd.size(), hvd.local_rank(), sys.argv[1:])\n' >package/small.py
said=$(cd package && tutti-run -n 2 --no-prefix "$python" -W ignore -m tutti.horovod -m small --flag x | sort)
[[ $said == $'0 2 0 [\'--flag\', \'x\']\n1 2 1 [\'--flag\', \'x\']' ]] || { echo "the module says: $said"; exit 1; }
said=$("$python" -W ignore -m tutti.horovod package/small.py)
[[ $said == "0 1 0 []" ]] || { echo "without a launcher: $said"; exit 1; }
if [[ ${TUTTI_LONG:-} == 1 ]]; then
    "$python" -W ignore -m torch.distributed.run --standalone --nproc_per_node 2 -m tutti.horovod package/small.py >log 2>&1 ||
        { cat log; exit 1; }
    [[ $(grep -c '^[01] 2 [01] \[\]$' log) == 2 ]] || { cat log; exit 1; }
fi
