#!/bin/bash
# scripts/fabric_acceptance.sh runs on one machine, finds no failure over TCP, and says whether a card was used.
# ctest: label=long label=nosan timeout=600
set -uo pipefail
script=${TUTTI_ROOT:?}/scripts/fabric_acceptance.sh
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
bad=0
fail() {
    echo "$*"
    bad=1
}

for words in '' one 'one two three' '--here one' '--fabric' '--here --fabric off' '--unknown' '--here --bin /nowhere'; do
    # shellcheck disable=SC2086 # words are words
    bash "$script" $words >"$work/out" 2>&1
    code=$?
    [[ $code == 2 ]] || fail "'$words' exits with $code instead of 2"
done

accept() { # --fabric WISH
    bash "$script" --here --bin "${TUTTI_BIN:?}" "$@" >"$work/out" 2>&1
    code=$?
    [[ $code == 0 || $code == 3 ]] || fail "$* exits with $code: $(cat "$work/out")"
    grep -E '^ok .* runs over TCP' "$work/out" >/dev/null || fail "$*: no runs over TCP: $(cat "$work/out")"
    [[ $code == 3 ]] || grep -E '^ok .* runs over the card' "$work/out" >/dev/null ||
        fail "$*: it exits with 0, and nothing went over a card: $(cat "$work/out")"
}
if "$TUTTI_BIN/tutti-topo" --check-fabric | grep -F 'provider tcp;ofi_rxm: it works' >/dev/null; then
    accept --fabric 'tcp;ofi_rxm'
    grep -E '^ +16777216 ' "$work/out" >/dev/null || fail "nothing is measured: $(cat "$work/out")"
fi

# Nothing is accepted that went over TCP: no card protects data.
over_tcp() { # words of the reason, arguments
    local reason=$1
    shift
    bash "$script" --here --quick --bin "$TUTTI_BIN" "$@" >"$work/out" 2>&1
    code=$?
    [[ $code == 3 ]] || fail "$*: exit $code instead of 3: $(cat "$work/out")"
    grep -F -- "$reason" "$work/out" >/dev/null || fail "$*: no '$reason': $(cat "$work/out")"
    if grep 'runs over the card' "$work/out" >/dev/null; then fail "$*: runs over a card that is not used"; fi
}
if "$TUTTI_BIN/tutti-topo" --check-fabric | grep -F 'provider tcp;ofi_rxm: it works' >/dev/null; then
    TUTTI_INTEGRITY=network over_tcp 'cannot be protected as TUTTI_INTEGRITY says' --fabric 'tcp;ofi_rxm'
fi

# It can fail: a card that is not there.
bash "$script" --here --quick --bin "$TUTTI_BIN" --fabric nonsense >"$work/out" 2>&1
code=$?
[[ $code == 1 ]] || fail "a provider that is not there: exit $code instead of 1: $(cat "$work/out")"
exit $bad
