#!/bin/bash
# Both libraries show the linker tutti_* and nothing else. The library that tests share has no name twice, and none of libc's: tests would
# call that function in place of libc's.
# ctest: label=nosan
set -euo pipefail

shared=${TUTTI_BUILD:?}/lib/libtutti.so
static=$TUTTI_BUILD/lib/libtutti.a
bad=0

soname=$(objdump -p "$shared" | awk '$1 == "SONAME" { print $2 }')
if [[ $soname != libtutti.so.[0-9]* ]]; then
    echo "$shared has the soname '$soname'"
    bad=1
fi

# The version node itself is an absolute symbol (A).
shared_symbols=$(nm -D --defined-only --with-symbol-versions "$shared" | awk '$2 != "A" { print $3 }')
static_symbols=$(nm -g --defined-only "$static" | awk 'NF == 3 { print $3 }')
if grep -vE '^tutti_[a-z0-9_]+@@TUTTI_[0-9]+\.[0-9]+$' <<<"$shared_symbols"; then
    echo "above: what libtutti.so exports too much, or without its version"
    bad=1
fi
if grep -vE '^tutti_' <<<"$static_symbols"; then
    echo "above: what libtutti.a shows too much"
    bad=1
fi

# All that the headers promise is there, and the same in both.
# shellcheck disable=SC2001
shared_names=$(sed 's/@.*//' <<<"$shared_symbols" | sort)
if ! diff <(printf '%s\n' "$shared_names") <(sort <<<"$static_symbols"); then
    echo "above: libtutti.so (<) and libtutti.a (>) differ"
    bad=1
fi
declared=$(
    for header in "${TUTTI_ROOT:?}"/include/tutti/*.h "$TUTTI_ROOT"/include/tutti/train/*.h; do
        "${CC:-cc}" -E -P -I"$TUTTI_ROOT/include" "$header"
    done | tr '\n' ' ' | sed 's,typedef [^;]*;,,g' | grep -oE '\<tutti_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u
)
missing=$(comm -23 <(printf '%s\n' "$declared") <(printf '%s\n' "$shared_names"))
if [[ $missing ]]; then
    echo "$missing"
    echo "above: declared in include/tutti/ but not exported: src/tutti.map lists them by the version that brought them"
    bad=1
fi

shared_by_tests=$(nm -g --defined-only "$TUTTI_BUILD/lib/libtutti_testing.a" | awk 'NF == 3 { print $3 }' | sort)
libc=$(nm -D --defined-only "$(ldd "$shared" | awk '$1 ~ /^libc\.so/ { print $3 }')" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u)
if uniq -d <<<"$shared_by_tests" | grep . || comm -12 <(uniq <<<"$shared_by_tests") - <<<"$libc" | grep .; then
    echo "above: global names of libtutti_testing.a that are there twice, or that libc has"
    bad=1
fi
exit $bad
