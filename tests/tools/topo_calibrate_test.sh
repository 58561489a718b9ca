#!/usr/bin/env bash
# topo_calibrate_test.sh - tutti-topo --calibrate and --calibration from outside: what is measured is within bounds and can be read
# again, a file of another machine is told with what differs, and a machine that others use is said to be loaded. How long anything takes is
# not asked.
#
#     TUTTI_BIN=build/bin tests/tools/topo_calibrate_test.sh
#
# Exit code 77 means skipped.
# ctest: label=nosan label=once serial
set -u
shared=$(realpath "${BASH_SOURCE[0]%/*}/../kit/tool.sh")

tool=${TUTTI_BIN:-}/tutti-topo
if [ ! -x "$tool" ]; then
    echo "TUTTI_BIN names no tutti-topo: skipped"
    exit 77
fi
tool=$(realpath "$tool")

work=$(mktemp -d) || exit 1
finish() {
    rest
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM HUP
cd "$work" || exit 1
unset TUTTI_CALIBRATION
export XDG_CACHE_HOME=$work/cache HOME=$work/home
# shellcheck source=tests/kit/tool.sh
source "$shared"

# measures ARGUMENTS...: whether the machine was loaded is nobody's fault here.
measures() {
    timeout 100 "$tool" --calibrate "$@" >out 2>err </dev/null
    local got=$?
    case $got in
    0) grep -q loaded err && fail "it says that the machine is loaded, and exits with 0: $(cat err)" ;;
    3) says err "this machine is loaded, and the file says so: measuring got" ;;
    *) fail "--calibrate $*: exit $got: $(head -c 300 err)" ;;
    esac
}

echo "wrong command lines are refused with 2"
for words in "--calibrate a b" "--calibrate --calibration" "--calibration --probe" "--calibrate --levels" "--calibrate --format json" "--calibration --levels" \
    "--calibration --ranks 2" "--calibration --title x" "--calibration a b"; do
    # shellcheck disable=SC2086 # words are words
    exits 2 $words
    [ -s err ] || fail "'$words' is refused without a word"
    [ -s out ] && fail "'$words' is refused and prints"
done

echo "nothing is there before it is measured"
exits 1 --calibration
says err "tutti/calibration-"
says err "No such file"

echo "rates are shown in units that fit them"
echo '{"tutti_calibration": 1, "parameters": {"card_byte_fs": {"value": 40000000}, "uplink_byte_fs": {"value": 80000}}}' >rates.json
chmod 600 rates.json
exits 0 --calibration rates.json
says out "40000000 fs/byte     25.0 MB/s "
says out "80000 fs/byte     12.5 GB/s "

echo "this host is measured"
measures
file=$(echo "$work"/cache/tutti/calibration-*.json)
[ -f "$file" ] || fail "nothing is at $file"
says err "$file is written"
grep -q $'\r\|\x1b' err && fail "progress goes to a pipe: $(cat -v err)"
cp out measured
exits 0 --calibration
cmp -s out measured || fail "what is shown is not what was measured: $(diff measured out)"
cp "$file" here.json
exits 0 --calibration here.json -o table
cmp -s table measured || fail "-o writes another table: $(diff measured table)"
TUTTI_CALIBRATION=$work/here.json XDG_CACHE_HOME=/nowhere exits 0 --calibration
says here.json '"tutti_calibration": 1'
python3 -m json.tool here.json >/dev/null 2>err || ! command -v python3 >/dev/null || fail "this is no JSON: $(cat err)"

# What every machine can measure is measured; a byte takes a core between 1 fs and 1 us, and no less in memory than in a hundredth of that.
echo "what is measured makes sense"
for name in copy_each_ps copy_near_byte_fs copy_far_byte_fs reduce_plain_near_byte_fs reduce_plain_far_byte_fs reduce_float16_near_byte_fs \
    reduce_float16_far_byte_fs reduce_float8_near_byte_fs reduce_float8_far_byte_fs memory_byte_fs turn_ps; do
    awk -v name=$name '$1 == name { found = /  measured  / && $2 + 0 >= (name ~ /each/ ? 0 : 1) && $2 + 0 <= 1e12 } END { exit !found }' \
        measured || fail "$name: $(grep "^$name" measured)"
done
awk '{ value[$1] = $2 } END { exit !(value["copy_far_byte_fs"] * 100 > value["copy_near_byte_fs"] && value["turn_ps"] > 1000) }' measured ||
    fail "memory is a hundred times as fast as a cache, or a turn takes no time: $(cat measured)"
awk '$1 == "card_byte_fs" { found = / assumed / } END { exit !found }' measured || fail "a card was measured on one host"
awk '$1 == "slot" && $2 > 0 && $4 > 0 { n++ } END { exit n != 2 }' measured || fail "not two ways through slots: $(cat measured)"

