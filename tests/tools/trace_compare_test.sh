#!/usr/bin/env bash
# trace_compare_test.sh - tutti-trace compare from outside, over dumps made by hand: a rank that is late, one that receives slowly, hosts
# whose clocks differ, what dumps lack, and files that are wrong.
#
#     TUTTI_BIN=build/bin tests/tools/trace_compare_test.sh
#
# Exit code 77 means skipped.
# ctest: label=longsan label=once timeout=60
set -u
shared=$(realpath "${BASH_SOURCE[0]%/*}/../kit/tool.sh")

trace=${TUTTI_BIN:-}/tutti-trace
if [ ! -x "$trace" ]; then
    echo "TUTTI_BIN names no tutti-trace: skipped"
    exit 77
fi
tool=$(realpath "$trace")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
umask 077
# shellcheck source=tests/kit/tool.sh
source "$shared"

says() { # file, extended regular expression
    grep -qE -- "$2" "$1" || fail "no '$2' in: $(head -c 2000 "$1")"
}
does_not_say() {
    ! grep -qE -- "$2" "$1" || fail "'$2' in: $(head -c 2000 "$1")"
}

# entry NUMBER CALL ALGORITHM BEGIN END [MORE]: of 4 MiB, in us
entry() {
    printf '{"sequence": %d, "call": "%s", "algorithm": "%s", "begin_ns": %d000, "end_ns": %d000,
 "count": 1048576, "dtype": "float32", "state": "done"%s}' "$1" "$2" "$3" "$4" "$5" "${6:-}"
}
# dump FOLDER RANK HOST WALL ENTRY...: of 4 ranks; WALL in ns, when the host's own clock shows 0.9 s
dump() {
    local IFS=,
    mkdir -p "$1"
    printf '{"tutti_trace": 1, "communicator": "5eed", "rank": %d, "size": 4, "host": "%s", "pid": 1,
 "wall_ns": %d, "monotonic_ns": 900000000, "calls": 9, "messages": [], "operations": [%s]}' \
        "$2" "$3" "$4" "${*:5}" >"$1/tutti-5eed-rank$2.json"
}
wall=1790000000000000000
# One byte in 8 ns: 1 Gbit/s. A ring needs 50.4 ms then, and a tree of broadcast 67.2 ms.
echo '{"tutti_calibration": 1, "parameters": {"card_byte_fs": {"value": 8000000, "known": "measured"}}}' >cards.json
echo '{"tutti_calibration": 1, "parameters": {"card_byte_fs": {"value": 80000, "known": "measured"}}}' >fast.json

echo "wrong command lines are refused with 2"
mkdir empty
for words in "" "--csv" "empty --top" "empty --top 0" "empty --top x" "empty --top 1x" "empty --calibration" "empty --unknown" "empty --csv=1"; do
    # shellcheck disable=SC2086 # words are words
    exits 2 compare $words
    [ -s err ] || fail "'$words' is refused without a word"
    [ -s out ] && fail "'$words' is refused and prints"
done

echo "files that are wrong are refused with 1"
exits 1 compare nowhere
says err "nowhere: No such file"
exits 1 compare empty
says err "there are no dumps"
mkdir wrong
echo '{"tutti_trace": 1}' >wrong/tutti-ab-rank0.json
exits 1 compare wrong
says err "communicator"

echo "one rank is late: it is named, and the time of the call begins when it has come"
for number in 1 2 3; do
    at=$((number * 100000))
    for rank in 0 1 3; do
        entry $number allreduce ring $((at + 100 * rank)) $((at + 84000 + rank)) >"$rank.$number"
    done
    entry $number allreduce ring $((at + 31000)) $((at + 84000)) >2.$number
done
for rank in 0 1 2 3; do
    dump late $rank node$rank $wall "$(cat $rank.1)" "$(cat $rank.2)" "$(cat $rank.3)"
    dump one $rank node $wall "$(cat $rank.1)" "$(cat $rank.2)" "$(cat $rank.3)"
done
exits 0 compare late --calibration cards.json
says out "^communicator 5eed: 4 ranks on 4 hosts, 3 calls$"
says out "^numbers: cards.json, 1 of [0-9]+ measured; 1 core a host \(assumed\)$"
says out "^ +3  #1 allreduce 4194304 bytes float32 +53.0 ms +50\.[0-9] ms +1\.05 +31\.0 ms  ring +card (in|out) of host node[0-3] \((9[0-9]|100)%\)$"
says out "^ +rank 2 \(host node2\) came last in 3 of 3, 30.7 ms after the others$"
says out "^ +2 +37% +3 +0  node2$"
does_not_say out "as if"
says out "^clocks: hosts are compared by their own clocks"
exits 0 compare one
says out "4 ranks on 1 host"
says out "rank 2 \(host node\) came last in 3 of 3, 30.7 ms"
does_not_say out "clocks:"

