#!/bin/bash
# The pages can be rendered as a site without a warning, and a link that leads nowhere is one.
# ctest: label=long label=nosan label=once timeout=1200 makes=site
set -uo pipefail
cd "${TUTTI_ROOT:?}" || exit 1
folder=${TUTTI_BUILD:?}/site

rm -rf "$folder/html" "$folder/doctrees"
scripts/site "${TUTTI_BIN:?}" "$folder" 2>&1
status=$?
if ((status == 3)); then exit 77; fi
if ((status)); then exit 1; fi
for page in index search start/tour how-to/failures reference/api/tutti reference/api/train/shards reference/programs/tutti-run \
    explanation/plan develop/architecture; do
    [[ -s $folder/html/$page.html ]] || { echo "$page.html is not there"; exit 1; }
done

# It can fail.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source"
printf '# Here\n\n[a](#nowhere) [b](b.md#gone) [c](b.md#there)\n\n```{toctree}\nb\n```\n' >"$work/source/index.md"
printf '# B\n\n<a id="there"></a>\n\nHere.\n' >"$work/source/b.md"
said=$("$folder/venv/bin/sphinx-build" -q -n -W --keep-going -b dummy -c docs/site "$work/source" "$work/out" 2>&1)
status=$?
for words in "'nowhere'" "'gone'"; do
    grep -qF "$words" <<<"$said" || { echo "this test does not work: a link to $words passes: $said"; exit 1; }
done
if ((status == 0)) || grep -qF "'there'" <<<"$said"; then
    echo "this test does not work: sphinx-build ends with $status: $said"
    exit 1
fi
