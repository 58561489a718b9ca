#!/bin/bash
# What bench/table makes of measurements: ratios, floors, targets scaled by the limits, figures of unmeasured peers,
# dtypes, and the exit code of --strict.
# ctest: label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
raw=$folder/raw.txt faults=0

fail() {
    echo "FAILED: $*"
    faults=$((faults + 1))
}
# line LIB OP RANKS BYTES MED LOOP [CHECK], one of peers/run
line() {
    echo "$1 $2 $3 n $4 100 1 $5 9999 $6 1 1 ${7:-ok}" >>"$raw"
}
limits() { # COPY_ONE_CORE COPY_TWO_CORES HOP_NS YIELD_NS
    {
        echo "#limit cores 2, L2 2048 KiB, L3 491520 KiB"
        echo "#limit copy 256 MiB, libc memcpy, 1 core   $1 GB/s         [9.08 .. 10.64]"
        echo "#limit copy 256 MiB, libc memcpy, 2 cores (sum)   $2 GB/s         [9.08 .. 10.64]"
        echo "#limit atomics ping-pong, 2 processes, one per core  $3 ns one way   [144.04 .. 152.39]"
        echo "#limit sched_yield ping-pong, same core  $4 ns one way   [538.49 .. 1227.67]"
    } >>"$raw"
}
# table OPTIONS...; its output is in $printed, its exit code in $code
table() {
    code=0
    printed=$(bench/table -F "$raw" "$@") || code=$?
}
prints() {
    if ! grep -qF -- "$1" <<<"$printed"; then
        fail "no '$1' in:"
        echo "$printed"
    fi
}
exits() {
    if ((code != $1)); then fail "exit code $code, not $1"; fi
}

# Small sizes count back to back, large ones one at a time; of the repeats the best counts, of the peers the fastest.
: >"$raw"
limits 12.0 23 145 800
line tutti allreduce 2 8 7 0.19
line slow allreduce 2 8 1 0.9
line fast allreduce 2 8 9 0.475
line tutti allreduce 2 16777216 2600 9
line tutti allreduce 2 16777216 2400 9
line slow allreduce 2 16777216 5000 1
line slow allreduce 2 16777216 4800 1
table -o allreduce -n 2 --strict
prints "| 8 B | 2.50 (0.19; fast 0.47) | 0.95 of 0.20 |"
prints "| 16 MiB | 2.00 (2400; slow 4800) | 0.96 of 2500 |"
prints "geometric mean 2.24 of 2 (floor 2.0), least 2.00 at 16 MiB"
prints "targets missed: 0 of 2"
prints "below their floor: 0 of 2 cells, 0 of 1 geometric means"
exits 0

# A machine with half of the reference's yield and twice its bandwidth has other targets; the better limits count.
: >"$raw"
limits 20.0 30 145 700
limits 24.0 46 145 400
line tutti allreduce 4 8 1 0.96
line peer allreduce 4 8 9 9
line tutti allreduce 4 65536 11 1
line peer allreduce 4 65536 90 9
table -o allreduce -n 4 --strict
prints "**1.01** of 0.95"
prints "0.96 of 11.50"
prints "targets missed: 1 of 2"
exits 1

# What the missing UCC would take counts unless it was measured.
: >"$raw"
limits 12.0 23 145 800
line tutti allreduce 2 1048576 90 1
line peer allreduce 2 1048576 1000 1
table -o allreduce -n 2
prints "1.50 (90.00; ucc* 135.0)"
line openmpi-ucc-m allreduce 2 1048576 450 1
table -o allreduce -n 2
prints "5.00 (90.00; openmpi-ucc-m 450.0)"

# Below the floor of the operation at that size; a wrong result of a peer is no result.
: >"$raw"
line tutti reduce 2 1024 1 1
line peer reduce 2 1024 9 0.8
line tutti reduce 2 4096 1 1
line peer reduce 2 4096 9 0.9
line liar reduce 2 4096 9 0.1 BAD
table -o reduce -n 2
prints "| 1 KiB | 0.80 (1.00; peer 0.80) |"
prints "| 4 KiB | **0.90** (1.00; peer 0.90) |"
prints "below their floor: 1 of 2 cells, 1 of 1 geometric means"
exits 0
table -o reduce -n 2 --strict
exits 1

