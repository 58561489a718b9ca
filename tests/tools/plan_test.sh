#!/usr/bin/env bash
# plan_test.sh - tutti-plan from outside: exit codes, output, and files that are wrong.
#
#     TUTTI_BIN=build/bin tests/tools/plan_test.sh
#
# TUTTI_BIN is the program or the folder it lies in. Exit code 77 means skipped.
set -u
shared=$(realpath "${BASH_SOURCE[0]%/*}/../kit/tool.sh")

plan=${TUTTI_BIN:-}
[ -d "$plan" ] && plan=$plan/tutti-plan
if [ ! -x "$plan" ]; then
    echo "TUTTI_BIN names no tutti-plan: skipped"
    exit 77
fi
plan=$(realpath "$plan")

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
tool=$plan
# shellcheck source=tests/kit/tool.sh
source "$shared"

echo "wrong command lines are refused with 2"
for words in "" "sing" "list ring" "show" "show allreduce" "show allreduce ring" "show allreduce sing --ranks 4" \
    "show sing ring --ranks 4" "show allreduce ring --ranks 0" "show allreduce ring --ranks 4x" \
    "show allreduce ring --ranks -4" "show allreduce ring --ranks 99999999999999999999" \
    "show allreduce ring --ranks 65537" "show allreduce ring --ranks 2-4" "show allreduce ring --ranks 4 --root 1" \
    "show reduce tree --ranks 4 --root 4" "show reduce tree --ranks 4 --root 99999" \
    "verify allreduce ring --ranks 4-2" "verify allreduce ring --ranks 4-" "show reduce tree --ranks 4 --radix 1" \
    "show reduce tree/1 --ranks 4" "show reduce tree/ --ranks 4" "show allreduce ring/2 --ranks 4" \
    "show allreduce ring --ranks 4 --unknown" "show a b c" "show FILE --ranks 3" "show --all" \
    "draw allreduce ring --ranks 4 --ports x" "show allreduce ring --ranks 4 --order 0,1,2" \
    "show allreduce ring --ranks 4 --order 0,1,2,2" "show allreduce ring --ranks 4 --order 0,1,2,4" \
    "show allreduce ring --ranks 4 --order 0,1,2,3," "show allreduce ring --ranks 4 --order ,0,1,2" \
    "show allreduce ring --ranks 4 --order 0,1,2,-3" "show allreduce ring --ranks 4 --order 0123" \
    "verify allreduce ring --ranks 3-4 --order 0,1,2" "verify --all --order 0,1,2" \
    "verify --all --ranks 3 --order 0,1,1" "show FILE --order 0,1,2" \
    "show allreduce hierarchical --ranks 4" "draw barrier hierarchical --ranks 4" \
    "show allreduce hierarchical --hosts" "show allreduce hierarchical --hosts 0x2" \
    "show allreduce hierarchical --hosts 2x0" "show allreduce hierarchical --hosts 2x" \
    "show allreduce hierarchical --hosts x2" "show allreduce hierarchical --hosts 2,,1" \
    "show allreduce hierarchical --hosts 2,1," "show allreduce hierarchical --hosts 2x2x2" \
    "show allreduce hierarchical --hosts 2-1" "show allreduce hierarchical --hosts 99999999999x2" \
    "show allreduce hierarchical --hosts 65536x65536" "show allreduce hierarchical --hosts 2x2 --ranks 5" \
    "show allreduce hierarchical --hosts 4x2 --racks 3" "show allreduce hierarchical --hosts 4x2 --racks 2x3" \
    "show allreduce hierarchical --ranks 4 --racks 2x2" "show allreduce ring --ranks 4 --interleaved" \
    "verify allreduce hierarchical --hosts 2x2 --ranks 1-4" "show FILE --hosts 2x2" "list --hosts 2x2"; do
    # shellcheck disable=SC2086 # words are words
    case $words in
        "show allreduce") exits 1 $words ;; # a file of that name, which is not there
        *) exits 2 $words ;;
    esac
    [ -s err ] || fail "'$words' is refused without a word"
done

echo "help, version and list"
exits 0 --help
says out "tutti-plan verify --all"
exits 0 --version
says out "tutti-plan "
exits 0 list
says out "allreduce"
says out "  ring "
exits 0 list --collective barrier --markdown
says out '| `dissemination` |'
grep -q allreduce out && fail "another collective is listed, too"

