#!/bin/bash
# The example of a shared table of embeddings learns, on one rank and on several.
# ctest: label=nosan
set -uo pipefail

bad=0
for ranks in 1 3; do
    said=$("${TUTTI_BIN:?}/tutti-run" -n "$ranks" "$TUTTI_BIN/embedding" 2>&1)
    status=$?
    if [[ $status != 0 || $(grep -c 'the loss fell from' <<<"$said") != "$ranks" ]]; then
        printf 'embedding with %s ranks: status %s\n%s\n' "$ranks" "$status" "$said"
        bad=1
    fi
done
exit $bad
