#!/bin/bash
# cluster_test.sh - communicators over several hosts, on an emulated cluster (bench/peers/cluster: a network namespace a
# host), started by `tutti-run --hosts`: every collective is right, over IPv4 and IPv6, and a job goes on without
# a loss when all its connections are reset. Started by nobody, ranks meet by an id in a file.
#
#     TUTTI_BIN=build/bin TUTTI_ROOT=. tests/hosts/cluster_test.sh [HOSTSxRANKS...]     such as 3x2 reset ids programs
#
# Everything it makes, namespaces and processes, is gone at the end, also when it fails or is stopped. Needs root; exit
# code 77 means skipped.
# ctest: label=nosan label=once timeout=300 first
set -uo pipefail
bin=$(realpath "${TUTTI_BIN:?}")
tests=$(realpath "$bin/../tests")
cluster=${TUTTI_ROOT:?}/bench/peers/cluster
cluster=$(realpath "$cluster")
export CLUSTER_PREFIX=tt$$
hosts_max=16

# shellcheck source=tests/hosts/namespaces.sh
source "${BASH_SOURCE[0]%/*}/namespaces.sh"

need_namespaces
for program in "$bin/tutti-run" "$tests/tests_calls_collectives_test" "$tests/tests_hosts_tcp_reset_test" "$tests/tests_startup_id_hosts_test" \
    "$tests/tests_programs_random_test"; do
    [ -x "$program" ] || skip "$program is not built"
done

work=$(mktemp -d) || exit 1
front=
finish() {
    trap '' INT TERM HUP
    if [ "$front" ]; then
        local tenths=50 conductor
        conductor=$(tr -d ' ' <"/proc/$front/task/$front/children")
        kill -KILL "$front" 2>/dev/null
        while [ -e "/proc/$conductor/stat" ] && ((tenths-- > 0)); do sleep 0.1; done
    fi
    clean_up_cluster "$cluster" "$work"
}
leave_nothing finish clean_up_cluster "$cluster" "$work"
cd "$work" || exit 1

# In the background, so that a signal to this script is taken at once; the exit code, and output in the file `out`.
run() { # deadline in seconds, command...
    local deadline=$1
    shift
    "$bin/tutti-run" --rsh "$cluster rsh" --timeout "$deadline" "$@" >out 2>&1 </dev/null &
    front=$!
    wait $front
    local code=$?
    front=
    return $code
}

make_hostfile() { # family, hosts, ranks on each
    "$cluster" hostfile "$1" | head -n "$2" | sed "s/.*/[&] slots=$3/"
}

families=
ipv6_hosts='3x2'
collectives() { # hosts, ranks on each
    local family what=choice lines
    # With few ranks every algorithm; with many, what is chosen: two cores have to play all hosts.
    if (($1 * $2 <= 6)); then what=rank; fi
    for family in $families; do
        # What an address looks like does not depend on how many hosts there are: the long tier alone has IPv6 with all numbers.
        if [ "$family" = ipv6 ] && [ -z "${TUTTI_LONG:-}" ] && [[ ! " $ipv6_hosts " == *" $1x$2 "* ]]; then continue; fi
        make_hostfile "$family" "$1" "$2" >hosts
        run 100 --hosts hosts "$tests/tests_calls_collectives_test" $what || fail "$1 hosts, $2 ranks each, $family: $(tail -30 out)"
        lines=$(grep -c ': all right$' out)
        [ "$lines" = $(($1 * $2)) ] || fail "$1 hosts, $2 ranks each, $family: $lines ranks were right"
    done
    [ $failed = 0 ] && echo "ok      $1 hosts, $2 ranks each"
}

# Random programs of everything that ranks can do together (docs/develop/random-programs.md): known seeds, or fresh ones for longer.
programs() { # hosts, ranks on each
    local seed=1 runs=5
    if [ "${TUTTI_LONG:-}" ]; then seed=$RANDOM$RANDOM runs=100; fi
    make_hostfile ipv4 "$1" "$2" >hosts
    run 200 --hosts hosts "$tests/tests_programs_random_test" --rank --seed $seed --runs $runs || fail "programs, seeds from $seed: $(tail -30 out)"
    [ "$(grep -c ', all right$' out)" = $(($1 * $2)) ] || fail "programs, seeds from $seed: not all ranks were right: $(tail -30 out)"
    [ $failed = 0 ] && echo "ok      $1 hosts, $2 ranks each: $runs random programs, seeds from $seed"
}

rounds() {
    grep -c 'round' out
}

rounds_reach() { # number; within 60 s
    local tenths=600
    until [ "$(rounds)" -ge "$1" ]; do
        tenths=$((tenths - 1))
        [ $tenths -gt 0 ] && kill -0 "$front" 2>/dev/null || return 1
        sleep 0.1
    done
}