echo "what is shown can be read, proven and drawn"
exits 0 show allreduce ring --ranks 3
cp out ring
exits 0 show ring
cmp -s out ring || fail "a plan changes when it is read and shown"
timeout 60 "$plan" show - <ring >out 2>err || fail "standard input is not read"
cmp -s out ring || fail "a plan changes when it comes from standard input"
exits 0 verify ring
says out "allreduce of 3 ranks, separate buffers: proven"
exits 0 verify ring --in-place
says out "in place: proven"
exits 0 draw ring --title 'a & b' -o ring.svg
[ -s out ] && fail "the picture is on standard output, too"
says ring.svg "a &amp; b"
exits 0 draw allreduce ring --ranks 3 --values 2,4,6/1,2,3/4,8,12
[ "$(grep -c '>21</text>' out)" -ge 3 ] || fail "4 and 2 and 12 ... do not make 21 on every rank"

echo "a radix is part of the algorithm's name or an option"
exits 0 show reduce tree --ranks 9 --radix 3
cp out with_option
exits 0 show reduce tree/3 --ranks 9
cmp -s out with_option || fail "tree/3 is not tree with radix 3"
exits 0 show reduce tree --ranks 9
cmp -s out with_option && fail "the radix changes nothing"

echo "ranks may come in another order"
exits 0 show allreduce relay --ranks 3 --order 2,0,1
says out "from 2 + in[0] -> to 1" # rank 0
exits 0 show allreduce relay --ranks 3
cp out relay
exits 0 show allreduce relay --ranks 3 --order 0,1,2
cmp -s out relay || fail "the order of numbers is not the usual one"
exits 0 verify allreduce relay --ranks 3 --order 2,0,1
says out "2 plans proven"
exits 0 verify --all --ranks 5 --order 4,2,0,1,3
exits 0 draw broadcast chain --ranks 3 --order 2,0,1

echo "ranks may be on hosts, and hosts in racks"
exits 0 show allreduce hierarchical --hosts 2,2
cp out hosts
says out "plan allreduce ranks 4 "
exits 0 show allreduce hierarchical --hosts 2x2 --ranks 4
cmp -s out hosts || fail "2x2 is not 2,2"
exits 0 show allreduce hierarchical --hosts 2x2 --interleaved
cmp -s out hosts && fail "interleaved ranks are on the same hosts"
exits 0 show allreduce hierarchical --hosts 2,2 --racks 2
cmp -s out hosts || fail "a rack that all hosts are in makes a difference"
exits 0 show allreduce hierarchical --hosts 1,1,1,1 --racks 2x2
cmp -s out hosts && fail "in a rack ranks talk as in a host"
exits 0 verify hosts
for algorithm in hierarchical hierarchical_ring hierarchical_tree; do
    exits 0 verify allreduce $algorithm --hosts 2,1,5 --racks 2,1
    says out "2 plans proven"
done
exits 0 verify reduce hierarchical --hosts 2,1,2 --interleaved
says out "10 plans proven"
exits 0 verify --all --hosts 2x2,1 --racks 1,2
exits 0 verify alltoall hierarchical --ranks 1-9 # on hosts of its own
says out "18 plans proven"
exits 0 list --collective barrier
says out "[hosts]"
exits 0 draw allgather hierarchical --hosts 2x2 -o hosts.svg
says hosts.svg "hierarchical allgather of 4 ranks"
says hosts.svg ">host 1</text>"
exits 0 draw hosts -o plain.svg
grep -q ">host 1<" plain.svg && fail "hosts that nobody named are drawn"
exits 0 draw hosts --hosts 3,1 -o hosts.svg
says hosts.svg ">host 1</text>"
exits 1 draw hosts --hosts 3x2 -o hosts.svg

