#!/usr/bin/env bash
# run_hosts_test.sh - tutti-run on several hosts, which are this one each time: remote shells that work, fail, hang
# or are cut, and that nothing is ever left behind.
#
#     TUTTI_BIN=build/bin tests/tools/run_hosts_test.sh [test...]
#
# TUTTI_BIN is the program or the folder it lies in. Exit code 77 means skipped.
# ctest: label=nosan label=once waits
set -u

# shellcheck source=tests/tools/tutti_run.sh
source "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/tutti_run.sh"
unset TUTTI_SECRET TUTTI_SECRET_FILE
tutti_options=(--rsh ./rsh)

# As ssh: the words go through a shell, in the home folder, with an environment of its own; pids.rsh-HOST is the agent's.
cat >rsh <<'END'
#!/bin/bash
host=$1
shift
echo "$host $*" >>commands
case $host in
refused) echo "rsh: refused" >&2; exit 255 ;;
silent) exec sleep 300 ;;
deaf) trap '' TERM; sleep 300 & echo $! >pids.deaf; wait; wait ;;
chatty) echo "Welcome to $host"; echo "and good luck" >&2 ;;
esac
echo $$ >pids.rsh-$host
cd / || exit 1
exec env -i HOME=/ TUTTI_SECRET_FILE=/other PATH=/bin:/usr/bin ${ASAN_OPTIONS+"ASAN_OPTIONS=$ASAN_OPTIONS"} sh -c "$*"
END
chmod +x rsh

family_on() { # hosts, with three ranks together; options
    start_family 3 --rsh ./rsh -H "$@"
}

begin_tests

ranks_know_their_places() {
    # shellcheck disable=SC2016
    local what='echo $TUTTI_RANK $RANK/$TUTTI_SIZE/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_ADDR $MASTER_PORT'
    tutti -H me@a:2,b --master-port 4711 sh -c "$what"
    expect code 0 "$code"
    expect "by slot" "[0] 0 0/3/3 0/2 0/2 a 4711
[1] 1 1/3/3 1/2 0/2 a 4711
[2] 2 2/3/3 0/1 1/2 a 4711" "$(sort out)"
    printf '# hosts\na slots=2\nb\n' >hosts
    tutti --hosts hosts --map-by node --master-addr there --master-port 1 sh -c "$what"
    expect "by node" "[0] 0 0/3/3 0/2 0/2 there 1
[1] 1 1/3/3 0/1 1/2 there 1
[2] 2 2/3/3 1/2 0/2 there 1" "$(sort out)"
    tutti --hosts hosts -n 2 --no-prefix sh -c "$what"
    expect "one host is enough" "2" "$(grep -c ' [01]/2 0/1 a 2[0-9]*$\| [01]/2 0/1 a 3[0-2][0-9]*$' out)"
}

a_job_has_one_id_one_port_and_one_secret_of_its_own() {
    # shellcheck disable=SC2016
    local what='echo $TUTTI_JOB_ID $MASTER_PORT ${TUTTI_SECRET-none} ${TUTTI_SECRET_FILE-none}'
    tutti -H a:2,b --no-prefix sh -c "$what"
    expect "the same for all" 1 "$(sort -u out | wc -l)"
    grep -qE '^[0-9a-f]{32} (2[0-9]|3[0-2])[0-9]{3} [0-9a-f]{64} none$' out || fail "malformed: $(head -1 out)"
    cp out before
    tutti -H a --no-prefix sh -c "$what"
    expect "a new id each time" "" "$(cut -d' ' -f1 out | grep -Ff - before)"
    expect "a new secret each time" "" "$(cut -d' ' -f3 out | grep -Ff - before)"
    TUTTI_SECRET=mine tutti -H a --no-prefix sh -c "$what"
    expect "the user's secret" "mine none" "$(cut -d' ' -f3- out)"
    TUTTI_SECRET_FILE=/mine tutti -H a --no-prefix sh -c "$what"
    expect "the user's file" "none /mine" "$(cut -d' ' -f3- out)"
}

no_secret_is_on_a_command_line() {
    rm -f commands
    # shellcheck disable=SC2016
    TUTTI_SECRET=the-secret tutti -H a,b --output logs sh -c 'tr "\0" " " </proc/$PPID/cmdline; echo $TUTTI_SECRET'
    expect "ranks have it" 2 "$(cat logs/*.out | grep -c the-secret)"
    expect "commands" "a $run --agent
b $run --agent" "$(sort commands)"
}

