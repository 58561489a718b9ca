#!/bin/bash
# rails_test.sh - two hosts, network namespaces, that are joined by two pairs of network cards on different subnets: with
# TUTTI_RAILS=2 large data goes over both, more over the faster one; a card whose link goes down in the middle of an
# allreduce, or that never reached anybody, costs no result; without the setting the second card carries nothing.
#
#     TUTTI_BIN=build/bin tests/hosts/rails_test.sh [one both unequal lost unreached]
#
# Everything it makes, namespaces and processes, is gone at the end, also when it fails or is stopped. Needs root; exit
# code 77 means skipped.
# ctest: label=nosan label=once timeout=120 serial
set -uo pipefail

# shellcheck source=tests/hosts/two_hosts.sh
source "${BASH_SOURCE[0]%/*}/two_hosts.sh"
# shellcheck source=tests/kit/scenes.sh
source "${BASH_SOURCE[0]%/*}/../kit/scenes.sh"

need_namespaces

# Three run at a time, each on hosts of its own.
if [ $# = 0 ]; then
    scenes_run 3 scenes_again unreached lost unequal both one
    exit
fi

make_hosts tr
# So fast that the cards, and not the two processes, are what everything waits for.
(join_hosts && shape eth0 500mbit && shape eth1 500mbit) >made 2>&1 || skip "no cards can be made here: $(tail -1 made)"

begin() { # variables...
    start 16 29511 TUTTI_TIMEOUT=40s "$@"
}

one() {
    begin
    rounds_reach 1 && measure 2 || fail "one: does not start"
    finish one
    [ "$share" = 0 ] || fail "one: the second card carried $share %"
    ! grep -qi 'rail' rank0 rank1 || fail "one: the log speaks of rails"
}

both() {
    begin TUTTI_RAILS=2
    rounds_reach 2 && measure 4 || fail "both: does not start"
    finish both
    [ "$share" -ge 25 ] && [ "$share" -le 75 ] || fail "both: the second card carried $share %"
    grep -q 'rails: eth0 10.78.0.1, eth1 10.78.1.1 (2 wanted)' rank0 || fail "both: the log does not say which rails there are"
    echo "        the second of two equal cards carried $share %"
}

unequal() {
    shape eth1 125mbit
    begin TUTTI_RAILS=2
    rounds_reach 2 && measure 4 || fail "unequal: does not start"
    finish unequal
    shape eth1 500mbit
    [ "$share" -ge 8 ] && [ "$share" -le 45 ] || fail "unequal: the card with a fifth of the rate carried $share %"
    echo "        the card with a fifth of the rate carried $share %"
}

# Nothing is said to either process; only that nothing is answered any more shows it.
lost() {
    begin TUTTI_RAILS=2
    rounds_reach 3 || fail "lost: does not start"
    measure 2
    [ "$share" -ge 25 ] || fail "lost: the second card carried $share % when it was there"
    on b ip link set eth1 down
    rounds_reach $(($(rounds) + 4)) || fail "lost: does not go on"
    finish lost
    on b ip link set eth1 up
    wait_for_links || fail "lost: the card does not come back"
    grep -hq 'connection 2 is lost' rank0 rank1 || fail "lost: the log does not say that it was"
    [ $failed = 0 ] && echo "        goes on without a card: $(rounds) allreduces of 16 MiB"
}

unreached() {
    on b ip addr del 10.78.1.2/24 dev eth1
    on b ip addr add 10.79.9.2/24 dev eth1
    begin TUTTI_RAILS=2 TUTTI_LOG=warn
    rounds_reach 4 || fail "unreached: does not start"
    local tenths=100
    until grep -q 'rank 0 (host host-a.*no connection by rail 1 from 10.79.9.2 to 10.78.1.1:' rank1 || ((tenths-- == 0)); do
        sleep 0.1
    done
    [ $tenths -ge 0 ] || fail "unreached: the log does not warn of it"
    finish unreached
    on b ip addr del 10.79.9.2/24 dev eth1
    on b ip addr add 10.78.1.2/24 dev eth1
    [ "$(grep -c 'no connection by rail' rank1)" = 1 ] || fail "unreached: the log warns more than once"
}

play "$@"