echo "what a job measured counts where no calibration has it"
cp -r late told
sed -i 's/"pid": 1,/"pid": 1, "measured": {"card_byte_fs": 8000000},/' told/*.json
exits 0 compare told
says out "^numbers: as shipped, 1 of [0-9]+ measured, 1 of them by the job; 1 core a host \(assumed\)$"
says out "^ +3  #1 allreduce 4194304 bytes float32 +53.0 ms +50\.[0-9] ms "
exits 0 compare told --calibration fast.json
says out "^numbers: fast.json, 1 of [0-9]+ measured; 1 core"
does_not_say out " 50\.[0-9] ms "

echo "ranks that share cores are predicted to take longer, by the cores of the dumps"
predicted_ns() { # of the first call
    exits 0 compare "$@" --csv
    sed -n 2p out | cut -d, -f11
}
own=$(predicted_ns one)
sed -i 's/"pid": 1,/"pid": 1, "cores": 2,/' one/*.json
shared=$(predicted_ns one)
((shared > own * 21 / 20)) || fail "four ranks on four cores: $own ns, on two: $shared ns"
exits 0 compare one
says out "; 2 cores a host, which its 4 ranks share$"
exits 0 compare one --calibration cards.json # which is of no machine
says out "; 2 cores a host, which its 4 ranks share$"

echo "so do hosts that share cores"
for rank in 0 1 2 3; do
    dump pods $rank pod$rank $wall "$(entry 1 allreduce doubling 100000 653000)" "$(entry 2 barrier dissemination 700000 700010)"
done
sed -i 's/"pid": 1,/"pid": 1, "cores": 1,/' pods/*.json
own=$(predicted_ns pods)
sed -i 's/"cores": 1,/"cores": 1, "same_cores_as": 0,/' pods/*.json
shared=$(predicted_ns pods)
((shared > own * 21 / 20)) || fail "four hosts of a core each: $own ns, of one core together: $shared ns"
exits 0 compare pods
says out "; 1 core a host, and some hosts share theirs$"
sed -i 's/"same_cores_as": 0/"same_cores_as": 4/' pods/*-rank2.json
exits 1 compare pods

echo "uplinks of racks that the dumps know hold a call up"
echo '{"tutti_calibration": 1, "parameters": {"card_byte_fs": {"value": 8000000, "known": "measured"},
 "uplink_byte_fs": {"value": 80000000, "known": "measured"}}}' >uplinks.json
for rank in 0 1 2 3; do
    dump racks $rank node$rank $wall "$(entry 1 allreduce ring 100000 653000)" "$(entry 2 barrier dissemination 700000 700010)"
    sed -i "s/\"pid\": 1,/\"pid\": 1, \"rack\": $((7 - rank / 2)),/; s/\"messages\"/\"choices\": [{\"call\": \"allreduce\", \"count\": 1048576, \"dtype\": \"float32\", \"algorithm\": \"ring\", \"reason\": \"r\", \"only_hosts\": true}], &/" racks/*-rank$rank.json
done
exits 0 compare racks --calibration uplinks.json
says out "^communicator 5eed: 4 ranks on 4 hosts in 2 racks, 2 calls$"
says out " 553.0 ms +50[0-9]\.[0-9] ms +1\.[01][0-9] +0 ns  ring +uplink (in|out) of the rack of host node[02] \((9[0-9]|100)%\)$"
does_not_say out "as if"
exits 0 compare racks --calibration cards.json # uplinks of 10 Gbit/s, as shipped
says out " 553.0 ms +50\.[0-9] ms "
sed -i 's/80000000/40000000/' uplinks.json
exits 0 compare racks --calibration uplinks.json
says out "^ +as if the uplinks had 4[5-9]% of their calibrated rate$"
sed -i 's/"rack": 6,//' racks/*-rank2.json
exits 0 compare racks --calibration uplinks.json # one host's rack is not known
says out "4 ranks on 4 hosts, 2 calls"

echo "the same where nobody's clock can be trusted"
sed -i 's/"wall_ns": 179/"wall_ns": 178/' late/tutti-5eed-rank1.json
exits 0 compare late --calibration cards.json
says out " 53.0 ms +50\.[0-9] ms +1\.05 "
says out "rank 2 \(host node2\) waited least in 3 of 3, by 30.7 ms: the others waited for it"
says out "^clocks: those of rank [0-3] and rank [0-3] differ by [0-9.]+ s at least"
sed -i 's/"wall_ns": 17[0-9]*,//' late/*.json
exits 0 compare late
says out "not all dumps say when they were written"
says out "waited least in 3 of 3"

echo "who is merely said to be late by a clock is not blamed"
for rank in 0 1 2 3; do # rank 2's clock is 20 ms ahead
    dump ahead $rank node$rank $((wall + (rank == 2) * 20000000)) "$(entry 1 allreduce ring 100000 153000)"
done
exits 0 compare ahead --calibration cards.json
does_not_say out "(came last|waited least|as if)"

echo "one rank receives slowly, and nobody else is held up"
broadcast() { # FOLDER END-OF-RANK-3
    for rank in 0 1 2 3; do
        local end=$((167000 + rank))
        ((rank == 3)) && end=$2
        dump "$1" $rank node$rank $wall "$(entry 1 broadcast tree 100000 $end ', "root": 0')"
    done
}
broadcast slow 314000
exits 0 compare slow --calibration cards.json
says out " 214.0 ms +67\.[0-9] ms +3\.1[89] +0 ns  tree "
# Its card has half as much to do as the root's, which is the busiest: so it is slower than the ratio says.
says out "^ +as if rank 3 \(host node3\) received at 1[56]% of its calibrated rate: it ended last, the others in the predicted time, by the hosts' clocks$"
exits 0 compare slow --calibration fast.json # with cards of 100 Gbit/s they are not the bottleneck
does_not_say out "as if"
broadcast fine 168000
exits 0 compare fine --calibration cards.json
does_not_say out "as if"

echo "all are slow: nobody is named"
for rank in 0 1 2 3; do
    dump all $rank node$rank $wall "$(entry 1 allreduce ring 100000 261000)"
done
exits 0 compare all --calibration cards.json
says out "^ +as if the cards had 31% of their calibrated rate$"

echo "the worst first, and no more lines than are asked for"
for rank in 0 1 2 3; do
    dump two $rank node$rank $wall "$(entry 1 allreduce ring 100000 153000)" "$(entry 2 allreduce tree 200000 900000)"
done
exits 0 compare two --calibration cards.json
[ "$(grep -oE '#[12]' out | tr '\n' ' ')" = "#2 #1 " ] || fail "another order: $(cat out)"
exits 0 compare two --calibration cards.json --top 1
does_not_say out "#1"
says out "and 1 kind of calls more"

echo "for programs"
exits 0 compare two --calibration cards.json --csv
says out "^communicator,first,calls,collective,started,bytes,dtype,root,algorithm,measured_ns,predicted_ns,ratio,busiest,busy,"
says out '^5eed,2,1,allreduce,0,4194304,float32,-1,"tree",700000000,[0-9]+,[0-9.]+,"card (in|out) of host node[0-9]",[01]\.[0-9]{3},0,,0,0,,0$'
[ "$(wc -l <out)" = 3 ] || fail "a head and two lines: $(cat out)"
[ "$(tr -dc ',\n' <out | sort -u | wc -l)" = 1 ] || fail "lines differ in their columns: $(cat out)"

echo "what dumps lack is said"
exits 0 compare two/*rank[013].json
says out "not predicted: no dump names the hosts of some ranks"
says out "^dumps: 3 of 4 ranks; there is none of rank 2: "
for rank in 0 1 2 3; do
    state=done
    ((rank == 1)) && state=running
    dump lacking $rank node$rank $wall "$(entry 1 allreduce unheard_of 100000 153000)" \
        "$(entry 2 allreduce ring 200000 253000 | sed "s/done/$state/")" \
        "$(entry 3 allgatherv ring 300000 353000)" \
        "$(entry $((rank == 1 ? 5 : 4)) allreduce ring 400000 453000)" \
        "$(entry 6 broadcast ring 500000 553000 ", \"root\": $((rank / 2))")"
done
exits 0 compare lacking
says out ", 1 call$"
says out "not predicted: this version knows no such algorithm or dtype"
says out "^left out: 1 not in all dumps; 1 not completed by all ranks; 1 that differ between ranks; 1 of v forms"

echo "dumps that do not fit together are refused"
exits 1 compare two two/tutti-5eed-rank0.json
says err "two dumps of rank 0"
sed -i 's/"size": 4/"size": 5/' two/tutti-5eed-rank3.json
exits 1 compare two
says err "dumps of different jobs"
exits 1 compare slow --calibration nowhere.json
says err "nowhere.json"

echo "numbers that no dump has do no harm"
for rank in 0 1 2 3; do
    dump huge $rank node$rank 9223372036854775807 "$(entry 1 allreduce ring $((1 + rank % 2)) 9223372036854775 |
        sed 's/1048576/9223372036854775807/')"
done
exits 0 compare huge
says out "not predicted: it is too large to be predicted"

[ $failures = 0 ] || echo "$failures failures"
[ $failures = 0 ]
