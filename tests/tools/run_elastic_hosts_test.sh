#!/bin/bash
# tutti-run --elastic on several hosts, which are this one each time: ranks that die, hosts that are lost and come back,
# hosts without ranks that take over, spares elsewhere, and jobs that cannot go on.
#
# ctest: label=nosan label=once timeout=300 waits
# shellcheck source=tests/tools/tutti_run.sh
source "${TUTTI_ROOT:?}/tests/tools/tutti_run.sh"

example=$(dirname "$run")/elastic
[ -x "$example" ] || { echo "$example is not built: skipped"; exit 77; }
unset TUTTI_SECRET TUTTI_SECRET_FILE TUTTI_ELASTIC_STORE
tutti_options=(--rsh ./rsh --master-addr 127.0.0.1 --no-prefix)

# As ssh, with an environment of its own; pids.rsh-HOST is the agent's. A host with a file refuse-HOST refuses.
cat >rsh <<'END'
#!/bin/bash
host=$1
shift
echo "$host" >>starts
[ ! -e "refuse-$host" ] || { echo "rsh: refused" >&2; exit 255; }
echo $$ >"pids.rsh-$host"
cd / || exit 1
exec env -i HOME=/ PATH=/bin:/usr/bin TMPDIR="$OLDPWD/place" ${ASAN_OPTIONS+"ASAN_OPTIONS=$ASAN_OPTIONS"} sh -c "$*"
END
chmod +x rsh
mkdir place
current=preparation
"$run" -n 3 --no-prefix "$example" 200 >out 2>err </dev/null
wanted=$(grep '^y = ' out)

# The report has no ranks that died, or so many.
deaths() {
    grep -o '^ranks died: [0-9]*, processes joined: [0-9]*' out
}

# A job in the background, its pid in $job, once it has made 50 steps; rank 0 waits for a file before it has made 10 more.
start_job() {
    rm -f out err starts go pids.*
    timeout -k 1 100 "$run" "${tutti_options[@]}" "$@" >out 2>err </dev/null &
    job=$!
    within 60 lines 1 out || fail "did not start: $(cat err)"
}

# It ends well, with the bits of a job in which nothing fails.
expect_end() {
    touch go
    wait $job
    expect code 0 $?
    expect "the bits" "$wanted" "$(grep '^y = ' out)"
    expect "directories afterwards" "" "$(ls place)"
    [ "$failures" = "$before" ] || cat err
}

lose_host() {
    kill -KILL "$(cat "pids.rsh-$1")"
}

begin_tests

ranks_that_die_are_started_again_on_their_hosts() {
    rm -f starts
    tutti -H a,b,c --elastic 2 "$example" 200 60:1 120:0
    expect code 0 "$code"
    expect "the bits" "$wanted" "$(grep '^y = ' out)"
    expect deaths "ranks died: 2, processes joined: 2" "$(deaths)"
    grep -q '^tutti-run: rank 1 (host b, pid [0-9]*) was killed by SIGKILL; starting it again, 1 of 10 times$' err || fail "$(cat err)"
    expect "each host was reached once" "a b c" "$(sort starts | xargs)"
    expect "directories afterwards" "" "$(ls place)"
}

all_ranks_of_a_host_at_once_are_no_end() {
    tutti -H a:2,b --elastic 1 "$example" 200 60:0 60:1
    expect code 0 "$code"
    expect "the bits" "$wanted" "$(grep '^y = ' out)"
}

a_spare_on_another_host_takes_the_place() {
    tutti -H a,b,c:2 -n 3 --elastic 1 --spares 1 --restarts 0 "$example" 200 60:0
    expect code 0 "$code"
    expect "the bits" "$wanted" "$(grep '^y = ' out)"
    expect deaths "ranks died: 1, processes joined: 1" "$(deaths)"
    grep -q 'starting it again' err && fail "$(cat err)"
}

a_host_that_is_lost_comes_back() {
    local before=$failures
    start_job -H a,b,c --elastic 1 "$example" 200 60:0:go
    lose_host b
    expect_end
    grep -q '^tutti-run: host b is lost: ./rsh was killed by SIGKILL' err || fail "$(cat err)"
    expect "b was reached twice" "a b b c" "$(sort starts | xargs)"
}

a_host_without_ranks_takes_over() {
    local before=$failures
    start_job -H a,b,c,d -n 3 --elastic 1 "$example" 200 60:0:go
    lose_host a
    expect_end
    grep -q '^tutti-run: starting 1 rank of host a on host d$' err || fail "$(cat err)"
    expect "hosts that were reached" "a b c d" "$(sort starts | xargs)"
}

ranks_of_a_lost_host_are_divided() {
    local before=$failures
    start_job -H a:2,b,c,d -n 3 --elastic 1 "$example" 200 60:0:go
    lose_host a
    expect_end
    grep -q '^tutti-run: starting 1 rank of host a on host c$' err || fail "$(cat err)"
    grep -q '^tutti-run: starting 1 rank of host a on host d$' err || fail "$(cat err)"
}

a_host_that_refuses_for_a_while_is_tried_again() {
    local before=$failures
    start_job -H a,b,c --elastic 1 "$example" 200 60:0:go
    touch refuse-c
    lose_host c
    within 60 grep -q '^tutti-run: host c could not be reached: ./rsh exited with code 255' err || fail "$(cat err)"
    rm refuse-c
    expect_end
}

too_few_ranks_end_the_job() {
    start_job -H a,b,c --elastic 3 --restarts 0 --grace 0.2 "$example" 200 60:0:never
    lose_host b
    wait $job
    expect code 125 $?
    grep -q '^tutti-run: 2 ranks are left, which is fewer than 3$' err || fail "$(cat err)"
    within 10 gone pids.* || fail "left behind: $(cat pids.*)"
}

without_a_team_the_job_ends() {
    # shellcheck disable=SC2016
    tutti -H a,b,c --elastic 1 --grace 0.2 sh -c '[ $RANK = 1 ] && exit 7; sleep 60'
    expect "before there is a team" 7 "$code"
    tutti -H a,b --elastic 1 --grace 0.2 "$example" 200 60:0 60:1
    expect "code of a lost team" 137 "$code"
    touch refuse-b
    tutti -H a,b --elastic 1 --grace 0.2 "$example" 200
    expect "a host that is not there at first" 125 "$code"
    rm refuse-b
}

signals_end_a_job_whose_host_is_lost() {
    start_job -H a,b,c --elastic 1 "$example" 200 60:0:never
    touch refuse-b
    lose_host b
    within 60 grep -q '^tutti-run: host b could not be reached' err || fail "$(cat err)"
    kill -TERM $job
    wait $job
    expect code 143 $?
    rm refuse-b
    within 10 gone pids.* || fail "left behind: $(cat pids.*)"
}

run_tests "$@"
