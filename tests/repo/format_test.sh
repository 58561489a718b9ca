#!/bin/bash
# clang-format has nothing to change (`make format` does what it wants).
# ctest: label=once label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

if ! command -v clang-format >/dev/null; then
    echo "clang-format is not here"
    exit 77
fi
folders=()
for folder in include src studio tests tools bench examples train bindings; do
    if [[ -d $folder ]]; then folders+=("$folder"); fi
done
offences=$(find "${folders[@]}" -name '*.[ch]' -print0 -o -name '*.inc' -print0 |
    xargs -0 clang-format --dry-run -Werror 2>&1 | grep -E '^[^ ]+:[0-9]+:[0-9]+: error' || true)
if [[ $offences ]]; then
    cut -d: -f1 <<<"$offences" | uniq -c | awk '{ print $2 ": " $1 " places" }'
    echo "above: what 'make format' would change"
    exit 1
fi
