# shellcheck shell=bash disable=SC2034,SC2154
# tutti_run.sh - what the tests of tutti-run share; they source it.
#
#     fail WORDS...              the test $current has failed, and why
#     expect WHAT WANTED GOT     fails unless both are the same
#     tutti ARGS...              tutti-run with a deadline and $tutti_options; keeps out, err and $code
#     within SECONDS COMMAND...  whether the command is true by then
#     timed ROW COMMAND...       the same within 20 s, which is ten times what is promised; bench/faults reads how long it took
#     gone FILES...              no process is left of those whose pids lie in the files
#     lines COUNT FILE           so many lines at least are in the file
#     start_family COUNT ARGS... tutti-run in the background, its pid in $front, with so many ranks that have children (family.sh)
#     begin_tests                every function after this is a test
#     run_tests NAMES...         these, or all; false when one has failed
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
# A subshell that a signal ends before it has forgotten this trap runs it, too.
trap '[ "$BASHPID" != $$ ] || rm -rf "$work"' EXIT
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

timed() {
    local row=$1 begin end
    shift
    read -r begin _ </proc/uptime
    until "$@"; do
        sleep 0.01
        read -r end _ </proc/uptime
        ((${end%.*} - ${begin%.*} < 20)) || return 1
    done
    read -r end _ </proc/uptime
    echo "fault-time: $row $(awk -v begin="$begin" -v end="$end" 'BEGIN {print end - begin}')"
}

gone() {
    local pid
    for pid in $(cat "$@"); do
        # A zombie that nobody has reaped yet does not count: it has ended.
        [ -e "/proc/$pid" ] && ! grep -q '^State:.[ZX]' "/proc/$pid/status" 2>/dev/null && return 1
    done
    return 0
}

# A rank with a child in its group and one that fled into a session of its own; pids go to pids.RANK.
cat >family.sh <<'END'
sleep 300 &
echo $! >>pids.$RANK
setsid sleep 300 &
echo $! >>pids.$RANK
echo $$ >>pids.$RANK
echo ready
[ "${1:-wait}" = leave ] || wait
END

start_family() {
    local count=$1
    shift
    rm -f pids.* family.out
    # Background jobs of a script ignore SIGINT, and tutti-run would respect that.
    env --default-signal=INT,QUIT "$run" "$@" sh family.sh >family.out 2>family.err </dev/null &
    front=$!
    within 20 lines "$count" family.out || fail "did not start: $(cat family.err)"
}

begin_tests() {
    helpers=$(compgen -A function)
}

run_tests() {
    local tests=("$@") before
    [ $# -gt 0 ] || mapfile -t tests < <(compgen -A function | grep -vxF "$helpers")
    for current in "${tests[@]}"; do
        before=$failures
        rm -f out err # so that nobody takes what an earlier rank printed for the start of its own
        "$current"
        [ $failures -eq "$before" ] && echo "ok      $current" || echo "FAILED  $current"
    done
    [ "${#tests[@]}" -gt 0 ] && [ $failures -eq 0 ]
}

lines() {
    [ -e "$2" ] && [ "$(wc -l <"$2")" -ge "$1" ]
}
