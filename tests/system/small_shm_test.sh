#!/bin/bash
# small_shm_test.sh - shared memory where containers are stingy: /dev/shm is full, or 64 KiB small, or not there (a mount namespace of the test's
# own), or files may not be large (ulimit -f). The library needs no /dev/shm; what cannot be had is NO_SPACE at once, and never a signal.
# ctest: label=nosan label=once timeout=120 waits
set -uo pipefail
bin=$(realpath "${TUTTI_BIN:?}")
tests=$(realpath "$bin/../tests")
[ -x "$tests/tests_faults_exit_test" ] || { echo "$tests has no tests: skipped"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
    echo "FAILED  $*"
    failed=1
}

perf() { # what is before the command
    "$@" timeout 60 "$bin/tutti-run" -n 4 "$bin/tutti-perf" allreduce --sizes 8,1M -n 5 >"$work/out" 2>&1
}

# No SIGXFSZ (status 153 of a shell, or a line of tutti-run): an error with a name.
limited() {
    (ulimit -c 0 -f 1 && "$bin/tutti-run" -n 2 timeout 60 "$bin/tutti-perf" allreduce --sizes 8 -n 5) 2>&1 | cat >"$work/out"
    grep -q 'ulimit -f' "$work/out" || fail "small files: $(tail -n 3 "$work/out")"
    ! grep -qiE 'signal|SIGXFSZ|SIGBUS' "$work/out" || fail "a signal: $(cat "$work/out")"
}
perf env || fail "it does not run as it is: $(tail -n 3 "$work/out")"
limited

if ! unshare -rm true 2>/dev/null; then
    echo "no mount namespaces can be made here: /dev/shm stays as it is"
else
    for size in 4k 64k; do
        # shellcheck disable=SC2016
        perf unshare -rm bash -c 'mount -t tmpfs -o size="$0" none /dev/shm && { cat /dev/zero >/dev/shm/full 2>/dev/null; exec "$@"; }' "$size" ||
            fail "/dev/shm of $size, full: $(tail -n 3 "$work/out")"
    done
    # shellcheck disable=SC2016
    perf unshare -rm bash -c 'mount -t tmpfs -o ro none /dev/shm && exec "$@"' _ || fail "/dev/shm is read-only: $(tail -n 3 "$work/out")"
    [ $failed = 0 ] && echo "fault-time: small_shm none"
fi
[ $failed = 0 ] && echo "ok"
exit $failed
