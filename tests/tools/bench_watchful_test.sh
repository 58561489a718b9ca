#!/bin/bash
# What bench/watchful makes of measurements: medians, the difference of pairs, and whether it holds.
# ctest: label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
raw=$folder/raw.txt faults=0

# expect EXIT_CODE TEXT, with pairs RANKS WITH WITHOUT on standard input
expect() {
    local code=0 printed
    awk '{ print $1, n[$1] + 0, "with", $2; print $1, n[$1]++, "without", $3 }' >"$raw"
    printed=$(bench/watchful -F "$raw" --strict) || code=$?
    if ((code != $1)) || ! grep -qE -- "$2" <<<"$printed"; then
        echo "FAILED: exit code $code and not $1, or no '$2' in:"
        echo "$printed"
        faults=$((faults + 1))
    fi
}
# A run that was disturbed counts once, whichever it was.
expect 0 '^ +2 +212\.0 .* 200\.0 .* 12\.0 .* 6\.0% +holds$' <<'RUNS'
2 212 200
2 215 205
2 900 190
2 211 199
2 209 800
RUNS
expect 0 '^ +4 +1040\.0 .* 40\.0 .* 4\.0% +holds$' <<<'4 1040 1000'
expect 1 '^ +2 +230\.0 .* 30\.0 .* 15\.0% +does not hold$' <<<'2 230 200'
expect 1 '^ranks ' </dev/null
if ((faults)); then exit 1; fi