variables_go_along() {
    # shellcheck disable=SC2016
    TUTTI_LOG=warn OMP_NUM_THREADS=3 LD_LIBRARY_PATH=/l MINE=1 OTHER=2 HOME=/nowhere tutti -H a -x MINE -x 'NEW=x=y z' --no-prefix \
        sh -c 'echo "$TUTTI_LOG $OMP_NUM_THREADS $LD_LIBRARY_PATH $MINE ${OTHER-none} $NEW $HOME $PATH"'
    expect variables "warn 3 /l 1 none x=y z / $PATH" "$(cat out)"
    # shellcheck disable=SC2016
    timeout -k 1 60 "$run" -n 1 -x NEW=5 --no-prefix sh -c 'echo $NEW' >out 2>err </dev/null
    expect "on this host too" 5 "$(cat out)"
}

it_works_where_we_are_with_our_words() {
    mkdir -p "sub dir"
    (cd "sub dir" && timeout -k 1 60 "$run" --rsh ../rsh -H a --no-prefix sh -c 'pwd; printf "<%s>" "$@"' 0 "a b" "" "it's" '$HOME' >../out 2>../err </dev/null)
    expect words "$work/sub dir
<a b><><it's><\$HOME>" "$(cat out)"
    cp "$run" "it's here"
    timeout -k 1 60 "./it's here" --rsh ./rsh -H a --no-prefix echo fine >out 2>err </dev/null
    expect "its own path is quoted" fine "$(cat out err)"
    timeout -k 1 60 "$run" --remote-path "./no'where" --rsh ./rsh -H a true >out 2>err </dev/null
    expect code 125 $?
    grep -q "no'where" err || fail "$(cat err)"
}

a_missing_folder_or_program_is_named_with_its_host() {
    mkdir -p short
    cat >rsh-removed <<'END'
#!/bin/bash
rmdir "$PWD"
cd ..
exec ./rsh "$@"
END
    chmod +x rsh-removed
    (cd short && timeout -k 1 60 "$run" --rsh ../rsh-removed -H a true >../out 2>../err </dev/null)
    expect code 125 $?
    grep -q '^tutti-run: host a: cannot enter .*/short: No such file or directory$' err || fail "$(cat err)"
    tutti -H a,b no-such-program
    expect code 127 "$code"
    grep -q '^tutti-run: host b: cannot execute no-such-program: No such file or directory$' err || fail "$(cat err)"
    echo data >data
    tutti -H a,b ./data
    expect code 126 "$code"
    printf '#!/no/such/interpreter\n' >script
    chmod +x script
    tutti -H a,b ./script
    expect "no interpreter" 127 "$code"
}

the_first_failure_gives_the_code_and_ends_all_hosts() {
    local start=$SECONDS
    # shellcheck disable=SC2016
    tutti -H a,b:2,c --grace 0.5 sh -c '[ $RANK = 1 ] && exit 7; trap "echo term; exit 4" TERM; while :; do sleep 0.05; done'
    expect code 7 "$code"
    expect "all others saw SIGTERM" "[0] term
[2] term
[3] term" "$(sort out)"
    grep -q '^tutti-run: rank 1 (host b, pid [0-9]*) exited with code 7; the others have 0.5 s to end$' err || fail "$(cat err)"
    grep -q '^tutti-run: sending SIGTERM to rank 2 (host b)$' err || fail "$(cat err)"
    grep -q '^tutti-run: sending SIGTERM to rank 3 (host c)$' err || fail "$(cat err)"
    [ $((SECONDS - start)) -le 5 ] || fail "took $((SECONDS - start)) s"
    ! grep -q 'tutti-run:[0-9a-f]' err || fail "reports are seen: $(cat err)"
}

a_killed_rank_is_named_with_its_signal() {
    # shellcheck disable=SC2016
    tutti -H a,b --grace 5 sh -c 'ulimit -c 0; [ $RANK = 1 ] && kill -SEGV $$; sleep 0.5; echo my own error; exit 3'
    expect code 139 "$code"
    grep -q '^tutti-run: rank 1 (host b, pid [0-9]*) was killed by SIGSEGV' err || fail "$(cat err)"
    expect "within the grace others are left alone" "[0] my own error" "$(cat out)"
}

streams_and_lines_arrive_as_they_are() {
    # shellcheck disable=SC2016
    tutti -H a,b sh -c 'seq -f "begin $RANK %.0f end" 30000; echo err $RANK >&2'
    expect code 0 "$code"
    expect lines 60000 "$(wc -l <out)"
    expect "broken lines" 0 "$(grep -cvE '^\[([01])\] begin \1 [0-9]+ end$' out)"
    expect err "[0] err 0
[1] err 1" "$(sort err)"
    head -c 1000000 /dev/urandom >binary
    tutti -H a --no-prefix cat binary
    cmp -s binary out || fail "bytes differ"
    head -c 65535 /dev/zero | tr '\0' x >long
    echo >>long
    tutti -H a,b cat long
    expect "long lines are not cut twice" 2 "$(wc -l <out)"
}

