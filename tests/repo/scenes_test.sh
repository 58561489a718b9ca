#!/bin/bash
# Scenes that run side by side (tests/kit/scenes.sh): all run, no more of them at a time than wanted; what a scene has printed comes in one
# piece; a scene that fails is named, whatever the others do; a script that ends takes its scenes along.
# ctest: label=once label=nosan
set -uo pipefail
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

cat >script.sh <<'END'
source "${TUTTI_ROOT:?}/tests/kit/scenes.sh"
await() {
    tenths=600
    until [ -e "$1" ]; do
        ((tenths-- > 0)) || exit 5
        sleep 0.1
    done
}
scene() {
    echo "$1 begins"
    case $1 in
    first) await second.is_there ;; # two run at a time
    second) touch second.is_there ;;
    bad) (exit 3) ;;
    absent) exit 77 ;;
    long)
        trap 'touch cleaned; exit 143' TERM
        touch long.runs
        while :; do sleep 0.1; done
        ;;
    esac
    local result=$?
    touch "$1.is_over"
    echo "$1 ends"
    return $result
}
trap 'touch script.is_over' EXIT
scenes_run "$MOST" scene "$@"
END
failed=0
fail() {
    echo "FAILED  $*"
    failed=1
}
# expect CODE MOST SCENE...: the output is in the file out.
expect() {
    rm -f ./*.is_*
    MOST=$2 timeout 100 bash script.sh "${@:3}" >out 2>&1
    local code=$?
    [ $code = "$1" ] || fail "${*:3}, $2 at a time: exit code $code, not $1: $(cat out)"
    [ -e script.is_over ] || fail "${*:3}: the script's own trap is lost"
}
has() {
    [[ $(cat out) == *"$1"* ]] || fail "no '$1' in: $(cat out)"
}

expect 0 2 first second
has $'first begins\nfirst ends'
has $'second begins\nsecond ends'
expect 0 1 second first # one after the other
[ "$(cat out)" = $'second begins\nsecond ends\nfirst begins\nfirst ends' ] || fail "not in order: $(cat out)"
expect 1 2 bad second first
has $'bad begins\nbad ends\nFAILED  bad: exit code 3'
has 'first ends'
expect 77 3 absent second
has 'second ends'
expect 1 3 absent bad second

rm -f script.is_over
MOST=2 bash script.sh long long >out 2>&1 &
script=$!
tenths=600
until [ -e long.runs ] || ((tenths-- == 0)); do sleep 0.1; done
kill -TERM $script
wait $script
code=$?
[ $code = 143 ] || fail "a script that is ended: exit code $code"
[ -e cleaned ] || fail "its scenes do not clean up"
[ -e script.is_over ] || fail "a script that is ended: its own trap is lost"
exit $failed
