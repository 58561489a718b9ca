#!/bin/bash
# A job whose environment has a mistyped option says so once on each host, also when its ranks then do not find each other.
# ctest: label=notsan
set -euo pipefail
bin=${TUTTI_BIN:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE TUTTI_LOG
bad=0

expect() { # what is looked at, how often it should be there, the pattern
    local count
    count=$(grep -cE -- "$3" out || true)
    if [[ $count != "$2" ]]; then
        echo "$1: '$3' is there $count times instead of $2:"
        cat out
        bad=1
    fi
}

run() { timeout 60 "$@" >out 2>&1 </dev/null || echo "exit code $?" >>out; }

TUTTI_TIMOUT=30s TUTTI_KERNEL=abacus run "$bin/tutti-run" -n 3 "$bin/hello"
expect "three ranks" 3 'rank [0-2] of 3 gave'
expect "a mistyped name" 1 'TUTTI_TIMOUT is set, but there is no such option: is TUTTI_TIMEOUT meant\?$'
expect "a mistyped wish" 1 'TUTTI_KERNEL=abacus counts as not set: scalar, avx2, avx512 or neon is needed$'
expect "nothing else" 2 'tutti\['

TUTTI_TIMEOUT=30s TUTTI_KERNEL=scalar TUTTI_TORCH_BACKEND=cpp TUTTI_TEST_OF_MINE=1 run "$bin/tutti-run" -n 3 "$bin/hello"
expect "three ranks" 3 'rank [0-2] of 3 gave'
expect "no mistake" 0 'tutti\['

TUTTI_RANK=0 TUTTI_SIZ=2 run "$bin/hello"
expect "a rank without a size" 1 'exit code'
expect "a rank without a size" 1 'TUTTI_SIZ is set, but there is no such option: is TUTTI_SIZE meant\?$'
exit $bad
