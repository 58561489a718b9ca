# shellcheck shell=bash disable=SC2034,SC2154
# tutti_run.sh - what the tests of tutti-run share; they source it.
#
#     fail WORDS...              the test $current has failed, and why
#     expect WHAT WANTED GOT     fails unless both are the same
#     tutti ARGS...              tutti-run with a deadline and $tutti_options; keeps out, err and $code
#     within SECONDS COMMAND...  whether the command is true by then
#     gone FILES...              no process is left of those whose pids lie in the files
#     lines COUNT FILE           so many lines at least are in the file
#
# $run is tutti-run; the folder is a fresh one, removed at the end.
run=${TUTTI_BIN:-}
[ -d "$run" ] && run=$run/tutti-run
if [ ! -x "$run" ]; then
    echo "TUTTI_BIN names no tutti-run: skipped"
    exit 77
fi
run=$(realpath "$run")

work=$(mktemp -d) || exit 1
failures=0
tutti_options=()
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
    echo "  $current: $*"
    failures=$((failures + 1))
}

expect() {
    [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"
}

tutti() {
    timeout -k 1 60 "$run" "${tutti_options[@]}" "$@" >out 2>err </dev/null
    code=$?
}

within() {
    local tenths=$(($1 * 10))
    shift
    until "$@"; do
        tenths=$((tenths - 1))
        [ $tenths -gt 0 ] || return 1
        sleep 0.1
    done
}

gone() {
    local pid
    for pid in $(cat "$@"); do
        # A zombie that nobody has reaped yet does not count: it has ended.
        [ -e "/proc/$pid" ] && ! grep -q '^State:.[ZX]' "/proc/$pid/status" 2>/dev/null && return 1
    done
    return 0
}

lines() {
    [ -e "$2" ] && [ "$(wc -l <"$2")" -ge "$1" ]
}
