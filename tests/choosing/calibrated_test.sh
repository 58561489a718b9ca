#!/bin/bash
# Communicators choose by a calibration if there is one, if it is of this machine, and if all ranks have the same; otherwise by shipped
# numbers, and they say so. A table of measured choices wins over both.
# ctest: label=nosan label=once
set -uo pipefail
bin=${TUTTI_BIN:?} failures=0
if [[ ! -x $bin/tutti-topo ]]; then
    echo "skipped: there is no tutti-topo"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work XDG_CACHE_HOME=$work TUTTI_LOG=info
unset TUTTI_CALIBRATION

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
# job ENVIRONMENT... -- SCRIPT: two ranks; what they say is in $said, their exit code in $code.
job() {
    local variables=()
    while [[ $1 != -- ]]; do variables+=("$1"); shift; done
    code=0
    said=$(env "${variables[@]}" timeout -k 1 60 "$bin/tutti-run" -n 2 --no-prefix sh -c "$2
        exec $bin/tutti-perf allreduce --sizes 64K --iters 2 --warmup_iters 1" 2>&1) || code=$?
}
says() {
    [[ $said == *"$1"* ]] || fail "no '$1' in: $said"
}
is_silent_about() {
    [[ $said != *"$1"* ]] || fail "there is '$1' in: $said"
}
succeeds() {
    ((code == 0)) || fail "exit code $code: $said"
}

# A calibration of this machine, in which every message within a host takes a millisecond: then sending less often is everything.
"$bin/tutti-topo" --calibrate -o "$work/slow.json" >"$work/log" 2>&1
((($? & ~3) == 0)) || fail "tutti-topo: $(cat "$work/log")"
python3 - "$work/slow.json" <<'PYTHON' || fail "the file could not be changed"
import json, sys
with open(sys.argv[1]) as file:
    content = json.load(file)
for way in content["within"].values():
    way["sender_ps"] = way["receiver_ps"] = 1000000000
    way["known"] = "measured"
content["loaded"] = False
with open(sys.argv[1], "w") as file:
    json.dump(content, file)
content["machine"]["kernel_release"] = "0.0"
with open(sys.argv[1].replace("slow", "other"), "w") as file:
    json.dump(content, file)
PYTHON
chmod 600 "$work"/*.json

job -- :
succeeds
is_silent_about "algorithms are chosen by"
says "us; next best"
job "TUTTI_CALIBRATION=$work/slow.json" -- :
succeeds
says "algorithms are chosen by the numbers of $work/slow.json"
expects_milliseconds() {
    [[ $said =~ oneshot,\ about\ [0-9]{4} ]]
}
expects_milliseconds || fail "no oneshot of milliseconds in: $said"
mkdir -p "$work/tutti"
cp "$work/slow.json" "$work/tutti/calibration-$(uname -n).json"
job -- :
succeeds
says "algorithms are chosen by the numbers of $work/tutti/"
job TUTTI_CALIBRATION=shipped -- :
succeeds
is_silent_about "algorithms are chosen by"
job "TUTTI_CALIBRATION=$work/other.json" -- :
succeeds
says "is of another machine than this"
# One rank has none.
job "TUTTI_CALIBRATION=$work/slow.json" -- 'if [ "$RANK" = 1 ]; then export TUTTI_CALIBRATION=shipped; fi'
succeeds
says "have different calibrations"
expects_milliseconds && fail "it was used all the same: $said"
# What somebody asked for must be there; what lies in the cache need not be right.
job "TUTTI_CALIBRATION=$work/none.json" TUTTI_INIT_TIMEOUT=5s -- :
((code != 0)) || fail "a file that is not there was read"
says "none.json"
echo '{' >"$work/tutti/calibration-$(uname -n).json"
job -- :
succeeds
says "algorithms are chosen by shipped numbers"
# Each of two ranks makes two communicators, and says it once.
times=$(grep -c "algorithms are chosen by shipped numbers" <<<"$said")
((times == 2)) || fail "said $times times, not twice: $said"

# Measured choices.
cat >"$work/table.json" <<'JSON'
{"tutti_table": 1,
 "entries": [
  {"ranks": 2, "collective": "allreduce", "from_bytes": 65536, "to_bytes": 131072, "algorithm": "tree"}]}
JSON
chmod 600 "$work/table.json"
rm "$work/tutti"/*
job "TUTTI_TABLE=$work/table.json" -- :
succeeds
says "allreduce of 16384 float32 on 2 ranks: tree, because the table of measurements"
job "TUTTI_TABLE=$work/table.json" -- 'if [ "$RANK" = 1 ]; then unset TUTTI_TABLE; fi'
((code != 0)) || fail "one rank alone had a table"
says "ranks 0 and 1 have different tables of measured choices"
echo '{"tutti_table": 2}' >"$work/table.json"
job "TUTTI_TABLE=$work/table.json" TUTTI_INIT_TIMEOUT=5s -- :
((code != 0)) || fail "a table of another version was read"
says "line 1"

((failures == 0)) || exit 1
echo "all as it should be"
