#!/bin/bash
# What bench/regret makes of measurements: the best candidate of odd rounds judged by even ones and the other way round, the placebo, cells
# that it leaves undecided, the older choice, and the exit code.
# ctest: label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"
if ! command -v python3 >/dev/null; then
    echo "python3 is not here"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
raw=$folder/raw.csv faults=0

fail() {
    echo "FAILED: $*"
    faults=$((faults + 1))
}
begin() {
    echo setting,ranks,collective,size,round,place,candidate,role,old,predicted_us,time_us >"$raw"
}
# entry SETTING COLLECTIVE SIZE CANDIDATE ROLE OLD TIME..., a time for each round; - for none
entry() {
    local setting=$1 collective=$2 size=$3 candidate=$4 role=$5 old=$6 round=0 time
    shift 6
    for time; do
        round=$((round + 1))
        echo "$setting,2,$collective,$size,$round,0,$candidate,$role,$old,1,${time#-}" >>"$raw"
    done
}
# regret; its output is in $printed, its exit code in $code
regret() {
    code=0
    printed=$(bench/regret --from "$raw") || code=$?
}
prints() {
    if ! grep -qE -- "$1" <<<"$printed"; then
        fail "no '$1' in:"
        echo "$printed"
    fi
}
exits() {
    if ((code != $1)); then
        fail "exit code $code, not $1, with:"
        echo "$printed"
    fi
}
# a cell whose chosen algorithm takes TIME and the other one 100
plain() { # SETTING COLLECTIVE SIZE TIME
    entry "$1" "$2" "$3" ring chosen 0 "$4" "$4" "$4" "$4"
    entry "$1" "$2" "$3" ring placebo 0 "$4" "$4" "$4" "$4"
    entry "$1" "$2" "$3" tree other 0 100 100 100 100
}

# The chosen one is the best. One disturbed round of an entry changes nothing.
begin
entry private allreduce 8 ring chosen 0 100 100 100 100 900 100
entry private allreduce 8 ring placebo 0 100 700 100 100 100 100
entry private allreduce 8 tree other 0 150 150 150 150 150 10
regret
prints '^regret: median 1\.000 \(placebo 1\.000\), 90% 1\.000, worst 1\.000, undecided 0 of 1$'
exits 0

# The luck of odd rounds makes no winner: even rounds judge what they have chosen, 100 / 200, and the other way round the chosen one is the
# best: (0.5 + 1) / 2.
begin
entry private allreduce 8 ring chosen 0 100 100 100 100
entry private allreduce 8 ring placebo 0 100 100 100 100
entry private allreduce 8 tree other 0 50 200 50 200
regret
prints '^regret: median 0\.750 '

# Odd rounds choose the tree, even ones the chain, and each is judged by the rounds that did not choose it: (120 / 96 + 120 / 100) / 2.
begin
entry private allreduce 8 ring chosen 0 120 120 120 120
entry private allreduce 8 ring placebo 0 120 120 120 120
entry private allreduce 8 tree other 0 80 96 80 96
entry private allreduce 8 chain other 0 100 80 100 80
regret
prints '^regret: median 1\.225 \(placebo 1\.000\), 90% 1\.225, worst 1\.225, '
prints '^  private 2 allreduce 8: 1\.225 of ring, best is '
exits 1

# A file of before does not say where calls found their buffers; one of today does, and cells that differ in that alone are two.
prints '^in \? +\? buffers +1 '
begin
plain private allreduce 8 100
sed -i '1s/size,/size,buffers,found_in,/; 2,$s/,8,/,8,same,L2,/' "$raw"
sed -n '2,$s/same,L2/other,memory/p' "$raw" >"$folder/other.csv"
cat "$folder/other.csv" >>"$raw"
regret
prints '^in L2 +same buffers +1 '
prints '^in memory +other buffers +1 '
prints 'undecided 0 of 2$'

