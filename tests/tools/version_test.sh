#!/bin/bash
# Every tool tells its version in the same form, as the library's header has it: "tutti-run 0.2.0".
# ctest: label=nosan
set -uo pipefail
cd "${TUTTI_ROOT:?}" || exit 1

part() { sed -n "s/^#define TUTTI_VERSION_$1 //p" include/tutti/tutti.h; }
version=$(part MAJOR).$(part MINOR).$(part PATCH)
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || { echo "the header has version '$version'"; exit 1; }

bad=0
for main in tools/*/main.c; do
    tool=${main#tools/} tool=tutti-${tool%/main.c}
    for option in --version -V; do
        said=$("${TUTTI_BIN:?}/$tool" "$option" 2>&1 </dev/null)
        status=$?
        if [[ $status != 0 || $said != "$tool $version" ]]; then
            echo "$tool $option: status $status, '$said' instead of '$tool $version'"
            bad=1
        fi
    done
done
exit $bad
