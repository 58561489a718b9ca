#!/bin/bash
# msccl_test.sh [MUTATIONS]
#
# Schedules of MSCCL, from outside: tutti-plan writes and reads them, and a program that knows no more than their format agrees.
# Mutations of good ones are refused with their place, or proven, and then they run right.
# ctest: label=nosan label=once timeout=120
set -uo pipefail
tests=$(realpath "${BASH_SOURCE[0]%/*}")
plan=${TUTTI_BIN:?}/tutti-plan
command -v python3 >/dev/null || { echo "no python3 here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0
complain() {
    echo "$*"
    bad=1
}

"$plan" export allreduce ring --ranks 3 --format msccl -o ring.xml || complain "a ring is not exported"
if ! "$plan" verify ring.xml >said 2>&1; then
    grep -q "built without expat" said && { echo "no expat here"; exit 77; }
    complain "a ring is refused: $(<said)"
fi
grep -q 'allreduce of 3 ranks, separate buffers: proven' said || complain "a ring's proof says: $(<said)"
"$plan" show - <ring.xml >ring.plan || complain "XML is not shown"
"$plan" verify ring.plan >/dev/null || complain "what is shown is no plan"
"$plan" draw ring.xml >ring.svg && grep -q '<svg' ring.svg || complain "XML is not drawn"
"$plan" export ring.plan --format rccl >again.xml || complain "a plan as text is not exported"
grep -q 'minBytes=.*maxBytes=' again.xml || complain "rccl has no range of bytes"
"$plan" export reduce_scatter ring --ranks 4 --format rccl | grep 'coll="reducescatter"' >/dev/null || complain "rccl is spelt otherwise"
"$plan" export allreduce ring --ranks 4 --in-place --format msccl >in.xml
"$plan" verify in.xml 2>&1 | grep 'in place: proven' >/dev/null || complain "a schedule in place is not proven in place"

PYTHONDONTWRITEBYTECODE=1 python3 "$tests/msccl_run.py" ring.xml again.xml in.xml >said || complain "runs wrong: $(<said)"
sed 's/type="rrcs"/type="rcs"/' ring.xml >wrong.xml
"$plan" verify wrong.xml 2>said && complain "a ring that forgets to add is proven"
grep -q 'wrong.xml: WRONG: line [0-9]*: gpu [0-9] tb [0-9] step [0-9]*: ' said || complain "no place in: $(<said)"
PYTHONDONTWRITEBYTECODE=1 python3 "$tests/msccl_run.py" wrong.xml >said && complain "a ring that forgets to add runs right"

# How many messages a connection must hold is said: torus is a circle of fused steps over one channel.
"$plan" export allreduce ring --ranks 3 --format msccl -o ring.xml 2>said || complain "a ring is not exported again"
[[ ! -s said ]] || complain "a ring needs more: $(<said)"
grep -q 'name="ring allreduce of 3 ranks, depth 1"' ring.xml || complain "a ring has no depth: $(head -n 1 ring.xml)"
"$plan" export allreduce torus --ranks 6 --format msccl -o torus.xml 2>said || complain "a torus is not exported"
grep -q 'each connection must hold 2 messages' said || complain "no depth in: $(<said)"
grep -q 'name="torus allreduce of 6 ranks, depth 2"' torus.xml || complain "a torus has no depth: $(head -n 1 torus.xml)"

run() { PYTHONDONTWRITEBYTECODE=1 python3 "$tests/msccl_run.py" "$@"; }
run --depth 1 ring.xml >said || complain "a ring of depth 1: $(<said)"
run --depth 2 torus.xml >said || complain "a torus of depth 2: $(<said)"
run --depth 1 torus.xml >said && complain "a torus runs with depth 1"
grep -q deadlock said || complain "a torus of depth 1: $(<said)"

"$plan" export barrier dissemination --ranks 4 --format msccl 2>said && complain "a barrier is exported"
grep -q barrier said || complain "no barrier in: $(<said)"
for words in "allreduce ring --ranks 4" "allreduce ring --ranks 4 --format nccl" "ring.xml --format msccl --ranks 4"; do
    # shellcheck disable=SC2086
    "$plan" export $words >/dev/null 2>&1
    [[ $? == 2 ]] || complain "export $words: not refused with 2"
done

count=${1:-400}
PYTHONDONTWRITEBYTECODE=1 python3 "$tests/msccl_mutations.py" "$plan" "$count" || bad=1
exit $bad
