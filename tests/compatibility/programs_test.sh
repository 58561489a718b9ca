#!/bin/bash
# A program runs with a later library, and with an earlier one that has everything that it uses: docs/reference/compatibility.md says so.
# ctest: label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}/tests/compatibility"

library=${TUTTI_BUILD:?}/lib
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=("${CC:-cc}" -std=c11 -Wall -Wextra -Werror -D_GNU_SOURCE)
include=(-I "$TUTTI_ROOT/include")
export LD_LIBRARY_PATH=$library
bad=0

# Numbers that compiled programs contain.
"${cc[@]}" -DFROZEN values.c -o "$work/values.old"
"${cc[@]}" "${include[@]}" values.c -o "$work/values.now"
"$work/values.old" >"$work/old.txt"
"$work/values.now" >"$work/now.txt"
if ! diff "$work/old.txt" "$work/now.txt"; then
    echo "above: a number of 0.1 (<) that is another one now (>): programs that were compiled before would go wrong"
    bad=1
fi

# Functions have the types that they had.
printf '#include "tutti/train.h"\n#include "tutti_0_1.h"\n' >"$work/both.c"
if ! "${cc[@]}" "${include[@]}" -I . -fsyntax-only "$work/both.c"; then
    echo "above: functions that are not what they were in 0.1"
    bad=1
fi

# Both can fail.
cp -r "$TUTTI_ROOT/include" "$work/changed"
sed -i 's/^    TUTTI_TIMEOUT,/    TUTTI_SURPRISE,\n&/; s/^\(TUTTI_API size_t tutti_dtype_size\)(enum tutti_dtype dtype)/\1(int dtype, int more)/' \
    "$work/changed/tutti/tutti.h"
"${cc[@]}" -I "$work/changed" values.c -o "$work/values.changed"
if "$work/values.changed" | diff -q "$work/old.txt" - >/dev/null; then
    echo "this test does not work: another status in the middle changes no number"
    bad=1
fi
if "${cc[@]}" -I "$work/changed" -I . -fsyntax-only "$work/both.c" 2>/dev/null; then
    echo "this test does not work: another parameter is the same function"
    bad=1
fi

# All functions of 0.1 are there, under the version that a program of 0.1 asks for.
"${cc[@]}" -E -P -I . tutti_0_1.h | tr '\n' ' ' | sed 's/typedef [^;]*;//g' | grep -oE '\<tutti_[a-z0-9_]+ *\(' |
    tr -d ' (' | sort -u >"$work/names"
gone=$(nm -D --defined-only --with-symbol-versions "$library/libtutti.so" |
    sed -n 's/.* T \(tutti_[a-z0-9_]*\)@@*TUTTI_0\.1$/\1/p' | sort | comm -23 "$work/names" -)
if [[ ! -s $work/names || $gone ]]; then
    echo "$gone"
    echo "above: functions of 0.1 that the library does not have, or not under TUTTI_0.1"
    bad=1
fi

# Programs of 0.1, and of a version that is not there yet.
run() { # program
    local said
    if ! said=$(timeout 100 "$TUTTI_BIN/tutti-run" -n 2 "$work/$1" 2>&1) || [[ $(grep -c 'is done' <<<"$said") != 2 ]]; then
        echo "$said"
        echo "above: $1.c does not run with the library of today"
        bad=1
    fi
    grep -m 1 'told: ' <<<"$said" || true
}
"${cc[@]}" old.c -o "$work/old" -L "$library" -ltutti
run old
"${cc[@]}" "${include[@]}" future.c -o "$work/future" -L "$library" -ltutti
run future

# A function of a later version has that version's node, so the dynamic linker names the version that is missing before the program
# begins. A library of such a version: all that 0.1 has, and one function more.
{
    printf 'TUTTI_0.1 { global: tutti_status_name; local: *; };\n'
    printf 'TUTTI_0.99 { global: tutti_of_the_future; } TUTTI_0.1;\n'
} >"$work/future.map"
cat >"$work/later.c" <<'END'
const char *tutti_status_name(int status) { return status == 0 ? "OK" : ""; }
int tutti_of_the_future(void) { return 0; }
END
cat >"$work/linked.c" <<'END'
const char *tutti_status_name(int status);
int tutti_of_the_future(void);
int main(void) { return tutti_of_the_future() + (tutti_status_name(0)[0] != 'O'); }
END
mkdir "$work/later"
soname=$(objdump -p "$library/libtutti.so" | awk '$1 == "SONAME" { print $2 }')
"${cc[@]}" -w -shared -fPIC "$work/later.c" -Wl,--version-script="$work/future.map" -Wl,-soname="$soname" \
    -o "$work/later/$soname"
"${cc[@]}" -w "$work/linked.c" "$work/later/$soname" -o "$work/linked"
if ! LD_LIBRARY_PATH=$work/later "$work/linked"; then
    echo "this test does not work: the library of the future does not run its own program"
    bad=1
fi
if said=$("$work/linked" 2>&1) || ! grep -q "version .TUTTI_0.99' not found" <<<"$said"; then
    echo "the dynamic linker should miss TUTTI_0.99, but said: $said"
    bad=1
fi
echo "told: $said"
exit $bad
