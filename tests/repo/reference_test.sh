#!/bin/bash
# The pages of the reference, man/tutti.7, forms.h and docs/reference/options.md are what the public headers and the table of options say,
# and the headers say all that they must.
# ctest: label=once label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

if ! command -v python3 >/dev/null; then
    echo "python3 is not here"
    exit 77
fi
bad=0
scripts/reference.py --check || bad=1
scripts/reference.py --compare || bad=1

# Everything that the library exports is in the reference.
library=${TUTTI_BUILD:-build}/lib/libtutti.so
if [[ -e $library ]]; then
    unknown=$(comm -23 <(nm -D --defined-only "$library" | awk '$2 == "T" { print $3 }' | sed 's/@.*//' | sort) \
        <(scripts/reference.py --names))
    if [[ $unknown ]]; then
        echo "$unknown"
        echo "above: exported, but not in the headers"
        bad=1
    fi
fi

# The example of man/tutti.7 compiles.
if command -v cc >/dev/null && ! PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=scripts python3 -c 'import reference; print(reference.EXAMPLE)' |
    cc -std=c99 -Wall -Wextra -Werror -fsyntax-only -Iinclude -x c -; then
    echo "above: the example of man/tutti.7 does not compile"
    bad=1
fi

# The checks can fail: a copy of what is read, with one fault of each sort.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/man"
cp -r include src docs "$work"
cp man/tutti.7 "$work/man"
expect_fault() { # what to do to the header, what is said then
    sed "$1" include/tutti/tutti.h >"$work/include/tutti/tutti.h"
    local said
    said=$(scripts/reference.py --root "$work" --check || true)
    if ! grep -qF -- "$2" <<<"$said"; then
        echo "this test does not work: with $1 there should be '$2', not: $said"
        bad=1
    fi
}
expect_fault 's|^/\* The number of ranks; -1 if comm is no communicator.*\*/$||' 'tutti_comm_size: has no comment'
expect_fault 's|This rank.s number; -1 if comm is no communicator. Any thread; does not block.|The rank.|' \
    'tutti_comm_rank: does not say whether it blocks'
expect_fault 's|Fills \*id with a fresh|Makes a fresh|' 'tutti_id_create: says nothing about its pointer id'
expect_fault 's|return INVALID_\*, TIMEOUT, PROC_FAILED|return NO_TIME|' 'NO_TIME is no status'
expect_fault 's|^    TUTTI_PROC_FAILED,.*||' 'TUTTI_PROC_FAILED: in one of'
cp include/tutti/tutti.h "$work/include/tutti"
sed 's/unguessable/fresh and new/' include/tutti/tutti.h >"$work/include/tutti/tutti.h"
if scripts/reference.py --root "$work" --compare >"$work/said"; then
    echo "this test does not work: another comment changes nothing"
    bad=1
fi
sed 's/tutti_broadcast(const void \*send/tutti_broadcast(const void *root_send/' include/tutti/tutti.h >"$work/include/tutti/tutti.h"
scripts/reference.py --root "$work" --compare >"$work/said" || true
if ! grep -q 'include/tutti/forms.h is not what the headers say' "$work/said"; then
    echo "this test does not work: another parameter changes no form"
    bad=1
fi
cp include/tutti/tutti.h "$work/include/tutti"
echo '# gone.h' >"$work/docs/reference/api/gone.md"
scripts/reference.py --root "$work" --compare >"$work/said" || true
if ! grep -q 'api/gone.md: no header has this page' "$work/said"; then
    echo "this test does not work: a page without a header may stay"
    bad=1
fi
sed 's/"30m"/"31m"/' src/base/option_list.h >"$work/src/base/option_list.h"
scripts/reference.py --root "$work" --compare >"$work/said" || true
if ! grep -q 'docs/reference/options.md is not what the headers say' "$work/said" || ! grep -q 'man/tutti.7 is not' "$work/said"; then
    echo "this test does not work: another default changes no page"
    bad=1
fi
sed 's/X(JOB, TIMEOUT, DURATION,/X(JOB, TIMEOUT, AGES,/' src/base/option_list.h >"$work/src/base/option_list.h"
if scripts/reference.py --root "$work" --compare >"$work/said" 2>&1 || ! grep -q 'TUTTI_TIMEOUT is of a kind that is not known' "$work/said"; then
    echo "this test does not work: a kind that is not known is none"
    bad=1
fi
exit $bad
