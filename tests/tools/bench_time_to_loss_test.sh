#!/bin/bash
# bench/time_to_loss trains with each method, and makes its table of what it kept: few steps, and none on emulated hosts.
# ctest: label=nosan label=once timeout=300
set -euo pipefail
python=$(command -v python3) || { echo "python3 is not here"; exit 77; }
[ -x "${TUTTI_BIN:?}/train_char" ] || { echo "train_char is not built"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" - "$folder/times.json" <<'END' # as the stage time leaves them
import json
import sys

names = ["float32", "bfloat16", "mxfp8", "int8", "int4", "powersgd:4", "top:0.01"]
with open(sys.argv[1], "w") as file:
    json.dump({"1000": {name: [10.0] for name in names}}, file)
END
said=$("$python" "${TUTTI_ROOT:?}/bench/time_to_loss" --stages train,report --folder "$folder" --seeds 1 --steps 24 --rates 1000)
echo "$said"
for method in float32 bfloat16 int4 powersgd:4 top:0.01; do
    [[ $said == *"$method"* ]] || { echo "no row has $method"; exit 1; }
done
