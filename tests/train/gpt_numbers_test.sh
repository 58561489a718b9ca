#!/bin/bash
# What examples/gpt says of itself: bytes of a step along each axis, by the library's counters and by the formulas of the papers, which are
# computed here once more; a profile of all ranks, which must be JSON, on one clock, as long as was asked for, and of the same bytes.
# ctest: label=nosan label=once
set -uo pipefail

gpt=${TUTTI_BIN:?}/gpt
tool=$TUTTI_BIN/tutti-run
# shellcheck source=tests/train/gpt.sh
source "${TUTTI_ROOT:?}/tests/train/gpt.sh"

write_text 300
small=("$gpt" --text text --tokenizer words --vocabulary 264 --context 12 --width 16 --layers 4 --heads 4 --hidden 22 --batch 8
    --steps 4 --write 0)
rows=12 width=16 layers=4 float=4

# N WORDS...: N ranks; the library has counted what the example's formulas say.
counts() {
    local n=$1
    shift
    exits 0 -n "$n" --no-prefix "${small[@]}" "$@"
    words=$*
    grep -q 'to the byte what the formulas say, on all ranks' out || fail "$words: $(cat out err)"
    psi=$(sed -n 's/^model .* \([0-9]*\) parameters$/\1/p' out)
}
# AXIS LINE BYTES: and both are this.
is() {
    local both
    both=$(awk -v axis="$1" -v line="$2" '$1 == axis && index($0, line) == 8 { $0 = substr($0, 8 + length(line)); print $1, $2 }' out)
    [[ $both == "$3 $3" ]] || fail "$words: $1, $2: '$both' in place of '$3 $3' in: $(cat out)"
}
# Micro-batches of 2 samples, of 8 of all replicas.
replicas() { # ZERO RANKS REPEATED VOLUME, of Psi
    counts "$2" --mesh "dp=$2" --zero "$1" --micro-batch 2
    is dp 'parameters and gradients' $(($3 * float * psi / $2))
}
slices() { # OPERATIONS WORDS...: 4 micro-batches on 2 ranks; twice an allreduce or once each of the others
    local operations=$1 b=$((2 * rows * width * float))
    shift
    counts 2 --mesh tp=2 --micro-batch 2 "$@"
    is tp layers $((operations * layers * 4 * b / 2))
}

replicas 3 2 $((3 * 2 * 1))       # 3 m (n - 1)
slices $((6 + 4)) --split-rows --gather-again
counts 2 --mesh pp=2 --micro-batch 2 --schedule interleaved
is pp 'activations and gradients' $((2 * 4 * 3 * 2 * rows * width * float)) # 2 m (p v - 1)
if [[ -n ${TUTTI_LONG:-} ]]; then
    replicas 0 2 2                # 2 (n - 1)
    replicas 1 4 $((2 * 3))
    replicas 2 2 3                # (m + 1) (n - 1)
    replicas 3 4 $((3 * 1 * 3))
    slices $((2 * 4))
    slices $((2 * 6)) --recompute
    slices $((4 + 4)) --split-rows
    slices $((6 + 6)) --split-rows --recompute
    counts 2 --mesh dp=2 --zero 3 --micro-batch 2 --dtype bf16
    is dp 'parameters and gradients' $((3 * 2 * 2 * psi / 2))
    counts 2 --mesh dp=2 --zero 2 --micro-batch 2 --dtype bf16 --wide-gradients
    is dp 'parameters and gradients' $(((4 * 2 + 2) * psi / 2))
    counts 8 --mesh pp=2,dp=2,tp=2 --micro-batch 1 --schedule interleaved --split-rows --dtype bf16 --loss-scale 8
    counts 3 --mesh pp=3 --micro-batch 1 --untied --schedule gpipe
    is pp 'activations and gradients' $((2 * 8 * 2 * rows * width * float))
    counts 8 --mesh pp=2,dp=2,tp=2 --zero 2 --micro-batch 2 --split-rows
    is pp 'activations and gradients' $((2 * 2 * 1 * rows * width * float))
fi

