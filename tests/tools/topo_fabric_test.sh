#!/usr/bin/env bash
# topo_fabric_test.sh - tutti-topo --check-fabric: what it says of hosts with RDMA cards, whose /sys, /dev and /proc are made here.
#
# Exit code 77 means skipped.
# ctest: label=longsan
set -u
shared=$(realpath "${BASH_SOURCE[0]%/*}/../kit/tool.sh")

topo=${TUTTI_BIN:-}
[ -d "$topo" ] && topo=$topo/tutti-topo
if [ ! -x "$topo" ]; then
    echo "TUTTI_BIN names no tutti-topo: skipped"
    exit 77
fi
tool=$(realpath "$topo")

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# shellcheck source=tests/kit/tool.sh
source "$shared"

ends() { # with or without a FAIL, but by itself
    "$tool" "$@" >out 2>err </dev/null
    local got=$?
    [ $got -le 1 ] || fail "$*: exit $got: $(head -c 300 err)"
}
line() { # verdict, fixed string: a line of out has both
    grep -E "^$1 " out | grep -F -- "$2" >/dev/null || fail "no line '$1 ... $2' in: $(head -c 3000 out)"
}
no_line() { # extended regular expression
    grep -E -- "$1" out >/dev/null && fail "a line with '$1' in: $(head -c 3000 out)"
}

put() { # file of the host, text
    mkdir -p "host/${1%/*}"
    printf '%s\n' "$2" >"host/$1"
}

# A host with a card that all is well with. Arguments: name, driver, node type, link layer.
make_host() {
    rm -rf host
    local card=sys/class/infiniband/$1
    put "$card/node_type" "$3"
    put "$card/ports/1/state" "4: ACTIVE"
    put "$card/ports/1/link_layer" "$4"
    put "$card/ports/1/rate" "100 Gb/sec (4X EDR)"
    put "$card/device/net/eth2/mtu" 9000
    mkdir -p host/sys/module
    ln -s "../../../../bus/pci/drivers/$2" "host/$card/device/driver"
    put dev/infiniband/uverbs0 ''
    put dev/infiniband/rdma_cm ''
    put proc/self/limits "Max cpu time              unlimited            unlimited            seconds
Max locked memory         unlimited            unlimited            bytes"
    put proc/self/status "CapEff:	0000000000000000"
    put proc/sys/kernel/osrelease 6.1.0-18-amd64
}
add_gid() { # card, number, type, gid
    put "sys/class/infiniband/$1/ports/1/gids/$2" "$4"
    put "sys/class/infiniband/$1/ports/1/gid_attrs/types/$2" "$3"
}
no_gid=0000:0000:0000:0000:0000:0000:0000:0000
make_roce_host() {
    make_host mlx5_0 mlx5_core "1: CA" Ethernet
    add_gid mlx5_0 0 "IB/RoCE v1" fe80:0000:0000:0000:0e42:a1ff:fe00:0001
    add_gid mlx5_0 1 "RoCE v2" fe80:0000:0000:0000:0e42:a1ff:fe00:0001
    add_gid mlx5_0 2 "IB/RoCE v1" 0000:0000:0000:0000:0000:ffff:0a00:0005
    add_gid mlx5_0 3 "RoCE v2" 0000:0000:0000:0000:0000:ffff:0a00:0005
    put sys/class/infiniband/mlx5_0/ports/1/gids/4 $no_gid
}

echo "wrong command lines and folders are refused"
for words in "--probe" "--levels" "--format tree" "--calibrate" "--calibration" "-o file" "--ranks 2"; do
    # shellcheck disable=SC2086 # words are words
    exits 2 --check-fabric $words
done
exits 2 --check-fabric a b
exits 1 --check-fabric nowhere
[ -s out ] && fail "a folder that is not there prints: $(cat out)"

echo "all is well: RoCE"
make_roce_host
exits 0 --check-fabric host
line ok "card mlx5_0 port 1: 4: ACTIVE, Ethernet, 100 Gb/sec (4X EDR), driver mlx5_core"
line ok "GID 3 is RoCE v2, 10.0.0.5"
line ok "eth2 has an MTU of 9000"
line ok "/dev/infiniband/uverbs0"
line ok "/dev/infiniband/rdma_cm"
line ok "locked memory: unlimited"
line ok "fork: Linux 6.1"
no_line '^(WARN|FAIL)'
no_line libfabric # this one, which says nothing about that host

echo "RoCE without an address, with small packets"
rm host/sys/class/infiniband/mlx5_0/ports/1/gids/3
put sys/class/infiniband/mlx5_0/device/net/eth2/mtu 1500
exits 0 --check-fabric host
line WARN "no RoCE v2 GID of an IPv4 address"
line WARN "ip link set eth2 mtu 9000"
put sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/1 "IB/RoCE v1"
exits 1 --check-fabric host
line FAIL "no RoCE v2 GID; give eth2 an address"

echo "all is well: InfiniBand, iWARP, EFA, Omni-Path, Slingshot"
make_host mlx5_0 mlx5_core "1: CA" InfiniBand
exits 0 --check-fabric host
no_line 'GID|MTU|^(WARN|FAIL)'
make_host irdma0 irdma "2: RNIC" Ethernet
exits 0 --check-fabric host
line ok "iWARP over Ethernet"
no_line 'GID|^(WARN|FAIL)'
make_host rdmap0s31 efa "6: unspecified" Unspecified
rm host/dev/infiniband/rdma_cm
exits 0 --check-fabric host
no_line '^(WARN|FAIL)'
make_host hfi1_0 hfi1 "1: CA" InfiniBand
exits 0 --check-fabric host
line ok "Omni-Path"
make_host mlx5_0 mlx5_core "1: CA" InfiniBand
rm -r host/sys/class/infiniband
put sys/class/cxi/cxi0/x ''
exits 0 --check-fabric host
line ok "card cxi0: Slingshot"