echo "links may be encoded"
exits 0 verify allreduce twoshot --ranks 2-9 --encoding int8/everywhere
says out "int8 on all links: rounded up to 2 times on the way to a result"
exits 0 verify allreduce ring --hosts 2,2 --encoding bfloat16
says out "bfloat16 on links between hosts: rounded up to "
if grep -q "take" out; then fail "a call may take a ring in bfloat16"; fi
exits 0 verify allreduce ring --hosts 2,2 --encoding int8
says out "no call with int8 takes ring: it would encode sums several times on a level, in units of several elements"
exits 0 verify allreduce hierarchical_direct --hosts 2,2,1 --racks 1,2 --encoding int8
says out "int8 on links between hosts: rounded up to 3 times on the way to a result"
if grep -q "take" out; then fail "a call may take hierarchical_direct in int8"; fi
exits 0 verify allreduce hierarchical_direct --hosts 2,2,1 --racks 1,2 --encoding int4/racks
says out "int4 on links between racks: rounded up to 2 times on the way to a result"
exits 0 verify reduce_scatter hierarchical_direct --hosts 2,2,1 --racks 1,2 --encoding int8/racks
says out "int8 on links between racks: rounded once on the way to a result"
exits 0 verify allgather bruck --ranks 5 --encoding int8/everywhere
says out "calls with int8 take bruck where blocks end with a whole unit"
says out "allgatherv with int8 does not take bruck: blocks may end within a unit"
exits 0 verify alltoall pairwise --ranks 5 --encoding fp8_e4m3/everywhere
says out "alltoallv with fp8_e4m3 takes pairwise, too"
exits 0 verify alltoall direct --ranks 5 --encoding int8/everywhere
says out "alltoallv with int8 does not take direct: ranks do not know each other's counts"
exits 0 verify broadcast tree --ranks 4 --encoding mxfp4/everywhere
says out "rounded once"
exits 0 verify --all --ranks 5 --encoding bfloat16/everywhere
exits 0 verify --all --hosts 2x2,1 --racks 1,2 --encoding int8/racks
exits 0 verify --all --ranks 4-7 --encoding bfloat16 # on hosts of its own
exits 1 verify allreduce doubling --ranks 4 --encoding bfloat16/everywhere
says err "doubling"
exits 0 verify ring --encoding bfloat16/everywhere
says out "bfloat16 on all links: rounded up to 3 times"
says out "no call with bfloat16 takes this plan: it is not of the list of algorithms"
exits 0 verify ring --in-place --encoding bfloat16/everywhere
exits 0 show allgather ring --ranks 3 --in-place
cp out gathers
exits 0 verify gathers --in-place --encoding bfloat16/everywhere
says out "rounded once"
exits 0 verify ring --hosts 2,1 --encoding bfloat16
exits 0 verify allreduce ring --hosts 3,1 --racks 2 --encoding bfloat16/racks
says out "no link is encoded"
exits 0 paths alltoall direct --ranks 3 --count 256 --encoding int8/everywhere
says out "int8 on all links: rounded once on the way to a result"
says out "1024 bytes to 1 (264 in int8): "
exits 0 paths allreduce hierarchical --hosts 2,2 --count 1000 --transport tcp --encoding bfloat16
says out " in bfloat16): "
grep -q "bytes to [0-9]: " out || fail "a link within a host is encoded"
exits 0 paths allreduce --ranks 4 --count 100000 --encoding int8/everywhere
says out "algorithm "
exits 1 paths allreduce ring --ranks 4 --count 1000 --encoding int8/everywhere
says err "encode sums several times"
exits 0 explain allreduce 64M --hosts 2x1 --encoding int8
says out "encoded: int8 on links between hosts"
says out "several ranks complete a result"
exits 0 explain allreduce 64M --hosts 2x1 --encoding int8 --csv
encoded_ns=$(awk -F, '$1 == "twoshot" { print $3 }' out)
exits 0 explain allreduce 64M --hosts 2x1 --csv
plain_ns=$(awk -F, '$1 == "twoshot" { print $3 }' out)
[ "$((2 * encoded_ns))" -lt "$plain_ns" ] || fail "int8 takes $encoded_ns ns, and float32 $plain_ns ns"
for words in "verify ring --encoding int9" "verify ring --encoding bfloat16" "verify ring --hosts 2,2 --encoding bfloat16" \
    "show ring --encoding bfloat16" "draw allreduce ring --ranks 3 --encoding bfloat16/everywhere" \
    "verify barrier dissemination --ranks 3 --encoding bfloat16/everywhere" \
    "paths allreduce ring --ranks 3 --count 1 --encoding bfloat16" \
    "paths allreduce ring --hosts 2,2 --count 1 --encoding bfloat16/racks" \
    "paths --all --ranks 2 --encoding bfloat16/everywhere" "verify ring --encoding bfloat16/nowhere"; do
    # shellcheck disable=SC2086 # words are words
    exits 2 $words
done

