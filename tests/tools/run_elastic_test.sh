#!/bin/bash
# tutti-run --elastic: a job goes on when ranks die, with the bits of a job in which none dies; it ends where it cannot go on.
#
# ctest: label=longsan label=once timeout=200 waits
# shellcheck source=tests/tools/tutti_run.sh
source "${TUTTI_ROOT:?}/tests/tools/tutti_run.sh"

example=$(dirname "$run")/elastic
[ -x "$example" ] || { echo "$example is not built: skipped"; exit 77; }
current=preparation
tutti -n 3 --no-prefix "$example" 200
wanted=$(grep '^y = ' out)

# The report has no ranks that died, or so many.
deaths() {
    grep -o '^ranks died: [0-9]*, processes joined: [0-9]*' out
}

begin_tests

ranks_that_die_are_started_again() {
    tutti -n 3 --no-prefix --elastic 2 "$example" 200 60:1 120:0
    expect code 0 "$code"
    expect "the bits" "$wanted" "$(grep '^y = ' out)"
    expect deaths "ranks died: 2, processes joined: 2" "$(deaths)"
    grep -q '^tutti-run: rank 1 (pid [0-9]*) was killed by SIGKILL; starting it again, 1 of 10 times$' err || fail "$(cat err)"
}

a_spare_takes_the_place() {
    tutti -n 3 --no-prefix --elastic 1 --spares 2 --restarts 0 "$example" 200 60:1
    expect code 0 "$code"
    expect "the bits" "$wanted" "$(grep '^y = ' out)"
    expect deaths "ranks died: 1, processes joined: 1" "$(deaths)"
    grep -q 'starting it again' err && fail "$(cat err)"
}

no_directory_is_left() {
    mkdir place
    TMPDIR=$PWD/place tutti -n 2 --elastic 1 --spares 1 sh -c "ls place >seen; exec $example 20 5:1"
    expect code 0 "$code"
    expect "one while it runs" 1 "$(wc -l <seen)"
    expect "none afterwards" "" "$(ls place)"
}

without_a_team_the_job_ends() {
    tutti -n 3 --elastic 1 --grace 0.2 sh -c '[ $RANK = 1 ] && exit 7; sleep 60'
    expect code 7 "$code"
    grep -q '^tutti-run: rank 1 (pid [0-9]*) exited with code 7; the others have 0.2 s' err || fail "$(cat err)"
    # All ranks at once: nobody is left whom another could join.
    tutti -n 2 --elastic 1 --grace 0.2 "$example" 200 60:0 60:1
    expect "code of a lost team" 137 "$code"
}

# Hosts may have a common directory, and processes with equal pids.
a_member_of_another_host_with_the_same_pid_is_no_member_here() {
    # shellcheck disable=SC2016
    tutti -n 2 --elastic 1 --grace 0.2 sh -c ': >"$TUTTI_ELASTIC_STORE/tutti.member.$$"; [ $RANK = 1 ] && exit 7; sleep 60'
    expect code 7 "$code"
    grep -q 'starting it again' err && fail "$(cat err)"
}

too_few_ranks_end_the_job() {
    tutti -n 3 --elastic 3 --restarts 0 --grace 0.2 "$example" 200 60:1
    expect code 137 "$code"
}

wrong_use_is_named() {
    local arguments
    for arguments in "-n 2 --elastic 0 true" "-n 2 --elastic 3 true" "-n 2 --spares 1 true" "-n 2 --elastic x true" \
        "-n 2 --elastic 1 --restarts -1 true" "-H a,b --elastic 3 true" "-H a,b --elastic 1 --spares 2 true"; do
        # shellcheck disable=SC2086
        tutti $arguments
        expect "code of $arguments" 2 "$code"
    done
}

run_tests "$@"
