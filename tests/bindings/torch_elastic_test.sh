#!/bin/bash
# DistributedDataParallel in an elastic loop: with ranks that die and spares, the losses of a run without faults, to the last digit.
#
# ctest: label=nosan label=once timeout=600 needs=wheel
# shellcheck source=tests/bindings/torch.sh
source "${TUTTI_ROOT:?}/tests/bindings/torch.sh"

example=$TUTTI_ROOT/examples/torch/elastic.py
run() {
    timeout -k 1 250 tutti-run -n 2 --no-prefix --elastic 1 "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
    grep '^step' "$work/log"
}

wanted=$(run "${forked[@]}" -W ignore "$example" --steps 40)
[[ $(wc -l <<<"$wanted") == 4 ]] || { echo "no losses: $wanted"; exit 1; }
found=$(run --spares 2 --restarts 0 "${forked[@]}" -W ignore "$example" --steps 40 --fault 5:1 --fault 23:0)
grep -q '^ranks died: 2, processes joined: 2' "$work/log" || { cat "$work/log"; exit 1; }
[[ $found == "$wanted" ]] || { diff <(echo "$wanted") <(echo "$found"); exit 1; }