# Wrong results of Tutti fail without --strict, missing ones with it.
: >"$raw"
line tutti barrier 2 0 1 1 BAD
line peer barrier 2 0 9 9
table -o barrier -n 2
prints "| 0 B | BAD |"
exits 1
: >"$raw"
line peer barrier 2 0 9 9
table -o barrier -n 2
exits 0
table -o barrier -n 2 --strict
prints "no result of Tutti: 1"
exits 1

# Forms and dtypes come from tutti-perf's CSV.
: >"$raw"
line tutti reduce 2 8 1 1
line peer reduce 2 8 9 9
cat >>"$raw" <<'END'
op,ranks,algorithm,size,count,dtype,redop,root,in_place,iterations,time_us,min_us,p50_us,p99_us,max_us,algbw,busbw,wrong,form,memory,skew,displs,tensors,misalign,priority
reduce,2,,8,2,float32,sum,0,0,9,2.0,1,1.0,4.0,9,1,1,0,blocking,private,none,null,0,0,0
reduce,2,,8,2,float32,sum,0,1,9,3.0,1,1.0,5.0,9,1,1,0,blocking,private,none,null,0,0,0
reduce,2,,8,2,float32,sum,0,0,9,2.2,1,1.0,4.0,9,1,1,0,started,private,none,null,0,0,0
reduce,2,,8,2,float32,sum,0,0,9,1.0,1,1.0,4.0,9,1,1,0,blocking,mapped,none,null,0,0,0
dtype-reduce,2,,16777216,4194304,float32,sum,0,0,9,1,1,100,1,9,1,1,0,blocking,private,none,null,0,0,0
dtype-reduce,2,,16777216,8388608,bfloat16,sum,0,0,9,1,1,200,1,9,1,1,0,blocking,private,none,null,0,0,0
dtype-reduce,2,,16777216,8388608,float16,sum,0,0,9,1,1,80,1,9,1,1,0,blocking,private,none,null,0,0,0
dtype-reduce,2,,16777216,16777216,int8,sum,0,0,9,1,1,100,1,9,1,1,0,blocking,private,none,null,0,0,0
END
table -o reduce -n 2 --forms --strict
prints "| 8 B | 2.00 | 2.20 (1.10) | 3.00 (1.50) | 1.00 (0.50) |  | 4.00 (4.00) |"
prints "| reduce, 2 ranks | 100.0 | **0.50** | 1.25 | 1.00 |"
prints "dtypes below their floor: 1 of 3"
exits 1

# What bench/table prints, as curves: the mean over the ranks, and a dot for each cell; the first table of an operation counts.
: >"$raw"
limits 12.0 16.777216 145 800
line tutti allreduce 2 8 1 1
line peer allreduce 2 8 2 2
line tutti allreduce 4 8 1 1
line peer allreduce 4 8 8 8
line tutti allreduce 2 67108864 1000 1000
line peer allreduce 2 67108864 1000 1000
line liar allreduce 2 67108864 10 10 BAD
line tutti barrier 2 0 1 1
line peer barrier 2 0 9 9
tables=$(bench/table -F "$raw")
later=$(printf '# Later\n\nallreduce: best peer / Tutti (us)\n\n| bytes | 2 ranks |\n|---:|---:|\n| 8 B | 8.00 (1.00; peer 8.00) |')
# The heights of 4 and 1 are those of the lines there.
height_of() { sed -nE "s/.*<path class=\"[er]\" d=\"M52 ([0-9.]+)h330\".*/\1/p" <<<"$printed" | sed -n "$1p"; }
printed=$(bench/curves <<<"$tables
$later")
prints "<path class=\"l l0\" d=\"M60.0 $(height_of 4)L374.0 $(height_of 2)\"/>"
prints "cx=\"60.0\" cy=\"$(height_of 3)\" r=\"2.1\"/>"
prints "cx=\"60.0\" cy=\"$(height_of 5)\" r=\"3.0\"/>"
prints '>4 ranks</text>'
if grep -q 'barrier' <<<"$printed"; then fail "barrier has no sizes"; fi
printed=$(bench/curves -s Later <<<"$tables
$later")
if grep -q '4 ranks' <<<"$printed"; then fail "curves read what stands under another heading"; fi
prints "cx=\"60.0\" cy=\"$(height_of 5)\""
if bench/curves </dev/null 2>/dev/null; then fail "curves of nothing"; fi

if ((faults > 0)); then exit 1; fi
echo "bench/table says what the measurements say"
