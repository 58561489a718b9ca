#!/bin/bash
# clock_jump_test.sh - the wall clock jumps, by a day back and forth twenty times a second: deadlines, lateness, deaths and start-up are as
# ever. What asks for the time of day in a process (CLOCK_REALTIME, gettimeofday, time) is told so by a library in front of the C
# library; tests of failures, which measure on another clock, run with it. With the argument `deaths` only those of deaths do.
# ctest: label=nosan label=once timeout=180 serial
set -uo pipefail
tests=$(realpath "${TUTTI_BIN:?}/../tests")
[ -x "$tests/tests_faults_failure_test" ] || { echo "$tests has no tests: skipped"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

cat >"$work/jump.c" <<'END'
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static int ask(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const int result = real(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec += now->tv_nsec / 50000000 % 2 ? 86400 : -86400;
    return result;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    return ask(clock, now);
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec time;
    (void)zone;
    ask(CLOCK_REALTIME, &time);
    *now = (struct timeval){time.tv_sec, time.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *now)
{
    struct timespec time;
    ask(CLOCK_REALTIME, &time);
    if (now != NULL) *now = time.tv_sec;
    return time.tv_sec;
}
END
"${CC:-cc}" -D_GNU_SOURCE -shared -fPIC -o "$work/jump.so" "$work/jump.c" -ldl || exit 1

# That it does jump, for whoever asks.
seconds=$(for _ in {1..40}; do
    LD_PRELOAD="$work/jump.so" date +%s
    sleep 0.013
done | sort -n | sed -n '1p;$p' | paste -sd' ')
read -r first last <<<"$seconds"
((last - first > 86400)) || { echo "FAILED  the clock does not jump: $first to $last"; exit 1; }

failed=0
run() { # program, filter
    if LD_PRELOAD="$work/jump.so" TUTTI_TEST_FILTER=$2 timeout 100 "$tests/$1" >"$work/out" 2>&1 && grep -q ' OK \]' "$work/out"; then
        echo "ok      $1 $2"
        sed -n 's/^fault-time: killed /fault-time: clock_jump /p' "$work/out"
    else
        echo "FAILED  $1 $2"
        cat "$work/out"
        failed=1
    fi
}
run tests_faults_failure_test 'a_death_*'
[ "${1:-}" = deaths ] && exit $failed
run tests_faults_failure_test 'a_rank_that_never_calls_*'
run tests_faults_failure_test 'missing_ranks_*'
if [[ ${TUTTI_LONG:-} == 1 ]]; then run tests_faults_process_test '*'; fi
exit $failed
