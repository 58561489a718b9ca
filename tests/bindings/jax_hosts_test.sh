#!/bin/bash
# Processes of JAX on two hosts, which are network namespaces, run their collectives over TCP: nobody tells Tutti that there are two.
# ctest: label=long label=nosan label=once timeout=300 needs=wheel
# shellcheck source=tests/bindings/jax.sh
source "${TUTTI_ROOT:?}/tests/bindings/jax.sh"
# shellcheck source=tests/hosts/namespaces.sh
source "$TUTTI_ROOT/tests/hosts/namespaces.sh"
need_namespaces

space=tutti-jax-$$
clean_up() { # the hosts' names begin so; the test's files
    for host in a b; do
        for pid in $(ip netns pids "$1-$host" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null; done
        ip netns del "$1-$host" 2>/dev/null
    done
    rm -rf "$2"
}
export -f clean_up
finish() { clean_up "$space" "$work"; }
leave_nothing finish clean_up "$space" "$work"

for host in a b; do ip netns add "$space-$host"; done
ip -n "$space-a" link add eth0 type veth peer name eth0 netns "$space-b"
number=1
for host in a b; do
    ip -n "$space-$host" addr add "10.86.0.$number/24" dev eth0
    for card in lo eth0; do ip -n "$space-$host" link set $card up; done
    number=$((number + 1))
done

# A card takes a moment to be up.
tenths=100
for host in a b; do
    until [[ $(ip netns exec "$space-$host" cat /sys/class/net/eth0/operstate) == up ]]; do
        ((tenths-- > 0)) || { echo "the card of host $host does not come up"; exit 1; }
        sleep 0.1
    done
done

rank=0
for host in a b; do
    RANK=$rank WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.86.0.1 MASTER_PORT=29500 \
        ip netns exec "$space-$host" "$jax_python" "$TUTTI_ROOT/bindings/jax/tests/collectives_test.py" 2 >"$work/$host" 2>&1 &
    pids[rank]=$!
    rank=$((rank + 1))
done
for rank in 0 1; do wait "${pids[rank]}" || { cat "$work/a" "$work/b"; exit 1; }; done
grep passed "$work/a"
exit "$failed"
