#!/bin/bash
# What tutti-perf reports says where it was measured and which algorithm ran; so does the log of rank 0 about the machine. A rule that names
# another algorithm, or does not fit, shows.
# ctest: label=nosan
set -uo pipefail

tool=${TUTTI_BIN:?}/tutti-perf
# shellcheck source=tests/kit/tool.sh
source "${TUTTI_ROOT:?}/tests/kit/tool.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
short=(--counts 5 -n 1 -w 0 -c 1 --time 0)
version=$("$tool" --version) version=${version#tutti-perf }
host=$(uname -n)

exits 0 allreduce -t 2 "${short[@]}"
grep -qE "^# Tutti ${version//./\\.} on host $host: (.+, )?[0-9]+ CPUs?, kernels [a-z0-9]+\$" out || fail "no machine: $(head -n 1 out)"
grep -q '^# .* | algorithm$' out || fail "the last column is not that of algorithms: $(cat out)"

# Which algorithm ran is what a rule says, what --algo says, or nothing for messages.
ran() { grep -v '^#' out | sed 's/.*| //'; }
TUTTI_ALGORITHMS=allreduce=chain exits 0 allreduce -t 3 "${short[@]}"
[[ $(ran) == chain ]] || fail "by a rule, not chain: $(cat out)"
exits 0 broadcast -t 3 "${short[@]}" --algo tree/3,chain
[[ $(ran) == $'tree/3\nchain' ]] || fail "by --algo: $(cat out)"
exits 0 sendrecv -t 2 "${short[@]}"
[[ $(ran) == - ]] || fail "messages: $(cat out)"

# A rule with a plan for another number of ranks does not hold, and shows that it does not.
"$TUTTI_BIN/tutti-plan" show allreduce ring --ranks 3 >ring.plan
for ranks in 2 3; do
    TUTTI_ALGORITHMS=allreduce=file:ring.plan exits 0 allreduce -t $ranks "${short[@]}"
    [[ $(ran) == file:ring.plan ]] && held=3 || held=2
    [[ $held == "$ranks" ]] || fail "a plan for 3 ranks on $ranks: $(ran)"
done

# One that cannot be is no success.
TUTTI_ALGORITHMS=allreduce=swing exits 1 allreduce -t 3 "${short[@]}"
says err 'swing of allreduce cannot do 3 ranks'
says out '# Not everything was measured: FAILED'
! grep -q 'OK$' out || fail "it says OK: $(cat out)"

# Old columns and keys stay where they are, and new ones come behind them.
old=op,ranks,algorithm,size,count,dtype,redop,root,in_place,iterations,time_us,min_us,p50_us,p99_us,max_us,algbw,busbw,wrong,form,memory,skew
old+=,displs,tensors,misalign,priority,stream
exits 0 allreduce -t 3 "${short[@]}" --place out --algo chain --format csv
[[ $(head -n 1 out) == "$old,ran,version,host,cpu,cpus,kernels" ]] || fail "columns: $(head -n 1 out)"
grep -qE "^allreduce,3,chain,20,5,float32,sum,-1,0,1,.*,0,chain,$version,$host,.*,[0-9]+,[a-z0-9]+\$" out || fail "a line: $(tail -n 1 out)"
if command -v python3 >/dev/null; then
    exits 0 allreduce -t 3 "${short[@]}" --format json --algo chain
    python3 - "$version" "$host" <<'END' || fail "JSON: $(cat out)"
import json, sys
report = json.load(open("out"))
assert report["op"] == "allreduce" and report["ranks"] == 3 and report["complete"] is True
assert [report["version"], report["host"]] == sys.argv[1:] and report["cpus"] >= 1 and report["cpu"] is not None and report["kernels"]
assert [(row["algorithm"], row["ran"], row["wrong"]) for row in report["results"]] == [("chain", "chain", 0)] * 2
END
    TUTTI_ALGORITHMS=allreduce=swing exits 1 allreduce -t 3 "${short[@]}" --format json
    python3 -c 'import json; assert json.load(open("out"))["complete"] is False' || fail "JSON of a failure: $(cat out)"
fi

# The log of rank 0 has the same line when a communicator is created.
TUTTI_LOG=info timeout 60 "$TUTTI_BIN/tutti-run" -n 2 "$TUTTI_BIN/hello" >out 2>err </dev/null || fail "hello: $(cat err)"
[[ $(grep -cE "^\[0\] tutti\[[0-9]+\]: Tutti ${version//./\\.} on host $host: " err) == 1 ]] || fail "log of rank 0: $(cat err)"
[[ $(grep -c "Tutti ${version//./\\.} on host" err) == 1 ]] || fail "log of others: $(cat err)"
exit $((failures > 0))