echo "values that do not fit are refused"
for values in "" 1 1,2,3 1,2,3/4,5,6/7,8 1,2,3/4,5,6/7,8,9,10 1,2,3/4,5,6/7,8,nan 1,2,3/4,5,6/7,8,9/ 1/2/3; do
    exits 2 draw allreduce ring --ranks 3 --values "$values" -o refused.svg
done
[ -e refused.svg ] && fail "a refused picture leaves a file"

echo "wrong plans are found"
sed 's/ final//' ring >not_final
exits 1 verify not_final
says err "WRONG"
sed '$d' ring >unread
exits 1 verify unread
head -n 5 ring >half
exits 1 verify half
says err "half: line "
exits 1 verify /dev/null
exits 1 verify nowhere
exits 1 verify .
exits 1 draw half -o half.svg
[ -e half.svg ] && fail "a picture of half a plan"
exits 1 draw ring -o nowhere/ring.svg
exits 1 draw allreduce ring --ranks 60
says err "at most 32 ranks can be shown, and there are 60"

echo "a summary and nothing else goes into a pipe"
exits 0 verify allreduce ring --ranks 1-9
[ "$(wc -l <out)" = 1 ] || fail "more or less than one line"
says out "18 plans proven"
[ -s err ] && fail "progress goes into a pipe: $(head -c 200 err)"
exits 0 verify broadcast tree --ranks 4 --root 2
says out "2 plans proven"
exits 0 verify broadcast tree --ranks 4
says out "8 plans proven"

echo "ways of messages"
exits 0 paths alltoall direct --ranks 4 --count 2
says out "0: 8 bytes to 1: inline"
exits 0 paths allreduce twoshot --ranks 2 --count 200000 --in-place
says out "400000 bytes to 1: write, forward, read"
says out "400000 bytes are advertised"
exits 0 paths broadcast direct --ranks 3 --count 8192 --memory private
says out "32768 bytes to all: copy, group-slot"
exits 0 paths broadcast direct --ranks 5 --count 2048 --memory private --why
says out "8192 bytes to all: group-slot, stage"
says out "+ group-slot from 41 bytes on: "
says out "- read from 8192 bytes on, in other memory: "
says out "- copy from 16384 to 1048576 bytes, up to 4 readers: "
says out "rank 4 sends nothing"
exits 0 paths gather --ranks 4 --count 20000 --shared-cores --why
says out "algorithm direct"
says out "+ copy from 16384 to 524288 bytes: "
says out "- copy from 16384 to 1048576 bytes, where each rank has a core: "
exits 0 paths allreduce circulant --ranks 4 --count 80000 --transport tcp --why
says out "+ write from 65536 bytes on: "
exits 0 paths --all --ranks 2 --transport tcp --collective barrier
[ "$(wc -l <out)" = 3 ] || fail "not one line below the head of a table"
exits 0 paths broadcast direct --ranks 2 --count 8192 --transport card
says out "32768 bytes to 1: read, slot"
exits 2 paths allreduce ring --ranks 2
says err "how many elements"
exits 2 paths allreduce ring --ranks 2-4 --count 1
exits 2 paths allreduce ring --ranks 2 --count 1 --transport pigeon
exits 2 paths allreduce ring --ranks 2 --count 1 --memory far
exits 2 paths mine.plan --ranks 2 --count 1
exits 2 paths --all --ranks 2 --count 1
exits 2 paths --all --ranks 2 --why
exits 2 paths broadcast --hosts 2x2 --count 1
says err "which algorithm"
exits 2 paths --ranks 2 --count 1

if [ $failures -gt 0 ]; then
    echo "$failures failed"
    exit 1
fi

