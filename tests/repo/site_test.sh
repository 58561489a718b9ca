#!/bin/bash
# The pages, manual pages and headers make the source tree of the site (docs/site/stage.py); `./check --long` renders it. And pages that
# moved have lines in docs/site/redirects.txt that lead to pages.
# ctest: label=once label=nosan
set -uo pipefail
cd "${TUTTI_ROOT:?}" || exit 1

if ! command -v python3 >/dev/null; then
    echo "python3 is not here"
    exit 77
fi
for program in man/tutti-*.1; do
    program=${program#man/}
    if [[ ! -x ${TUTTI_BIN:?}/${program%.1} ]]; then
        echo "${program%.1} is not built here"
        exit 77
    fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
stage() { python3 "$1/docs/site/stage.py" "$work/out" --bin "$TUTTI_BIN" 2>&1; }

stage . || bad=1
while read -r old new; do
    case $old in '' | '#'*) continue ;; esac
    if [[ ! -f $work/out/$new.md || -f $work/out/$old.md ]]; then
        echo "docs/site/redirects.txt: $old $new: $new must be a page, and $old none"
        bad=1
    fi
done <docs/site/redirects.txt

# It can fail: a copy of what is read, with one fault of each sort.
mkdir "$work/tree"
for entry in *; do
    case $entry in
    docs | man) cp -r "$entry" "$work/tree" ;;
    build*) ;;
    *) ln -s "$PWD/$entry" "$work/tree/$entry" ;;
    esac
done
expect_fault() { # file, text that is added to it, what is said then
    cp "$work/tree/$1" "$work/kept" 2>/dev/null || rm -f "$work/kept"
    printf '%b' "$2" >>"$work/tree/$1"
    local said
    said=$(stage "$work/tree") && { echo "this test does not work: $2 in $1 passes"; bad=1; }
    if ! grep -qF -- "$3" <<<"$said"; then
        echo "this test does not work: with $2 in $1 there should be '$3', not: $said"
        bad=1
    fi
    if [[ -f $work/kept ]]; then cp "$work/kept" "$work/tree/$1"; else rm "$work/tree/$1"; fi
}
expect_fault docs/start/tour.md '\n[a](b.md)\n' 'docs/start/tour.md: b.md is not there'
expect_fault docs/start/new.md '# New\n' 'docs/README.md does not list start/new'
expect_fault man/tutti-run.1 '.XY a\n' 'the request .XY is not known'
expect_fault man/tutti-run.1 '.B a\\*(xy\n' 'the escape \* is not known'
expect_fault man/tutti-none.1 '.TH TUTTI-NONE 1\n.SH NAME\ntutti-none \\- nothing\n' 'has no program tutti-none'
stage "$work/tree" >/dev/null || { echo "this test does not work: a copy without a fault fails"; bad=1; }
exit $bad
