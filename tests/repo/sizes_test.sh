#!/bin/bash
# From which sizes on something pays is said by the tables of paths (src/path/path.h) and nowhere else: prints every line of the engine, of
# messages, of calls and of the choice with a number of bytes in it.
# ctest: label=once label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

# Sizes that are no matter of speed, or of the choice of algorithms, each with its reason.
allowed='
src/p2p/match.c:.*SPARE_BYTES_MAX       memory that is kept
src/tune/choose.h:.*ASSUMED_BLOCK       blocks whose size nobody knows
'

number='(BYTES|KIB|MIB)[A-Z_]* *(=|\() *[0-9(]|[0-9] *<< *(10|20|30)|BYTES[A-Z_]* +\(?[0-9]'
find_offences() { # folders
    local patterns
    patterns=$(awk 'NF { print $1 }' <<<"$allowed")
    grep -rnE "$number" "$@" --include='*.[ch]' | grep -vE '_(test|fuzz)\.c:' | grep -vEf <(echo "$patterns") || true
}

# It finds what it should, and no more.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf 'enum { SMALL_BYTES_MAX = 40 };\n#define LARGE_BYTES (1 << 20)\nsize_t least = 8 << 10;\n' >"$work/bad.c"
printf 'enum { LIST_COUNT_MAX = 40 };\nsize_t bytes = sizes->piece_bytes_max;\nif (bytes == 0) return;\n' >"$work/good.c"
found=$(find_offences "$work")
[[ $(grep -c bad.c <<<"$found") == 3 && $found != *good.c* ]] || { printf 'the test finds something else:\n%s\n' "$found"; exit 1; }
# Nothing is allowed that is not there.
grep -rn '' src/p2p src/tune --include='*.[ch]' >"$work/lines"
while read -r pattern _; do
    [[ -z $pattern ]] || grep -qE "$pattern" "$work/lines" ||
        { echo "nothing needs the exception $pattern"; exit 1; }
done <<<"$allowed"

offences=$(find_offences src/engine src/p2p src/call src/tune)
[ -z "$offences" ] || { printf 'these sizes belong into a table of paths:\n%s\n' "$offences"; exit 1; }
