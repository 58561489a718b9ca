#!/bin/bash
# elastic_network_test.sh - tutti-run --elastic on emulated hosts (bench/peers/cluster) whose network fails: nothing is heard any more of a
# host whose agent lives, its ranks start on another host, and the job ends with the right result.
#
# Everything it makes, namespaces and processes, is gone at the end, also when it fails or is stopped. Needs root; exit
# code 77 means skipped.
# ctest: label=nosan label=once timeout=300 waits
set -uo pipefail
bin=$(realpath "${TUTTI_BIN:?}")
cluster=$(realpath "${TUTTI_ROOT:?}/bench/peers/cluster")
export CLUSTER_PREFIX=te$$ CLUSTER_STATE=/run/te$$-cluster

# shellcheck source=tests/hosts/namespaces.sh
source "${BASH_SOURCE[0]%/*}/namespaces.sh"

need_namespaces
for program in tutti-run elastic; do
    [ -x "$bin/$program" ] || skip "$program is not built"
done

work=$(mktemp -d) || exit 1
front=
finish() {
    trap '' INT TERM HUP
    if [ "$front" ]; then
        kill -TERM "$front" 2>/dev/null
        sleep 0.5
        kill -KILL "$front" 2>/dev/null
    fi
    [ ! -s "$work/network" ] || kill -KILL $(cat "$work/network") 2>/dev/null
    clean_up_cluster "$cluster" "$work"
}
leave_nothing finish clean_up_cluster "$cluster" "$work"
cd "$work" || exit 1

# As ssh. All bytes to the host "far" and from it pass processes whose pids are in the file network: while these are stopped, nothing arrives,
# and no connection ends. Their agent is not in the group of the local side.
cat >rsh <<SHELL
#!/bin/bash
host=\$1 far=\$(cat far)
shift
if [ "\$host" != "\$far" ] || [ -e network ]; then exec "$cluster" rsh "\$host" "\$@"; fi
for pipe in in out err; do mkfifo \$pipe.near \$pipe.far; done
setsid sh -c 'cat in.near >in.far & echo \$! >network; cat out.far >out.near & echo \$! >>network; cat err.far >err.near & echo \$! >>network' </dev/null
setsid "$cluster" rsh "\$host" "\$@" <in.far >out.far 2>err.far &
cat out.near &
cat err.near >&2 &
exec cat >in.near
SHELL
chmod +x rsh

within() {
    local tenths=$(($1 * 10))
    shift
    until "$@"; do
        ((tenths-- > 0)) || return 1
        sleep 0.1
    done
}
says() {
    grep -q "$1" err
}
has_begun() {
    [ -s out ]
}

# In the background; rank 0 waits in its 60th step until the file go is there.
start() { # options of tutti-run
    rm -f out err go
    "$bin/tutti-run" --rsh ./rsh --no-prefix --timeout 140 "$@" "$bin/elastic" 200 60:0:"$work/go" >out 2>err </dev/null &
    front=$!
    within 60 has_begun || fail "it did not start: $(cat err)"
}

expect_end() { # the fitted line
    touch go
    wait "$front"
    local code=$?
    front=
    [ $code = 0 ] || fail "$scene: code $code: $(cat err)"
    [ "$(grep '^y = ' out)" = "$wanted" ] || fail "$scene: $(cat out err)"
}

link() { # host, up or down
    ip -n "$CLUSTER_PREFIX-h$1" link set eth0 "$2"
}

"$cluster" up --hosts 4 || skip "no cluster can be made here"
mapfile -t hosts < <("$cluster" hostfile ipv4)
echo none >far
"$bin/tutti-run" -n 3 --no-prefix "$bin/elastic" 200 >out 2>err </dev/null || fail "the job alone: $(cat err)"
wanted=$(grep '^y = ' out)
[ "$wanted" ] || fail "no line: $(cat out)"

scene="a host that gives no sign of life"
echo "${hosts[1]}" >far
start -H "$(IFS=,; echo "${hosts[*]}")" -n 3 --elastic 1
mapfile -t network <network
kill -STOP "${network[@]}"
link 1 down
within 60 says "host ${hosts[1]} gives no sign of life for 15 s" || fail "$scene: $(cat err)"
within 10 says "starting 1 rank of host ${hosts[1]} on host ${hosts[3]}" || fail "$scene: $(cat err)"
expect_end
link 1 up
kill -KILL "${network[@]}" 2>/dev/null
exit $failed