echo "ports that are not active"
make_host mlx5_0 mlx5_core "1: CA" InfiniBand
put sys/class/infiniband/mlx5_0/ports/1/state "2: INIT"
exits 1 --check-fabric host
line WARN "start opensm"
line FAIL "none has an active port"
put sys/class/infiniband/mlx5_0/ports/1/state "1: DOWN"
exits 1 --check-fabric host
line WARN "check the cable"
put sys/class/infiniband/mlx5_1/ports/1/state "4: ACTIVE"
exits 0 --check-fabric host
line WARN "card mlx5_0 port 1"
line ok "card mlx5_1 port 1"
rm -r host/sys/class/infiniband/*/ports
exits 1 --check-fabric host
line WARN "card mlx5_0: it has no port"

echo "device files"
make_roce_host
rm host/dev/infiniband/uverbs0
exits 1 --check-fabric host
line FAIL "modprobe ib_uverbs"
mkdir host/sys/module/ib_uverbs
exits 1 --check-fabric host
line FAIL "in a container: --device /dev/infiniband"
make_roce_host
rm host/dev/infiniband/rdma_cm
exits 1 --check-fabric host
line FAIL "modprobe rdma_ucm"
if [ "$(id -u)" != 0 ]; then # root may use everything
    make_roce_host
    chmod 000 host/dev/infiniband/*
    exits 1 --check-fabric host
    line FAIL "/dev/infiniband/uverbs0: this user may not"
    line FAIL "/dev/infiniband/rdma_cm: this user may not"
fi

echo "limits, and kernels of old"
make_roce_host
put proc/self/limits "Max locked memory         8388608              8388608              bytes"
exits 1 --check-fabric host
line FAIL "locked memory: 8 MiB"
put proc/self/status "CapEff:	000001ffffffffff"
exits 0 --check-fabric host
line ok "CAP_IPC_LOCK"
put proc/self/uid_map "         0          0 4294967295"
exits 0 --check-fabric host
line ok "CAP_IPC_LOCK"
put proc/self/uid_map "         0       1000          1" # root of a container: cards do not count what it may do there
exits 1 --check-fabric host
line FAIL "locked memory: 8 MiB"
rm host/proc/self/uid_map
put proc/self/status "CapEff:	0000000000000000"
put proc/self/limits "Max locked memory         17179869184          17179869184          bytes"
exits 0 --check-fabric host
line ok "locked memory: 16 GiB"
rm host/proc/self/limits
put proc/sys/kernel/osrelease 4.18.0-477.el8
exits 0 --check-fabric host
line WARN "the limit is not known"
line WARN "RDMAV_FORK_SAFE=1"

echo "no card, with a driver that lacks its RDMA side and without"
rm -rf host
mkdir -p host/sys/module
exits 0 --check-fabric host
line WARN "cards: none in /sys/class/infiniband"
mkdir host/sys/module/mlx5_core
exits 0 --check-fabric host
line WARN "modprobe mlx5_ib"

echo "files that say nonsense"
make_roce_host
for file in $(find host -type f); do head -c 5000 /dev/urandom >"$file"; done
ends --check-fabric host
LC_ALL=C grep -a '[^ -~]' out | LC_ALL=C grep -a -P '[\x00-\x09\x0b-\x1f]' >/dev/null && fail "control characters are printed"
grep -vE '^(ok|WARN|FAIL) ' out >/dev/null && fail "a line without a verdict: $(grep -vE '^(ok|WARN|FAIL) ' out | head -c 300)"

echo "this host"
ends --check-fabric
line ok "host: $(uname -n), Linux $(uname -r)"
[[ $(tail -n 1 out) == *choice:* ]] || fail "the last line is not the choice: $(cat out)"
echo "no library" >libfabric.so.1 # loaded in place of the system's
LD_LIBRARY_PATH=$PWD TUTTI_FABRIC='tcp;ofi_rxm' exits 1 --check-fabric
line FAIL "choice: TUTTI_FABRIC=tcp;ofi_rxm: "
LD_LIBRARY_PATH=$PWD ends --check-fabric
line WARN "choice: none, data goes over TCP"
TUTTI_FABRIC=nonsense exits 1 --check-fabric
TUTTI_FABRIC=off ends --check-fabric
if grep -E '^ok +libfabric' out >/dev/null; then
    line WARN "choice: none, data goes over TCP (TUTTI_FABRIC=off)"
else
    line "(WARN|FAIL)" libfabric
fi
if grep -E '^ok +provider tcp;ofi_rxm: it works' out >/dev/null; then
    TUTTI_FABRIC='tcp;ofi_rxm' ends --check-fabric
    line ok "choice: tcp;ofi_rxm"
    for protection in TUTTI_ENCRYPTION=on TUTTI_INTEGRITY=on TUTTI_INTEGRITY=network; do
        export "${protection?}"
        TUTTI_FABRIC='tcp;ofi_rxm' ends --check-fabric
        line WARN "cannot protect data as ${protection%=*} says"
        unset "${protection%=*}"
    done
fi
if [ $failures -gt 0 ]; then
    echo "$failures failed"
    exit 1
fi
echo "all fine"