slow_reader_loses_nothing() {
    # A remote shell that has buffers of its own: the ranks and the agent have ended long before all is read.
    cat >rsh-buffered <<'END'
#!/bin/bash
./rsh "$@" | cat
END
    chmod +x rsh-buffered
    mkfifo slow
    timeout -k 1 60 "$run" --rsh ./rsh-buffered -H a,b seq 50000 >slow 2>err </dev/null &
    local job=$!
    exec 9<slow
    sleep 3 # longer than a remote shell may take to end after its host
    expect "nothing lost" 100000 "$(wc -l <&9)"
    exec 9<&-
    wait $job
    expect code 0 $?
}

greetings_of_a_shell_do_no_harm() {
    tutti -H chatty echo fine
    expect code 0 "$code"
    expect out "Welcome to chatty
[0] fine" "$(cat out)"
    expect err "and good luck" "$(cat err)"
}

output_goes_to_files() {
    # shellcheck disable=SC2016
    tutti -H a,b --output files sh -c 'echo out $RANK; echo err $RANK >&2'
    expect code 0 "$code"
    expect files "out 0
out 1
err 0
err 1" "$(cat files/rank-0.out files/rank-1.out files/rank-0.err files/rank-1.err)"
}

a_host_that_refuses_ends_the_job() {
    local start=$SECONDS
    tutti -H a,refused,b sleep 100
    expect code 125 "$code"
    grep -q '^tutti-run: host refused could not be reached: ./rsh exited with code 255$' err || fail "$(cat err)"
    grep -q '^rsh: refused$' err || fail "$(cat err)"
    [ $((SECONDS - start)) -le 6 ] || fail "took $((SECONDS - start)) s"
    timeout -k 1 20 "$run" --rsh ./no-rsh -H a true >out 2>err </dev/null
    expect "no such remote shell" 125 $?
    grep -q 'cannot execute ./no-rsh' err || fail "$(cat err)"
    timeout -k 1 20 "$run" --rsh true -H a true >out 2>err </dev/null
    expect "a shell that does nothing" 125 $?
}

a_host_that_hangs_ends_the_job_at_the_deadline() {
    rm -f pids.*
    local start=$SECONDS host
    for host in silent deaf; do
        tutti -H a,$host --start-timeout 1 sh family.sh
        expect code 125 "$code"
        grep -q "^tutti-run: host $host could not be reached: its ranks do not run after 1 s\$" err || fail "$(cat err)"
    done
    gone pids.* || fail "left behind: $(cat pids.*)"
    [ $((SECONDS - start)) -le 12 ] || fail "took $((SECONDS - start)) s"
}

a_host_that_is_lost_ends_the_job() {
    # The remote shell dies; of what is behind it, nothing is left either.
    family_on a,b,c --grace 0.5
    kill -KILL "$(cat pids.rsh-b)"
    wait $front
    expect code 125 $?
    grep -q '^tutti-run: host b is lost: ./rsh was killed by SIGKILL$' family.err || fail "$(cat family.err)"
    grep -q '^tutti-run: sending SIGTERM to rank 2 (host c)$' family.err || fail "$(cat family.err)"
    within 3 gone pids.* || fail "left behind: $(cat pids.*)"
}

a_cut_connection_ends_the_ranks_behind_it() {
    # The agent stays when its remote shell dies, as on another host: only its stdin has ended.
    cat >rsh-apart <<'END'
#!/bin/bash
shift
mkfifo in.$$
setsid sh -c "echo \$\$ >pids.agent; exec $*" <in.$$ &
exec cat >in.$$
END
    chmod +x rsh-apart
    rm -f pids.* family.out
    "$run" --rsh ./rsh-apart -H a:3 sh family.sh >family.out 2>family.err </dev/null &
    front=$!
    within 20 lines 3 family.out || fail "did not start: $(cat family.err)"
    kill -KILL $front
    wait $front 2>/dev/null
    within 4 gone pids.* || fail "left behind: $(cat pids.*)"
}