# Resets every connection of every host and adds them to the file `resets`. The kernel tells both ends.
cut_connections() { # hosts
    local host
    for ((host = 0; host < $1; host++)); do
        ip netns exec "$CLUSTER_PREFIX-h$host" ss -KHtn state established 2>/dev/null
    done >>resets
}

# At a gigabit a second an allreduce of 64 MiB takes about one: the connections are cut at any place in it.
reset_connections() { # hosts, ranks on each
    local family time code others
    command -v ss >/dev/null || { echo "        ss (of iproute2) is not here: no connection is reset"; return; }
    for family in $families; do
        rm -f stop resets
        make_hostfile "$family" "$1" "$2" >hosts
        "$bin/tutti-run" --rsh "$cluster rsh" --timeout 120 --hosts hosts "$tests/tests_hosts_tcp_reset_test" "$work/stop" \
            >out 2>&1 </dev/null &
        front=$!
        rounds_reach 1 || fail "resets, $family: does not start: $(tail -30 out)"
        for time in 0.1 0.37 0.83 0.2 0.5; do
            cut_connections "$1"
            sleep $time
        done
        rounds_reach $(($(rounds) + 2)) || fail "resets, $family: does not go on after resets: $(tail -30 out)"
        touch stop
        wait $front
        code=$?
        front=
        if [ ! -s resets ]; then
            echo "        this kernel resets no connections (CONFIG_INET_DIAG_DESTROY): not tested"
            return
        fi
        [ $code = 0 ] || fail "resets, $family: exit code $code: $(tail -30 out)"
        [ "$(grep -c ': all right$' out)" = $(($1 * $2)) ] || fail "resets, $family: not all ranks were right: $(tail -30 out)"
        [ "$family" = ipv6 ] && others='10\.77' || others='fd77'
        ! grep -q "$others" resets || fail "resets, $family: connections of the other family: $(head -3 resets)"
        [ $failed = 0 ] && echo "ok      $1 hosts, $2 ranks each, $family: $(wc -l <resets) connections reset in $(rounds) allreduces of 64 MiB"
    done
}

# Ranks that know an id, their number and how many they are; with an id for one host they are told what to do.
ids() { # hosts, ranks on each
    local family rank size=$(($1 * $2)) pids code
    for family in $families; do
        rm -f id id.* rank*
        pids=()
        for ((rank = size - 1; rank >= 0; rank--)); do
            TUTTI_ID_HOSTS=many TUTTI_SOCKET_FAMILY=${family#ipv} TUTTI_INIT_TIMEOUT=30s \
                "$cluster" exec $((rank % $1)) "$tests/tests_startup_id_hosts_test" "$work/id" $rank $size >rank$rank 2>&1 </dev/null &
            pids+=($!)
        done
        code=0
        for rank in "${pids[@]}"; do wait "$rank" || code=1; done
        [ $code = 0 ] && [ "$(cat rank* | grep -c "hosts $1: all right$")" = $size ] || fail "ids, $family: $(tail -n 5 rank*)"
    done
    rm -f id rank*
    "$cluster" exec 0 env TUTTI_INIT_TIMEOUT=2s "$tests/tests_startup_id_hosts_test" "$work/id" 0 2 >rank0 2>&1 </dev/null &
    front=$!
    "$cluster" exec 1 "$tests/tests_startup_id_hosts_test" "$work/id" 1 2 >rank1 2>&1 </dev/null && fail "ids: one for one host does for two"
    wait $front
    front=
    grep -q 'TUTTI_ID_HOSTS=many' rank1 || fail "ids: not told what to do: $(cat rank1)"
    [ $failed = 0 ] && echo "ok      $1 hosts, $2 ranks each, by an id"
}

"$cluster" up --hosts $hosts_max >up 2>&1 || skip "no cluster can be made here: $(tail -1 up)"
families=ipv4
[ -e /proc/net/if_inet6 ] && families+=' ipv6' || echo "        this machine has no IPv6"

what=("$@")
if [ $# = 0 ]; then
    what=(3x2 5x1 8x1 reset ids programs)
    [ -z "${TUTTI_LONG:-}" ] || what=(2x1 2x2 3x1 3x2 5x1 5x2 8x1 8x2 16x1 16x2 reset ids programs)
fi
for one in "${what[@]}"; do
    case $one in
    reset) reset_connections 3 1 ;;
    ids) ids 3 2 ;;
    programs) programs 2 2 && programs 4 1 && programs 3 2 ;;
    *) collectives "${one%x*}" "${one#*x}" ;;
    esac
done
exit $failed
