#!/bin/bash
# A short run of bench/paths has costs for each row of the tables of paths, between processes of one host and over connections, and
# those are costs: neither end of a message works for nothing.
# Over cards, if libfabric is here: its provider tcp;ofi_rxm.
# ctest: label=nosan label=once
set -uo pipefail
cd "${TUTTI_ROOT:?}" || exit 1
run=${TUTTI_BIN:?}/tutti-run bench=$TUTTI_BIN/../bench/paths failures=0

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
# measure TRANSPORT OPTIONS...: its output is in $printed, its exit code in $code. On a busy machine ranks warn of late ones, on stderr.
measure() {
    code=0
    printed=$(TUTTI_TRANSPORT=$1 timeout -k 1 60 "$run" -n 2 --no-prefix "$bench" "${@:2}") || code=$?
}
# The names of the paths that the table of a transport has rows for.
paths_of() {
    sed -nE 's/.*\.path = PATH_([A-Z_]+),.*/\1/p' "src/transport/$1/paths.c" | tr 'A-Z_' 'a-z-' | sort -u
}
# expect_rows TRANSPORT: a line of C text for each row, in which both ends take some time for a message.
expect_rows() {
    local path cost
    ((code == 0)) || fail "$1: exit code $code: $printed"
    (($(paths_of "$1" | wc -l) >= 5)) || fail "$1: too few rows found in its table"
    for path in $(paths_of "$1"); do
        cost=$(sed -nE "s|^ +\.cost = \{([0-9]+), ([0-9]+), [0-9]+, [0-9]+\}, /\* $path \*/$|\1 \2|p" <<<"$printed")
        if [[ ! $cost =~ ^[0-9]+\ [0-9]+$ ]] || ((${cost% *} + ${cost#* } == 0)); then
            fail "$1: no cost of $path in: $printed"
        fi
    done
}

measure auto --rows --repeats 10 --passes 2
expect_rows local
measure tcp --rows --repeats 5 --passes 1
expect_rows tcp
if [[ -x $TUTTI_BIN/tutti-topo ]] &&
    "$TUTTI_BIN/tutti-topo" --check-fabric | grep -F 'provider tcp;ofi_rxm: it works' >/dev/null; then
    TUTTI_FABRIC='tcp;ofi_rxm' measure tcp --rows --repeats 5 --passes 1
    expect_rows card
fi
measure auto --each --repeats 1 --passes 1
if ! grep -qE '^ +65536 B +burst +[0-9]+ +sender +[0-9.]+ ns +receiver +[0-9.]+ ns$' <<<"$printed"; then
    fail "no figures of 64 KiB in: $printed"
fi
# What it prints as JSON is a calibration with measured paths of one table.
expect_json() { # transport, paths in the table's words
    local path
    ((code == 0)) || fail "$1 --json: exit code $code: $printed"
    for path in $(paths_of "$1"); do
        grep -qE "^  \"$path\": \{\"sender_ps\": [0-9]+, .*\"known\": \"measured\"\}[,}]*$" <<<"$printed" ||
            fail "$1: no $path as JSON in: $printed"
    done
    [[ $printed == *"\"$2\": {"* ]] || fail "$1: this is not \"$2\": $printed"
    [[ ! -x $TUTTI_BIN/tutti-topo ]] && return
    printf '%s\n' "$printed" >"$work/paths.json"
    shown=$("$TUTTI_BIN/tutti-topo" --calibration "$work/paths.json" 2>&1)
    [[ $(grep -cE '^[a-z-]+( +[0-9]+){4}  measured$' <<<"$shown") == $(paths_of "$1" | wc -l) ]] || fail "$1: tutti-topo shows: $shown"
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
measure auto --json --repeats 20 --passes 1
expect_json local within
measure tcp --json --repeats 5 --passes 1
expect_json tcp between
measure auto --json --rows
((code == 2)) || fail "two forms at once are accepted: exit code $code"
measure auto --repeats 0
((code == 2)) || fail "0 repeats are accepted: exit code $code"
printed=$(timeout 60 "$run" -n 1 --no-prefix "$bench" 2>&1)
[[ $? == 2 && $printed == *"needs two ranks"* ]] || fail "one rank: $printed"
printed=$("$bench" --help)
[[ $? == 0 && $printed == *"--rows"* ]] || fail "--help: $printed"
exit $((failures > 0))