# The placebo is no candidate.
begin
entry private allreduce 8 ring chosen 0 100 100 100 100
entry private allreduce 8 ring placebo 0 96 96 96 96
entry private allreduce 8 tree other 0 150 150 150 150
regret
prints '^regret: median 1\.000 \(placebo 1\.042\), '

# The median and 90% are each held to their bound.
begin
for size in 1 2 3 4; do plain private reduce $size 102; done
regret
prints '^regret: median 1\.020 '
exits 0
begin
for size in 1 2 3 4; do plain private reduce $size 104; done
regret
prints '^regret: median 1\.040 '
exits 1
begin
for size in 1 2 3 4 5 6 7 8; do plain private reduce $size 90; done
plain private reduce 16 117
plain private reduce 32 117
regret
prints '^regret: median 1\.000 .* 90% 1\.170, worst 1\.170,'
exits 1

# One bad cell of many fails if it is decided, and is listed if it is not; a cell that could not be measured fails.
begin
for size in 1 2 3 4 5 6 7 8 9 10 11; do plain private reduce $size 90; done
cp "$raw" "$folder/fine.csv"
plain private reduce 2097152 160
regret
prints 'worst 1\.600, undecided 0 of 12$'
exits 1
cp "$folder/fine.csv" "$raw"
entry private reduce 2097152 ring chosen 0 160 160 160 160
entry private reduce 2097152 ring placebo 0 150 150 150 150
entry private reduce 2097152 tree other 0 100 100 100 100
regret
prints '^undecided cells: 1$'
prints '^  private 2 reduce 2M: placebo 1\.067, regret 1\.600$'
prints 'worst 1\.000, undecided 1 of 12$'
exits 0
cp "$folder/fine.csv" "$raw"
entry private reduce 65536 ring chosen 0 90 - 90 90
entry private reduce 65536 ring placebo 0 90 90 90 90
entry private reduce 65536 tree other 0 100 100 100 100
regret
prints '^  private 2 reduce 64K: failed$'
prints 'undecided 0 of 11$'
exits 1
# Another candidate without a figure is named, and is no best one.
cp "$folder/fine.csv" "$raw"
entry private reduce 65536 ring chosen 0 90 90 90 90
entry private reduce 65536 ring placebo 0 90 90 90 90
entry private reduce 65536 tree other 0 - 10 10 10
regret
prints '^  private 2 reduce 64K: tree$'
prints '^regret: median 1\.000 .* undecided 0 of 12$'
exits 0

# More undecided cells than a fifth are no answer.
begin
for size in 1 2 3; do plain private reduce $size 90; done
entry private reduce 4 ring chosen 0 100 100 100 100
entry private reduce 4 ring placebo 0 110 110 110 110
regret
prints 'undecided 1 of 4$'
exits 1

# The choice of an older build: its regret, and where the new one beats it; where both choose the same, they are one.
begin
entry racks allgather 8 ring chosen 0 100 100 100 100
entry racks allgather 8 ring placebo 0 100 100 100 100
entry racks allgather 8 direct other 1 144 144 144 144
entry racks allgather 128 ring chosen 1 100 100 100 100
entry racks allgather 128 ring placebo 1 101 101 101 101
entry racks allgather 128 direct other 0 200 200 200 200
entry racks allgather 2048 ring chosen 0 120 120 120 120
entry racks allgather 2048 ring placebo 0 120 120 120 120
entry racks allgather 2048 direct other 1 100 100 100 100
regret
prints '^racks +allgather +3 +0 +1\.000 +1\.200 +1\.20 \| +1\.000 +1\.440 +1\.44 \| +1\.063 +1\.129$'
prints 'the new choice beats the old one by 1\.15 or more: 1$'
prints '^  racks 2 allgather 8: 1\.440, ring and not direct$'
prints 'the old choice beats the new one by 1\.15 or more: 1$'
prints '^  racks 2 allgather 2K: 1\.200, direct and not ring$'

# Nothing is not good.
begin
regret
exits 1

if ((faults > 0)); then exit 1; fi
echo "bench/regret says what the measurements say"
