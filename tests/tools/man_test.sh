#!/bin/bash
# Manual pages are formatted without a warning, those of the functions too, and say all that --help says.
# ctest: label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
pages=(man/*.[1-9])

if command -v python3 >/dev/null; then
    scripts/reference.py --man "$work/man3" >/dev/null
    pages+=("$work"/man3/*.3)
    for function in $(scripts/reference.py --names); do
        if [[ ! -s $work/man3/$function.3 ]]; then
            echo "no manual page of $function"
            bad=1
        fi
    done
    while read -r alias target; do
        if [[ ! -s $work/$target ]]; then
            echo "$alias points to $target, which is not there"
            bad=1
        fi
    done < <(sed -n 's|^\.so ||p' "$work"/man3/*.3 | sed 's|^|alias |')
fi

# Links are for documents that can be clicked: a manual page has the words alone.
find_links() { grep -nE '\[[^]]+\]\([^)]+\)' "$@"; }
if find_links "${pages[@]}"; then
    echo "above: links of Markdown in a manual page"
    bad=1
fi
printf 'in an [Indexed Job](launchers.md#an\\-indexed\\-job) of\n' >"$work/links.1"
find_links "$work/links.1" >/dev/null || { echo "this test does not work: it finds no link"; bad=1; }

# One run of groff for all: pages that begin with .TH can stand behind each other.
if command -v groff >/dev/null; then
    printf '.TH A 1\n.SH A\n.TS H\n\\m[\n.unknown_request\n' >"$work/broken.1"
    if [[ ! $(groff -ww -man -Tutf8 "$work/broken.1" 2>&1 >/dev/null) ]]; then
        echo "this test does not work: groff says nothing about a broken page"
        bad=1
    fi
    real=()
    for page in "${pages[@]}"; do
        if ! grep -q '^\.so ' "$page"; then real+=("$page"); fi
    done
    warnings=$(groff -ww -man -Tutf8 -rLL=100n "${real[@]}" 2>&1 >/dev/null || true)
    if [[ $warnings ]]; then
        echo "$warnings"
        bad=1
    fi
elif command -v mandoc >/dev/null; then
    mandoc -T lint -W warning "${pages[@]}" || bad=1
else
    echo "neither groff nor mandoc is here: pages are not formatted"
fi

# Every option of --help, and every word before it, is in the manual page.
for main in tools/*/main.c; do
    program=tutti-$(basename "$(dirname "$main")")
    if [[ ! -e man/$program.1 ]]; then
        echo "no manual page of $program"
        bad=1
        continue
    fi
    page=$(sed 's/\\-/-/g; s/\\~/ /g; s/\\f.//g; s/\\&//g' "man/$program.1")
    options=$("${TUTTI_BIN:?}/$program" --help | grep -oE '(^|[ ,[|])--?[a-z][a-z_-]*' | tr -d ' ,[|' | sort -u)
    [[ $options ]] || { echo "$program --help has no options"; bad=1; }
    for option in $options; do
        if ! grep -qE -- "(^|[^a-z-])$option([^a-z_-]|\$)" <<<"$page"; then
            echo "man/$program.1 does not mention $option"
            bad=1
        fi
    done
    documented=$(awk 'tag; { tag = $0 == ".TP" }' <<<"$page" |
        grep -oE '(^|[ ,])--[a-z][a-z_-]*' | tr -d ' ,' | sort -u || true)
    for option in $documented; do
        if ! grep -qxF -- "$option" <<<"$options"; then
            echo "man/$program.1 mentions $option, which --help does not know"
            bad=1
        fi
    done
done
exit $bad