# A step without communication is one of so many tokens, and says no loss.
exits 0 -n 4 --no-prefix "${small[@]}" --mesh pp=2,tp=2 --micro-batch 2 --without-communication
grep -q '^step .* ms in the median, on the slowest rank' out || fail "no step without communication: $(cat out err)"
grep -q 'loss [0-9.]*  rate' out && fail "a loss without communication: $(cat out)"
exits 2 -n 2 --no-prefix "${small[@]}" --without-communication --check-single
exits 2 -n 2 --no-prefix "${small[@]}" --mesh tp=2 --gather-again
grep -q 'with --split-rows' err || fail "gathered again without split rows: $(cat err)"

exits 1 -n 2 --no-prefix "${small[@]}" --profile "$work/nowhere/step.json"
grep -q 'gpt: .*nowhere/step.json: No such file' err || fail "a profile nowhere: $(cat err)"

command -v python3 >/dev/null || exit $((failures > 0))
cat >look.py <<'END_OF_PROGRAM'
"""look.py PROFILE OUTPUT RANKS STEPS: what is wrong with a profile, or nothing."""
import json, re, sys

trace = json.load(open(sys.argv[1]))
ranks, steps = int(sys.argv[3]), int(sys.argv[4])
events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
assert trace["otherData"]["ranks"] == ranks and trace["otherData"]["events left out"] == 0
assert {e["ph"] for e in trace["traceEvents"]} == {"X", "M"}
for rank in range(ranks):
    spans = sorted((e["ts"], -e["dur"], e["name"]) for e in events if e["pid"] == rank and e["tid"] == 0)
    assert sum(name.startswith("step ") for *_, name in spans) == steps, spans
    assert any(name.startswith("layer backward ") for *_, name in spans)
    assert any(name == "optimizer" for *_, name in spans)
    around = []  # spans lie in each other; ends have rounded digits
    for begin, length, name in spans:
        end = begin - length
        while around and around[-1] <= begin + 0.0015:
            around.pop()
        assert not around or end <= around[-1] + 0.003, (name, begin, end, around)
        around.append(end)
    begins = [begin for begin, _, name in spans if name.startswith("step ")]
    # One clock: no rank begins a step before the others have begun the one before.
    assert min(begins) < 5e6, begins
for step in range(1, steps):
    firsts = [sorted(e["ts"] for e in events if e["pid"] == r and e["name"].startswith("step ")) for r in range(ranks)]
    assert min(f[step] for f in firsts) > max(f[step - 1] for f in firsts), firsts
# The same bytes as the volumes', of rank 0's slices.
n = 2
share = {"allreduce": 2 * (n - 1) / n, "reduce_scatter": (n - 1) / n, "allgather": (n - 1) / n}
moved = sum(share[e["name"]] * e["args"]["bytes"] for e in events
            if e["pid"] == 0 and e["cat"] == "communication" and e["args"]["axis"] == "tp")
told = sum(float(line.split()[-1]) for line in re.findall(r"^  tp   .{25} *[\d.]+ +[\d.]+(?=  )", open(sys.argv[2]).read(), re.M))
assert moved == told * steps > 0, (moved, told)
assert any(e["cat"] == "communication" and e["args"]["axis"] == "pp" and e["name"] == "send" for e in events)
END_OF_PROGRAM
counts 4 --mesh pp=2,tp=2 --micro-batch 2 --split-rows --profile step.json --profile-steps 2
python3 look.py step.json out 4 2 || fail "above: what is wrong with the profile"

# Hosts of which one was started 1000 s before the other, by their clocks.
if [[ $(id -u) == 0 ]] && unshare --time --monotonic 1000 --fork true 2>/dev/null; then
    cat >far <<'END_OF_PROGRAM'
#!/bin/bash
export TUTTI_HOSTID=host$((TUTTI_RANK / 2))
if ((TUTTI_RANK >= 2)); then exec unshare --time --monotonic 1000 --fork "$@"; fi
exec "$@"
END_OF_PROGRAM
    chmod +x far
    exits 0 -n 4 --no-prefix ./far "${small[@]}" --mesh pp=2,tp=2 --micro-batch 2 --profile step.json --profile-steps 2
    python3 look.py step.json out 4 2 || fail "above: what is wrong with the profile of hosts with other clocks"
fi
exit $((failures > 0))