echo "explain ranks algorithms by their simulated times, and marks the chosen one"
exits 0 explain allreduce 4M --hosts 8x1 --set card_byte_fs=8000000
says out "allreduce of 4194304 bytes on 8 ranks, 8 hosts"
says out "<- chosen"
says out "card out"
awk '$2 == "ms" { if ($1 < last) exit 1; last = $1 }' out || fail "not in order: $(cat out)"
exits 0 explain alltoall 64K --hosts 2x3 --racks 1,1 --csv
says out "algorithm,only_hosts,time_ns"
says out "hierarchical,1,"
exits 0 explain barrier --ranks 4
exits 0 explain allreduce 1K --ranks 3
says out "cannot do that number of ranks"
says out "all ranks are on one host"
# A slower card takes longer, by as much where nothing else counts.
time_of() { awk -F, -v name="$1" '$1 == name { print int($3) }' out; }
exits 0 explain broadcast 64M --hosts 4x1 --csv --set card_byte_fs=8000000
fast=$(time_of chain)
exits 0 explain broadcast 64M --hosts 4x1 --csv --set card_byte_fs=24000000
slow=$(time_of chain)
[ "$slow" -gt $((fast * 29 / 10)) ] && [ "$slow" -lt $((fast * 31 / 10)) ] || fail "$fast and $slow ns"
exits 0 explain broadcast 64M --hosts 4x1 --csv --set card_byte_fs=8000000 --slow 3=3
slower=$(time_of chain)
[ "$slower" -gt $((fast * 29 / 10)) ] && [ "$slower" -lt $((fast * 31 / 10)) ] || fail "$fast and $slower ns"
# Halves of 256 KiB do not fit into a link to a group, so the other rank's half goes straight to its memory, as in a ring.
exits 0 explain allreduce 512K --ranks 2 --cores 2 --memory mapped --csv
[ "$(time_of twoshot)" -lt $(($(time_of ring) * 11 / 10)) ] || fail "twoshot: $(time_of twoshot) ns, ring: $(time_of ring) ns"
exits 0 explain allreduce 2K --hosts 8x1 --cores 2 --csv
own=$(time_of doubling)
exits 0 explain allreduce 2K --hosts 8x1 --cores 2 --machines 4 --csv
[ "$(time_of doubling)" = "$own" ] || fail "two hosts for two cores are not slower than one"
exits 0 explain allreduce 2K --hosts 8x1 --cores 2 --machines 1 --csv
[ "$(time_of doubling)" -gt $((own * 5 / 4)) ] || fail "hosts that share cores: $(time_of doubling) ns, others: $own ns"
exits 0 explain allreduce 2K --hosts 8x1 --cores 2 --machines 1
says out "8 hosts of 2 cores, on 1 machine;"
exits 0 explain allreduce 64K --hosts 4x1 --racks 2x2 --interleaved-racks
"$tool" show allreduce ring --ranks 3 >ring3.plan
exits 0 explain allreduce 1M --ranks 3 --plan ring3.plan --csv
same=$(awk -F, '$1 == "ring" || $1 == "ring3.plan" { print $3 }' out | sort -u | wc -l)
[[ $same == 1 && $(grep -c '^ring3.plan,' out) == 1 ]] || fail "the same plan costs something else: $(cat out)"
exits 1 explain allreduce 1M --ranks 4 --plan ring3.plan
grep -q 'ring3.plan is a plan for allreduce of 3 ranks' err || fail "ranks of a plan: $(cat err)"
exits 1 explain allreduce 1M --ranks 3 --plan none.plan
sed '0,/  final/s///' ring3.plan >wrong3.plan
exits 1 explain allreduce 1M --ranks 3 --plan wrong3.plan
grep -q 'wrong3.plan.*rank [0-2] lane 0 step' err || fail "a wrong plan: $(cat err)"
for words in "explain" "explain sing 4M --ranks 2" "explain allreduce --ranks 2" "explain allreduce 4X --ranks 2" \
    "explain allreduce 4M" "explain allreduce 4M 5 --ranks 2" "explain allreduce 4M --ranks 2-3" \
    "explain allreduce 4M --ranks 2 --cores 0" "explain allreduce 4M --hosts 4x1 --machines 3" "explain allreduce 4M --hosts 4x1 --machines 0" "explain allreduce 4M --ranks 2 --set x=1" \
    "explain allreduce 4M --ranks 2 --set card_byte_fs" "explain allreduce 4M --ranks 2 --set card_byte_fs=0" \
    "explain allreduce 4M --ranks 2 --radix 3" "explain allreduce 4M --ranks 2 --transport tcp" \
    "explain allreduce 4M --ranks 2 --order 1,0" "explain allreduce 4M --ranks 2 --slow 1=2" "explain allreduce 4M --ranks 2 --slow 0" \
    "explain allreduce 4M --ranks 2 --slow 0=x" "explain allreduce 4M --ranks 2 --root 1" "explain allreduce 2000G --ranks 2"; do
    # shellcheck disable=SC2086 # words
    exits 2 $words
done
exits 1 explain allreduce 4M --ranks 2 --calibration none.json
says err none.json

echo "all fine"