signals_reach_the_ranks_of_all_hosts() {
    local signal expected pid
    for signal in USR1 HUP INT TERM; do
        rm -f out
        env --default-signal=INT,QUIT timeout -k 1 20 "$run" --rsh ./rsh -H a,b sh -c \
            "trap 'echo got; exit 0' $signal; echo ready; while :; do sleep 0.05; done" >out 2>err </dev/null &
        pid=$!
        within 10 lines 2 out || fail "did not start"
        kill -s $signal "$(tr -d ' ' <"/proc/$pid/task/$pid/children")"
        wait $pid
        expect "code after $signal" 0 $?
        expect "ranks that got $signal" 2 "$(grep -c got out)"
    done
    for signal in TERM:143 INT:130; do
        expected=${signal#*:}
        family_on a:2,b
        kill -s "${signal%:*}" "$front"
        wait $front 2>/dev/null
        expect "code of ranks killed by ${signal%:*}" "$expected" $?
        gone pids.* || fail "${signal%:*} left processes behind"
        expect "nothing to be said" "" "$(cat family.err)"
    done
}

insisting_ends_deaf_ranks_and_hosts() {
    env --default-signal=INT "$run" --rsh ./rsh -H a,b sh -c 'trap "" INT TERM; echo ready; while :; do sleep 0.1; done' \
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
    env --default-signal=INT "$run" --rsh ./rsh -H a,silent sleep 100 >out 2>err </dev/null &
    pid=$!
    sleep 0.5
    kill -INT $pid
    wait $pid
    expect "while a host is being reached" 130 $?
    [ $((SECONDS - start)) -le 6 ] || fail "took $((SECONDS - start)) s"
}

time_limit_gives_124() {
    tutti -H a,b --timeout 0.5 sleep 100
    expect code 124 "$code"
    expect "said once" 1 "$(grep -c 'the time limit of 0.5 s has passed' err)"
    tutti -H a,silent --timeout 0.5 sleep 100
    expect "while a host is being reached" 124 "$code"
}

killing_any_process_of_it_leaves_no_process() {
    local which
    for which in front conductor agent keeper; do
        family_on a:2,b --grace 0.5
        case $which in
        front)
            kill -KILL $front
            timed launcher_far gone pids.* 2>/dev/null || fail "left behind: $(cat pids.*)"
            ;;
        conductor) kill -KILL "$(tr -d ' ' <"/proc/$front/task/$front/children")" ;;
        agent) kill -KILL "$(cat pids.rsh-a)" ;;
        keeper) kill -KILL "$(tr -d ' ' <"/proc/$(cat pids.rsh-a)/task/$(cat pids.rsh-a)/children")" ;;
        esac
        wait $front 2>/dev/null
        code=$?
        expect "code after killing the $which" "$([ $which = front ] && echo 137 || echo 125)" $code
        within 5 gone pids.* || fail "$which: left behind: $(cat pids.*)"
    done
}

closed_stdout_ends_the_ranks() {
    timeout -k 1 20 "$run" --rsh ./rsh -H a,b yes 2>err </dev/null | head -1 >out
    expect code 141 "${PIPESTATUS[0]}"
    grep -qx '\[[01]\] y' out || fail "$(cat out)"
}

strangers_give_no_orders() {
    echo 'GET / HTTP/1.1 and something more' | timeout 20 "$run" --agent >out 2>err
    expect code 125 $?
    expect "what it says" "tutti-run --agent: no message to be understood: it is none of tutti-run's" "$(cat err)"
    timeout 20 "$run" --agent >out 2>err </dev/null
    expect "nothing at all" 125 $?
}

wrong_use_gives_2() {
    local arguments
    printf 'a b\n' >wrong
    for arguments in "--hosts /no/such true" "--hosts wrong true"; do
        # shellcheck disable=SC2086
        tutti $arguments
        expect "tutti-run $arguments" 125 "$code"
        [ -s err ] || fail "tutti-run $arguments said nothing"
    done
    for arguments in "-H a" "-H a -n 2 true" "-H a;b true" "-H a, true" "-H a:2000 true" "-H a:1024,b -n 70000 true" \
        "-H a --map-by core true" "-H a --start-timeout 0 true" "-H a -x NO_SUCH_VARIABLE true" "-H a -x 1=2 true"; do
        # shellcheck disable=SC2086
        tutti $arguments
        expect "tutti-run $arguments" 2 "$code"
        [ -s err ] || fail "tutti-run $arguments said nothing"
    done
    tutti -H a:2000,b -n 1500 true
    expect "too many ranks of a host" 2 "$code"
    expect "what it says" "tutti-run: 1500 ranks, which is more than 1024 for host a: name more hosts" "$(cat err)"
    timeout 20 "$run" -H a --rsh " " true >out 2>err </dev/null
    expect "no remote shell" 2 $?
}

many_hosts_start() {
    # shellcheck disable=SC2016
    tutti -H "$(seq -s, -f h%g 40)" sh -c 'echo $RANK'
    expect code 0 "$code"
    expect lines 40 "$(sort -u out | wc -l)"
}

run_tests "$@"
