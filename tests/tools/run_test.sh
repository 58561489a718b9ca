#!/usr/bin/env bash
# run_test.sh - tutti-run from outside: exit codes, output, signals, and that nothing is ever left behind.
#
#     TUTTI_BIN=build/bin tests/tools/run_test.sh [test...]
#
# TUTTI_BIN is the program or the folder it lies in. Exit code 77 means skipped.
# ctest: label=nosan label=once waits
set -u

# shellcheck source=tests/tools/tutti_run.sh
source "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/tutti_run.sh"

state_is() { # pid, state letter
    grep -q "^State:.$2" "/proc/$1/status" 2>/dev/null
}

family_of() { # ranks
    start_family "$1" -n "$1"
}

begin_tests

succeeding_ranks_give_zero() {
    tutti -n 4 true
    expect code 0 "$code"
    expect stderr "" "$(cat err)"
}

ranks_know_who_they_are() {
    # shellcheck disable=SC2016
    tutti -n 3 --master-port 4711 sh -c \
        'echo $TUTTI_RANK $RANK $LOCAL_RANK $TUTTI_SIZE $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT'
    expect environment "[0] 0 0 0 3 3 3 127.0.0.1 4711
[1] 1 1 1 3 3 3 127.0.0.1 4711
[2] 2 2 2 3 3 3 127.0.0.1 4711" "$(sort out)"
    # shellcheck disable=SC2016
    tutti -n 3 --no-prefix sh -c 'echo $TUTTI_JOB_ID $MASTER_PORT'
    expect "one job id and port for all" 1 "$(sort -u out | wc -l)"
    grep -qE '^[0-9a-f]{32} [1-9][0-9]*$' out || fail "job id or port malformed: $(head -1 out)"
    cp out before
    # shellcheck disable=SC2016
    tutti -n 1 --no-prefix sh -c 'echo $TUTTI_JOB_ID $MASTER_PORT'
    expect "a new id each time" "" "$(cut -d' ' -f1 out | grep -Ff - before)"
}

every_job_has_a_secret_of_its_own() {
    # shellcheck disable=SC2016
    local what='echo ${TUTTI_SECRET-none} ${TUTTI_SECRET_FILE-none}'
    unset TUTTI_SECRET TUTTI_SECRET_FILE
    tutti -n 3 --no-prefix sh -c "$what"
    expect "one for all" 1 "$(sort -u out | wc -l)"
    grep -qE '^[0-9a-f]{64} none$' out || fail "malformed: $(head -1 out)"
    cp out before
    TUTTI_SECRET='' tutti -n 1 --no-prefix sh -c "$what"
    grep -qE '^[0-9a-f]{64} none$' out || fail "malformed: $(head -1 out)"
    expect "a new one each time" "" "$(grep -Ff out before)"
    TUTTI_SECRET=mine tutti -n 1 --no-prefix sh -c "$what"
    expect "the user's own" "mine none" "$(cat out)"
    TUTTI_SECRET_FILE=/mine tutti -n 1 --no-prefix sh -c "$what"
    expect "the user's file" "none /mine" "$(cat out)"
}

first_failure_gives_the_exit_code() {
    # shellcheck disable=SC2016
    tutti -n 3 sh -c '[ $RANK = 1 ] && exit 7; sleep 0.5; exit $((RANK + 1))'
    expect code 7 "$code"
    grep -q '^tutti-run: rank 1 (pid [0-9]*) exited with code 7; the others have 5 s' err || fail "$(cat err)"
    grep -q '^tutti-run: rank 2 (pid [0-9]*) exited with code 3$' err || fail "$(cat err)"
}

killed_rank_is_named_with_its_signal() {
    # shellcheck disable=SC2016
    tutti -n 2 sh -c 'ulimit -c 0; [ $RANK = 1 ] && kill -SEGV $$; sleep 0.2'
    expect code 139 "$code"
    grep -q '^tutti-run: rank 1 (pid [0-9]*) was killed by SIGSEGV' err || fail "$(cat err)"
}

