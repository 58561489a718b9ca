# shellcheck shell=bash disable=SC2034
# two_hosts.sh - two hosts, network namespaces, that are joined by two pairs of network cards on different subnets, and a job with a rank on
# each, which reduces again and again.  Everything it makes, namespaces and processes, is gone at the end, also when the test fails or is stopped.
#
#     make_hosts PREFIX            makes them, in a folder of their own, $work; their names begin so
#     on HOST COMMAND...           a or b
#     shape CARD RATE              in both directions
#     join_hosts                   makes the cards, and waits for them
#     wait_for_links
#     start MIB PORT VARIABLES...  the job: allreduces of so many MiB
#     rounds, rounds_reach NUMBER  how many it has done; waits for that
#     measure ROUNDS               $share: the second card's part of what host a sends meanwhile, in %
#     finish SCENE                 ends the job; all results have to be right
#     fail WHAT                    with what the ranks said
#     play SCENE...                runs these functions; exit code
# shellcheck source=tests/hosts/namespaces.sh
source "${BASH_SOURCE[0]%/*}/namespaces.sh"

pids=() # of the job
share=

clean_up() { # the script's process, namespaces, folder
    for host in a b; do
        for pid in $(ip netns pids "$1-$host" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null; done
        ip netns del "$1-$host" 2>/dev/null
    done
    rm -rf "$2"
}
export -f clean_up

finish_all() {
    clean_up "$space" "$work"
}

make_hosts() {
    space=$1$$
    program=$(realpath "$(realpath "${TUTTI_BIN:?}")/../tests")/tests_hosts_tcp_reset_test
    [ -x "$program" ] || skip "$program is not built"
    work=$(mktemp -d) || exit 1
    leave_nothing finish_all clean_up "$space" "$work"
    for host in a b; do ip netns add "$space-$host" || exit 1; done
    cd "$work" || exit 1
}

on() {
    ip netns exec "$space-$1" "${@:2}"
}

shape() {
    for host in a b; do
        on $host tc qdisc replace dev "$1" root tbf rate "$2" burst 131072 limit 1048576 || return 1
    done
}

join_hosts() {
    local card host
    for card in 0 1; do
        on a ip link add eth$card type veth peer name eth$card netns "$space-b" || return 1
        on a ip addr add 10.78.$card.1/24 dev eth$card && on b ip addr add 10.78.$card.2/24 dev eth$card || return 1
    done
    for host in a b; do
        for card in lo eth0 eth1; do on $host ip link set $card up || return 1; done
    done
    wait_for_links
}

wait_for_links() {
    local host card tenths=50
    for host in a b; do
        for card in eth0 eth1; do
            until [ "$(on $host cat /sys/class/net/$card/operstate)" = up ]; do
                ((tenths-- > 0)) || return 1
                sleep 0.1
            done
        done
    done
}

fail() {
    echo "FAILED  $*"
    tail -n 8 rank0 rank1
    failed=1
}

start() {
    local rank hosts=(a b)
    rm -f stop rank0 rank1
    pids=()
    for rank in 0 1; do
        on ${hosts[rank]} unshare --uts sh -c 'hostname "$0" && exec "$@"' "host-${hosts[rank]}" \
            env RANK=$rank WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.78.0.1 MASTER_PORT="$2" \
            TUTTI_LOG=info TUTTI_SECRET=two-hosts-two-cards-each TUTTI_TIMEOUT=60s TUTTI_INIT_TIMEOUT=20s "${@:3}" \
            "$program" "$work/stop" "$1" >rank$rank 2>&1 </dev/null &
        pids+=($!)
    done
}

rounds() {
    grep -c '^round' rank0
}

rounds_reach() { # within 60 s
    local tenths=600
    until [ "$(rounds)" -ge "$1" ]; do
        tenths=$((tenths - 1))
        [ $tenths -gt 0 ] && kill -0 "${pids[@]}" 2>/dev/null || return 1
        sleep 0.1
    done
}

finish() {
    local pid code=0
    touch stop
    for pid in "${pids[@]}"; do wait "$pid" || code=1; done
    [ $code = 0 ] && [ "$(cat rank0 rank1 | grep -c ': all right$')" = 2 ] || fail "$1: not all ranks were right"
}

sent() { # card
    on a cat "/sys/class/net/$1/statistics/tx_bytes"
}

measure() {
    local first second
    first=$(sent eth0) second=$(sent eth1)
    rounds_reach $(($(rounds) + $1)) || return 1
    first=$(($(sent eth0) - first)) second=$(($(sent eth1) - second))
    share=$((100 * second / (first + second + 1)))
}

play() {
    local scene all_failed=0
    for scene; do
        failed=0
        $scene
        [ $failed = 0 ] && echo "ok      $scene"
        all_failed=$((all_failed | failed))
    done
    return $all_failed
}
