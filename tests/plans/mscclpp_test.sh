#!/bin/bash
# Execution plans of MSCCL++, from outside: tutti-plan writes every algorithm that the format has a collective for, and a program that
# knows no more than the format runs them right. It refuses broken ones, each for its reason.
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
run() { PYTHONDONTWRITEBYTECODE=1 python3 "$tests/mscclpp_run.py" "$@"; }

# Every algorithm, 2 to 5 ranks, separate buffers and in place.
declare -A hosts=([2]=1,1 [3]=2,1 [4]=2,2 [5]=2,2,1)
mkdir good 2 3 4 5 # on one host; on several hosts, by the number of ranks
count=0
write() { # NAME, arguments of export
    local name=$1
    shift
    if "$plan" export "$@" --format mscclpp -o "$name" 2>said; then
        count=$((count + 1))
    elif ! grep -q 'cannot do' said; then
        complain "$name: $(<said)"
    fi
}
for collective in allreduce allgather reduce_scatter alltoall; do
    "$plan" list --collective "$collective" --markdown | sed -n 's/^| `\([a-z_]*\)` .*| \([^|]*\) | [^|]* |$/\1 \2/p' >algorithms
    while read -r algorithm properties; do
        for ranks in 2 3 4 5; do
            for place in "" --in-place; do
                # shellcheck disable=SC2086
                if [[ $properties == *hosts* ]]; then
                    write $ranks/$collective.$algorithm$place.json $collective $algorithm --hosts ${hosts[$ranks]} $place
                else
                    write good/$collective.$algorithm.$ranks$place.json $collective $algorithm --ranks $ranks $place
                fi
            done
        done
        [[ $properties == *hosts* ]] || write 4/"$collective.$algorithm.json" "$collective" "$algorithm" --hosts "${hosts[4]}"
    done <algorithms
done

# Port channels lead to other hosts, and only to them, also for a plan from a file.
"$plan" show allreduce ring --ranks 4 >ring.plan || complain "a ring is not shown"
write 4/from-a-file.json ring.plan --hosts 2x2
"$plan" export ring.plan --hosts 3x2 --format mscclpp >said 2>&1 && complain "hosts of 6 ranks for a plan of 4"
grep -q "the hosts have another number of ranks" said || complain "other hosts: $(<said)"
"$plan" export ring.plan --hosts 2x2 --format msccl >said 2>&1 && complain "MSCCL is told of hosts"
right=0
for ranks in 2 3 4 5; do
    run --hosts "${hosts[$ranks]}" $ranks/*.json >said || complain "$ranks ranks: $(<said)"
    right=$((right + $(sed -n 's/ right, 0 wrong$//p' said)))
done
grep -q '"pwsf"' 4/allreduce.ring.json || complain "nothing goes over ports"
run --hosts 2,2 good/allreduce.ring.4.json >said && complain "memory channels between hosts run right"
run --hosts 2,2 --without-each 4/allreduce.ring.json >said || complain "$(<said)"

# A message also says that the step which sent it has stored: rank 0's second lane sends on what its first lane stored.
cat >relied.plan <<'END'
plan allgather ranks 2 parts 1
rank 0
lane 0
in[0] -> out[0], to 1
lane 1
from 1 -> out[1]
out[0] -> to 1 channel 1
rank 1
scratch like 0
lane 0
from 0 -> out[0]
in[0] -> out[1], to 0
from 0 channel 1 -> scratch[0]
END
"$plan" export relied.plan --format mscclpp -o good/relied.json || complain "a plan as text is not exported"
count=$((count + 1))
[[ $count -ge 345 ]] || complain "only $count plans"
run good/* >said || complain "$(<said)"
grep -qx "$((count - right)) right, 0 wrong" said || complain "of $count plans: $(tail -n 1 said)"

# What has no place in the format.
for words in "barrier dissemination" "broadcast direct" "reduce direct" "gather direct" "scatter direct"; do
    # shellcheck disable=SC2086
    "$plan" export $words --ranks 3 --format mscclpp >written 2>said
    [[ $? == 1 && ! -s written ]] || complain "$words is exported"
    grep -q "${words% *}: .*MSCCL++" said || complain "$words: $(<said)"
done
"$plan" export allreduce ring --ranks 3 --format mscclp >said 2>&1
[[ $? == 2 ]] || complain "a format of another name is accepted"

# Without any one of its operations a plan is wrong.
run --without-each good/allreduce.{ring.3,twoshot.3-*,double_tree.4,circulant.3}.json good/allgather.ring.3-*.json >said || complain "$(<said)"

# Broken files, each with what should be said of it.
mkdir broken
: >reasons
broken() { # NAME PATTERN SED-SCRIPT [FILE]
    sed -E "$3" "good/${4:-allreduce.ring.3}.json" >"broken/$1.json"
    cmp -s "broken/$1.json" "good/${4:-allreduce.ring.3}.json" && complain "$1: not broken"
    echo "broken/$1.json: wrong: .*$2" >>reasons
}
broken truncated 'no JSON' '$d'
broken twice 'a member twice' 's/"protocol": "Simple",/& &/'
broken unknown 'members' 's/"protocol": "Simple",/& "colour": 1,/'
broken missing 'members' '/"buffer_alignment"/d'
broken protocol 'protocol is' 's/"Simple"/"LL"/'
broken bool 'inplace is' 's/"inplace": false/"inplace": 0/'
broken infinite 'no number' 's/("max_message_size": ).*/\1Infinity/'
broken large '32 bits' 's/("max_message_size": ).*/\118446744073709551615/'
broken get 'no operation is called' '0,/"copy"/s//"get"/'
broken max 'reduce_op is' '0,/"sum"/s//"max"/'
broken channel 'is not from 0 to' '0,/"channel_ids": \[1\]/s//"channel_ids": [16]/'
broken remote 'is not from 0 to' '0,/"buffer_id": 0/s//"buffer_id": 1/'
broken beyond 'is not from' '0,/"type": "s", "index": [0-9]*/s//"type": "s", "index": 4/'
broken unpaired 'has no other end' '0,/"connected_to": \[1, 2, 1, 2\]/s//"connected_to": [1, 2, 1, 2, 2]/'
broken many 'no array of 1 to 64' '0,/(\{"name": "nop"\},)/s//\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1/'
broken operand 'holds' '0,/"type": "i", "index": 1/s//"type": "i", "index": 2/'
broken rubbish 'holds' '0,/\{"type": "s", "index": 0, "size": 1\}, (\{"type": "i", "index": 1, "size": 1\})/s//\1, {"type": "s", "index": 3, "size": 1}/'
broken order 'another order' '0,/(\{"type": "s", "index": 0, "size": 1\}, )(\{"type": "s", "index": 1, "size": 1\}, )/s//\2\1/' allreduce.oneshot.4
broken elsewhere 'race with a store' '0,/("buffer_id": 0, "index": )1/s//\10/'
broken collective '(holds|chunks in)' 's/"allgather"/"alltoall"/' allgather.ring.3
broken place 'holds' 's/"inplace": true/"inplace": false/' allgather.ring.3--in-place
run broken/* >said && complain "broken plans run right"
grep -v -x -E -f <(sed 's/$/.*/' reasons) said | grep -v ' right, ' && complain "wrong for other reasons"
while read -r reason; do
    grep -q -x -E "$reason.*" said || complain "not said: $reason"
done <reasons
exit $bad