others_get_grace_then_term_then_kill() {
    local start=$SECONDS
    # shellcheck disable=SC2016
    tutti -n 3 --grace 0.5 sh -c '
        [ $RANK = 0 ] && exit 3
        [ $RANK = 1 ] && { trap "echo term; exit 4" TERM; while :; do sleep 0.05; done; }
        trap "" TERM; while :; do sleep 0.1; done'
    expect code 3 "$code"
    expect "rank 1 saw SIGTERM" "[1] term" "$(cat out)"
    grep -q '^tutti-run: sending SIGTERM to ranks 1-2$' err || fail "$(cat err)"
    grep -q '^tutti-run: sending SIGKILL to rank 2$' err || fail "$(cat err)"
    [ $((SECONDS - start)) -le 6 ] || fail "took $((SECONDS - start)) s"
}

ranks_that_end_within_the_grace_are_left_alone() {
    # shellcheck disable=SC2016
    tutti -n 2 --grace 20 sh -c '[ $RANK = 0 ] && exit 3; sleep 0.7; echo "my own error"; exit 5'
    expect code 3 "$code"
    expect output "[1] my own error" "$(cat out)"
    ! grep -q SIGTERM err || fail "$(cat err)"
}

missing_program_fails_before_any_rank() {
    tutti -n 3 ./no-such-program
    expect code 127 "$code"
    expect "one message" 1 "$(wc -l <err)"
    tutti -n 3 no-such-program-in-path
    expect "code from PATH" 127 "$code"
    echo data >data
    tutti -n 3 ./data
    expect "not executable" 126 "$code"
    tutti -n 3 ./.
    expect "a folder" 126 "$code"
    printf '#!/no/such/interpreter\n' >script
    chmod +x script
    tutti -n 3 ./script
    expect "no interpreter" 127 "$code"
    expect "one rank was tried" 1 "$(wc -l <err)"
}

wrong_use_gives_2() {
    local arguments
    for arguments in "" "-n 2" "-n 0 true" "-n 2x true" "-n 99999999999 true" "--frob -n 1 true" "true" \
        "-np" "-np x true" "-np4 true" "-n 1025 true" "-np 5000 true" \
        "-n 1 --grace x true" "-n 1 --timeout 0 true" "-n 1 --master-port 70000 true"; do
        # shellcheck disable=SC2086
        tutti $arguments
        expect "tutti-run $arguments" 2 "$code"
        [ -s err ] || fail "tutti-run $arguments said nothing"
    done
    tutti -n 1 --output /proc/none true
    expect "a folder that cannot be made" 125 "$code"
}

more_ranks_than_a_host_has_are_refused_at_once() {
    SECONDS=0
    tutti -n 5000 touch started
    expect code 2 "$code"
    expect "what it says" "tutti-run: -n 5000: one host has at most 1024 ranks; --hosts FILE names more hosts" "$(head -n 1 err)"
    [ ! -e started ] || fail "ranks were started"
    [ $SECONDS -lt 5 ] || fail "it took $SECONDS s"
}

the_number_of_ranks_may_be_given_as_mpirun_has_it() {
    local arguments
    for arguments in "-np 2" "--np 2" "--np=2" "--ranks 2" "-n2" "-np 3 -n 2"; do
        # shellcheck disable=SC2086,SC2016
        tutti $arguments sh -c 'echo $TUTTI_RANK of $TUTTI_SIZE'
        expect "tutti-run $arguments" "[0] 0 of 2
[1] 1 of 2" "$(sort out)"
    done
    tutti -np 1 echo -np 7 # which belongs to the program
    expect "the program's own -np" "[0] -np 7" "$(cat out)"
}

help_and_version_go_to_stdout() {
    tutti --help
    expect code 0 "$code"
    grep -q -- --grace out || fail "$(cat out)"
    tutti --version
    expect code 0 "$code"
    grep -qE '^tutti-run [0-9]+\.[0-9]+\.[0-9]+$' out || fail "$(cat out)"
}

options_after_the_program_are_its_own() {
    tutti -n 1 echo -n 5 --help
    expect output "[0] 5 --help" "$(cat out)"
}

