#!/bin/bash
# Readers and their tools (grep, ctags, and so editors) find every function of the public headers: each has a plain prototype with a
# comment, and each operation has four forms, which scripts/reference.py writes into forms.h.
# ctest: label=once label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

ctags=$(command -v ctags-universal || command -v ctags || true)
if [[ -z $ctags ]] || ! "$ctags" --version | grep -q 'Universal Ctags'; then
    echo "Universal Ctags is not here (Debian: universal-ctags)"
    exit 77
fi

# Names that the library exports, which the compiler knows; not what the headers' reader says.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
library=${TUTTI_BUILD:?}/lib/libtutti.so
nm -D --defined-only "$library" | awk '$2 == "T" { print $3 }' | sed 's/@.*//' | sort -u >"$work/names"
[[ -s $work/names ]] || { echo "$library exports nothing"; exit 1; }

find_faults() { # folder of the headers
    local name line
    "$ctags" -x --language-force=C --kinds-C=p "$1"/*.h "$1"/train/*.h | awk '{ print $1 }' | sort >"$work/tags"
    diff "$work/names" <(uniq "$work/tags") || echo "above: exported (<) or a prototype for ctags (>) only"
    uniq -d "$work/tags" | sed 's/$/: ctags finds it twice/'
    while read -r name; do
        line=$(grep -hE "^(TUTTI_(API|OPERATION) .*)?\b$name\(" "$1"/*.h "$1"/train/*.h | grep -c . || true)
        [[ $line == 1 ]] || echo "$name: grep '$name(' finds $line prototypes"
    done <"$work/names"
    # What stands above a prototype, or above the macro that a prototype begins with, is a comment. Lists are told of together.
    awk -v OFS=: '
        /^TUTTI_API TUTTI_MUST_USE enum tutti_status$/ { if (above !~ /\*\/$/) print FILENAME, FNR, " a prototype without a comment" }
        { above = $0 }' "$1"/forms.h
}
bad=0
faults=$(find_faults include/tutti)
if [[ $faults ]]; then
    echo "$faults"
    bad=1
fi

# It can fail.
cp -r include/tutti "$work/headers"
sed -i 's/^tutti_reduce_with(/tutti_reduce_width(/; s,^/\* Starts tutti_gather.*,,' "$work/headers/forms.h"
sed -i 's/^TUTTI_API size_t tutti_dtype_size(/#define SIZE_OF(name) TUTTI_API size_t name\nSIZE_OF(tutti_dtype_size)(/' \
    "$work/headers/tutti.h"
faults=$(find_faults "$work/headers")
for words in '> tutti_reduce_width' '< tutti_reduce_with' '< tutti_dtype_size' "grep 'tutti_dtype_size(' finds 0" 'without a comment'; do
    grep -qF -- "$words" <<<"$faults" || { echo "this test does not work: no '$words' in: $faults"; bad=1; }
done
exit $bad