echo "a file of another machine is told, with what differs"
sed 's/"cpu_model": "[^"]*"/"cpu_model": "Abacus"/; s/"kernel_release": "[^"]*"/"kernel_release": "0.01"/' here.json >other.json
exits 1 --calibration other.json
says err 'other.json: not for this machine: it was measured with the processor "Abacus", and this is "'
says err '; it was measured with the kernel "0.01", and this is "'
says out Abacus
sed 's/"cpu_count": [0-9]*/"cpu_count": 77/' here.json >other.json
exits 1 --calibration other.json
says err 'it was measured with 77 processors, and here are'

exits 1 --calibrate other.json
says err 'not for this machine'

echo "what is not measured is taken from a file"
printf '{"tutti_calibration": 1, "parameters": {"uplink_byte_fs": {"value": 4711}, "turn_ps": {"value": 0}},\n "within": {"slot": {"sender_ps": 42}}}\n' >mine.json
measures mine.json -o more.json
says more.json '"uplink_byte_fs": {"value": 4711, '
says more.json '"slot": {"sender_ps": 42, '
says more.json "$(grep -o '"cpu_model": "[^"]*"' here.json)"
grep -q '"turn_ps": {"value": 0,' more.json && fail "what is measured is taken from a file"

echo "wrong files are told with name and line"
sed '/"turn_ps"/s/"value": [0-9]*/"value": -1/' here.json >wrong.json
exits 1 --calibration wrong.json
says err "wrong.json: line $(grep -n turn_ps wrong.json | cut -d: -f1): \"value\": a whole number from 0 to"
[ -s out ] && fail "a wrong file is shown"
chmod 666 here.json
exits 1 --calibration here.json
says err "here.json: other users can write it (mode 0666)"

# Two ranks on each of two hosts that are none: TUTTI_HOSTID tells them apart.
echo "hosts of a job measure the way to each other"
job() { # arguments
    local rank pids=() code=0 got
    export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 TUTTI_SECRET=calibration-of-a-job
    MASTER_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    export MASTER_PORT
    : >out
    : >err
    for ((rank = 0; rank < WORLD_SIZE; rank++)); do
        RANK=$rank LOCAL_RANK=$((rank / 2)) LOCAL_WORLD_SIZE=2 TUTTI_HOSTID=$((rank % 2)) \
            timeout 100 "$tool" --calibrate --probe "$@" >>out 2>>err </dev/null &
        pids+=($!)
    done
    for rank in "${pids[@]}"; do
        wait "$rank"
        got=$?
        [ $got = 0 ] || [ $got = 3 ] || code=$got
    done
    unset WORLD_SIZE MASTER_ADDR MASTER_PORT TUTTI_SECRET
    [ $code = 0 ] || fail "--calibrate --probe $*: exit $code: $(cat err)"
}
if command -v python3 >/dev/null; then
    job -o job.json
    says job.json '"host_count": 2, "rank_count": 4'
    [ "$(grep -c '^job ' out)" = 1 ] || fail "not one rank shows the result: $(cat out)"
    [ "$(grep -c 'is written' err)" = 1 ] || fail "not one rank writes the file: $(cat err)"
    for name in latency_rack_ps card_byte_fs; do
        awk -v name=$name '$1 == name { found = / measured / && $2 > 0 } END { exit !found }' out || fail "$name: $(grep $name out)"
    done
    exits 0 --calibration job.json
    says out 'job        2 hosts, 4 ranks'
    if [ -n "${TUTTI_LONG:-}" ]; then
        rm -r "$work/cache"
        job
        [ "$(grep -c 'is written' err)" = 2 ] || fail "not each host writes a file: $(cat err)"
        [ -f "$file" ] || fail "nothing is at $file"
        exits 1 --calibrate -o /dev/null/nowhere.json
    fi
fi
export TUTTI_SECRET=calibration-of-one
timeout 60 env RANK=0 WORLD_SIZE=1 "$tool" --calibrate --probe -o one.json >out 2>err </dev/null && fail "one host has a way to others"
says err nothing\ to\ measure
unset TUTTI_SECRET

# More of them than processors, so that measuring has to share whatever the scheduler does.
echo "a machine that others use is loaded"
spin $(($(nproc) + 1))
timeout 100 "$tool" --calibrate -o loaded.json >out 2>err </dev/null
code=$?
rest
[ $code = 3 ] || fail "a loaded machine: exit $code instead of 3: $(cat err)"
says err "this machine is loaded, and the file says so"
says out "others used the machine while it was measured"
says loaded.json '"loaded": true'
exits 0 --calibration loaded.json
says out "others used the machine while it was measured"

if [ $failures -gt 0 ]; then
    echo "$failures failed"
    exit 1
fi
echo "all fine"