streams_stay_apart() {
    # shellcheck disable=SC2016
    tutti -n 2 sh -c 'echo to out; echo to err >&2'
    expect out "[0] to out
[1] to out" "$(sort out)"
    expect err "[0] to err
[1] to err" "$(sort err)"
}

last_line_needs_no_newline() {
    tutti -n 2 printf 'a\nlast'
    expect lines "[0] a
[0] last
[1] a
[1] last" "$(sort out)"
    tutti -n 2 --no-prefix printf 'last'
    expect "not glued together" "last
last" "$(cat out)"
}

long_lines_lose_no_byte() {
    head -c 200000 /dev/zero | tr '\0' x >long
    tutti -n 2 cat long
    expect "bytes of rank 0" 200000 "$(grep '^\[0\] ' out | cut -c5- | tr -d '\n' | wc -c)"
    expect "bytes of rank 1" 200000 "$(grep '^\[1\] ' out | cut -c5- | tr -d '\n' | wc -c)"
    [ "$(wc -l <out)" -le 10 ] || fail "cut into $(wc -l <out) lines"
}

binary_output_passes_unchanged() {
    head -c 1000000 /dev/urandom >binary
    tutti -n 1 --no-prefix cat binary
    cmp -s binary out || fail "bytes differ"
    printf 'a\0b\377\n' >small
    tutti -n 1 cat small
    expect "with a prefix" "$(printf '[0] a\0b\377\n' | od -c)" "$(od -c <out)"
}

lines_are_never_mixed() {
    # shellcheck disable=SC2016
    timeout -k 1 60 "$run" -n 4 sh -c \
        'seq -f "begin $RANK %.0f end" 30000 & seq -f "begin $RANK e%.0f end" 30000 >&2; wait' >both 2>&1 </dev/null
    expect code 0 $?
    expect lines 240000 "$(wc -l <both)"
    expect "broken lines" 0 "$(grep -cvE '^\[([0-3])\] begin \1 e?[0-9]+ end$' both)"
    expect "order within a rank" "" \
        "$(awk '!/e[0-9]/ { if ($4 != ++count[$3]) { print; exit } }' both)"
}

slow_reader_holds_the_ranks_back() {
    mkfifo slow
    # shellcheck disable=SC2016
    timeout -k 1 60 "$run" -n 2 sh -c 'echo $$ >>pids.slow; exec seq 3000000' >slow 2>err </dev/null &
    local job=$! total
    exec 9<slow
    within 10 lines 2 pids.slow || fail "did not start"
    sleep 1
    ! gone pids.slow || fail "the ranks ended although nobody read"
    # Memory: two streams, one sink, and not the 40 MB that are waiting.
    local pid
    for pid in $job $(cat "/proc/$job/task/$job/children"); do
        [ "$(awk '/^VmData/ { print $2 }' "/proc/$pid/status")" -lt 20000 ] ||
            grep -q __asan_init "$run" || fail "process $pid has grown"
    done
    total=$(wc -l <&9)
    exec 9<&-
    wait $job
    expect code 0 $?
    expect "nothing lost" 6000000 "$total"
}

closed_stdout_ends_the_ranks() {
    timeout -k 1 20 "$run" -n 2 yes 2>err </dev/null | head -1 >out
    expect code 141 "${PIPESTATUS[0]}"
    grep -qx '\[[01]\] y' out || fail "$(cat out)"
}

output_goes_to_files() {
    # shellcheck disable=SC2016
    tutti -n 2 --output logs sh -c 'echo out $RANK; echo err $RANK >&2'
    expect code 0 "$code"
    expect stdout "" "$(cat out)"
    expect files "out 0
out 1
err 0
err 1" "$(cat logs/rank-0.out logs/rank-1.out logs/rank-0.err logs/rank-1.err)"
}

stdin_goes_to_rank_0() {
    echo hello >input
    timeout -k 1 20 "$run" -n 2 cat <input >out 2>err
    expect code 0 $?
    expect out "[0] hello" "$(cat out)"
}

