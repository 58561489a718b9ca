#!/bin/bash
# Every public header compiles alone, for C99 and C++11 users, with the compilers that are here.
# ctest: label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

bad=0
compilers=0
compile() {
    command -v "$1" >/dev/null || return 0
    compilers=$((compilers + 1))
    local header
    for header in include/tutti/*.h include/tutti/train/*.h; do
        # Twice: the guard has to work, too.
        if ! printf '#include "%s"\n#include "%s"\n' "${header#include/}" "${header#include/}" |
            "$@" -pedantic -Wall -Wextra -Wshadow -Werror -fsyntax-only -Iinclude -; then
            echo "$header: not clean with: $*"
            bad=1
        fi
    done
}

compile gcc -x c -std=c99 -Wstrict-prototypes
compile clang -x c -std=c99 -Wstrict-prototypes
compile gcc -x c -std=c17 -Wstrict-prototypes
compile g++ -x c++ -std=c++11
compile clang++ -x c++ -std=c++11
compile g++ -x c++ -std=c++20
if ((compilers == 0)); then
    echo "neither gcc nor clang is here"
    exit 77
fi
exit $bad