terminal_gets_colours_and_passes_keys() {
    command -v script >/dev/null || return 0
    (sleep 0.5; echo typed) |
        TERM=xterm timeout -k 1 20 script -qec "env -u NO_COLOR $run -n 2 head -1" /dev/null >out 2>err
    grep -q "$(printf '\033\\[36m\\[0\\]\033\\[0m typed')" out || fail "$(od -c <out | head)"
}

pinned_ranks_take_turns() {
    tutti -n 5 --pin grep Cpus_allowed_list /proc/self/status
    expect code 0 "$code"
    local cores
    cores=$(nproc --all)
    [ "$cores" = "$(nproc)" ] || return 0
    expect "one core each" "$(for rank in 0 1 2 3 4; do echo "[$rank] Cpus_allowed_list: $((rank % cores))"; done)" \
        "$(sort out | tr '\t' ' ')"
}

time_limit_gives_124() {
    tutti -n 2 --timeout 0.5 sleep 100
    expect code 124 "$code"
    grep -q '^tutti-run: sending SIGTERM to ranks 0-1$' err || fail "$(cat err)"
}

signals_reach_all_ranks() {
    local signal expected pid
    for signal in USR1 USR2 HUP INT QUIT TERM; do
        rm -f out
        env --default-signal=INT,QUIT timeout -k 1 20 "$run" -n 2 sh -c \
            "trap 'echo got; exit 0' $signal; echo ready; while :; do sleep 0.05; done" >out 2>err </dev/null &
        pid=$!
        within 10 lines 2 out || fail "did not start"
        # timeout(1) is the parent; tutti-run its only child.
        kill -s $signal "$(tr -d ' ' <"/proc/$pid/task/$pid/children")"
        wait $pid
        expect "code after $signal" 0 $?
        expect "ranks that got $signal" 2 "$(grep -c got out)"
    done
    for signal in TERM:143 INT:130 USR1:138; do
        expected=${signal#*:}
        family_of 2
        kill -s "${signal%:*}" "$front"
        wait $front 2>/dev/null
        expect "code of ranks killed by ${signal%:*}" "$expected" $?
        gone pids.* || fail "${signal%:*} left processes behind"
    done
}

stop_and_continue_reach_the_ranks() {
    family_of 2
    local pid
    kill -TSTP "$front"
    within 5 state_is "$front" T || fail "tutti-run did not stop"
    for pid in $(cat pids.0 pids.1); do
        # The one in a session of its own does not belong to the job any more.
        [ "$pid" = "$(sed -n 2p pids.0)" ] || [ "$pid" = "$(sed -n 2p pids.1)" ] ||
            within 5 state_is "$pid" T || fail "process $pid did not stop"
    done
    kill -CONT "$front"
    pid=$(tail -1 pids.0)
    within 5 state_is "$pid" S || fail "rank 0 did not go on"
    kill -TERM "$front"
    wait $front 2>/dev/null
    expect code 143 $?
}

ignored_signals_stay_ignored() {
    (
        trap '' HUP
        exec "$run" -n 1 sh -c 'echo ready; sleep 1; echo done' >out 2>err </dev/null
    ) &
    local pid=$!
    within 10 lines 1 out || fail "did not start"
    kill -HUP $pid
    wait $pid
    expect code 0 $?
    grep -q 'done' out || fail "$(cat out err)"
}

insisting_ends_deaf_ranks() {
    env --default-signal=INT "$run" -n 2 sh -c 'trap "" INT TERM; echo ready; while :; do sleep 0.1; done' \
        >out 2>err </dev/null &
    local pid=$! start=$SECONDS
    within 10 lines 2 out || fail "did not start"
    kill -INT $pid
    sleep 0.2
    kill -INT $pid
    sleep 0.2
    kill -INT $pid
    wait $pid
    expect code 137 $?
    [ $((SECONDS - start)) -le 2 ] || fail "took $((SECONDS - start)) s"
}

grandchildren_end_with_the_job() {
    rm -f pids.*
    tutti -n 2 sh family.sh leave
    expect code 0 "$code"
    expect "processes started" 6 "$(cat pids.* | wc -l)"
    gone pids.* || fail "left behind: $(cat pids.*)"
}

last_words_of_a_leaving_child_are_heard() {
    tutti -n 1 bash -c 'echo early > >(sleep 0.05; cat)'
    expect out "[0] early" "$(cat out)"
}

killing_tutti_run_leaves_no_process() {
    family_of 3
    kill -KILL "$front"
    timed launcher gone pids.* 2>/dev/null || fail "left behind: $(cat pids.*)"
}

# The others find out by themselves and end: nobody waits for the grace.
a_killed_rank_ends_the_job() {
    local program=${run%/*}/../tests/tests_faults_process_test keeper victim
    [ -x "$program" ] || return 0
    "$run" -n 3 "$program" "$work/never" >out 2>err </dev/null &
    front=$!
    within 30 grep -qs 'round 10$' out || fail "the ranks did not start: $(cat err)"
    keeper=$(tr -d ' ' <"/proc/$front/task/$front/children")
    read -r _ victim _ <"/proc/$keeper/task/$keeper/children"
    echo $front >pids.front
    kill -KILL "$victim"
    timed job gone pids.front || fail "it goes on: $(cat out err)"
    kill -KILL $front 2>/dev/null # where it does go on
    wait $front
    expect code 137 $?
    expect "ranks that know" 2 "$(grep -c ': PROC_FAILED culprit ' out)"
    ! grep -q 'sending SIGTERM' err || fail "$(cat err)"
}

killing_the_keeper_leaves_no_process() {
    family_of 3
    kill -KILL "$(tr -d ' ' <"/proc/$front/task/$front/children")"
    wait $front 2>/dev/null
    expect code 125 $?
    gone pids.* || fail "left behind: $(cat pids.*)"
}

killing_both_ends_the_ranks() {
    family_of 3
    kill -KILL "$(tr -d ' ' <"/proc/$front/task/$front/children")" "$front"
    wait $front 2>/dev/null
    tail -qn 1 pids.* >ranks
    within 2 gone ranks || fail "left behind: $(cat ranks)"
    # Nobody was left to see to their children.
    # shellcheck disable=SC2046
    kill -KILL $(cat pids.*) 2>/dev/null
}

killing_it_while_it_starts_leaves_no_process() {
    local round
    for round in 1 2 3 4 5 6 7 8 9 10; do
        rm -f pids.*
        # shellcheck disable=SC2016
        "$run" -n 20 sh -c 'echo $$ >pids.$RANK; exec sleep 300' >out 2>err </dev/null &
        front=$!
        sleep "0.0$round"
        kill -KILL $front
        wait $front 2>/dev/null
        sleep 0.1
        touch pids.none
        within 2 gone pids.* || fail "left behind: $(cat pids.*)"
    done
}

# Opening a pipe that nobody reads blocks, as a file system does that hangs.
a_rank_that_cannot_start_has_a_deadline() {
    mkdir hanging && mkfifo hanging/rank-1.out
    tutti -n 3 --output hanging --start-timeout 1 sleep 300
    expect code 125 "$code"
    grep -q '^tutti-run: rank 1: has not started within 1 s' err || fail "$(cat err)"
    tutti -n 3 --output hanging --timeout 1 sleep 300
    expect "code at the time limit" 124 "$code"
    rm -r hanging
}

a_rank_that_cannot_start_can_be_interrupted() {
    mkdir hanging && mkfifo hanging/rank-1.out
    env --default-signal=INT "$run" -n 2 --output hanging sh -c 'echo $$ >>pids.0; sleep 300' \
        >out 2>err </dev/null &
    front=$!
    within 20 lines 1 pids.0 || fail "rank 0 did not start"
    kill -INT $front
    echo $front >pids.front
    within 20 gone pids.front || fail "it does not hear"
    kill -KILL $front 2>/dev/null
    wait $front
    expect code 130 $?
    within 2 gone pids.0 || fail "left behind: $(cat pids.0)"
    rm -r hanging pids.*
}

many_ranks_start() {
    # shellcheck disable=SC2016
    tutti -n 200 sh -c 'echo $RANK'
    expect code 0 "$code"
    expect lines 200 "$(sort -u out | wc -l)"
}

run_tests "$@"
