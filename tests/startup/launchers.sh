# shellcheck shell=bash disable=SC2034
# launchers.sh - what the tests under real launchers share; they source it.
#
#     launchers_here COMMAND PACKAGE      whether it is here; says that it is not
#     skip WHY                            ends the test as skipped
#     expect NUMBER WORDS COMMAND...      ends well, and NUMBER ranks of tests_startup_launched_test say WORDS
#     refuse WORDS COMMAND...             does not end well, and says WORDS
#     expect_perf NUMBER COMMAND...       the command in front of tutti-perf starts NUMBER ranks of one measurement
#     expect_hello NUMBER COMMAND...      the same for the example hello
#     cluster_up                          two emulated hosts: on them "${host0[@]}" COMMAND..., "${host1[@]}" COMMAND...
#     cluster_expect_quiet                nothing that a launcher started is left on them
#
# LAUNCHERS_TIMES=1 prints how long each takes. In $work is a folder, and $failed is 1 after a failure.
set -uo pipefail

# shellcheck source=tests/hosts/namespaces.sh
source "${BASH_SOURCE[0]%/*}/../hosts/namespaces.sh"

bin=$(realpath "${TUTTI_BIN:?}")
rank=$(realpath "$bin/../tests/tests_startup_launched_test")
work=$(mktemp -d) || exit 1
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT

export TUTTI_TIMEOUT=30s TUTTI_INIT_TIMEOUT=30s
export ASAN_OPTIONS=detect_leaks=0 # the launchers' libraries have some
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMP_NUM_THREADS=1
# What this test was itself started by must not be read as the launcher.
for variable in $(compgen -e | grep -E '^(TUTTI_(RANK|SIZE|JOB_ID|PODS|RANKS_PER_POD|HOSTID)|RANK|WORLD_SIZE|LOCAL_.*|GROUP_.*|MASTER_.*|PET_.*)$'); do
    unset "$variable"
done
for variable in $(compgen -e | grep -E '^(OMPI_COMM|PMIX?_|SLURM_|FLUX_|TORCHELASTIC_|JOB_COMPLETION_INDEX|TUTTI_REND)'); do
    unset "$variable"
done

launchers_here() {
    command -v "$1" >/dev/null && return
    echo "skipped: $1 is not here ($2)"
    return 1
}

complain() { # what was expected, command...
    local expected=$1
    shift
    echo "failed: $*"
    echo "  $expected:"
    sed 's/^/  /' "$work/output"
    failed=1
}

# The command has 100 s, and its output is in $work/output.
launch() {
    local begin=$SECONDS code=0
    timeout -k 5 100 "$@" >"$work/output" 2>&1 </dev/null || code=$?
    [[ -z ${LAUNCHERS_TIMES:-} ]] || echo "$((SECONDS - begin)) s: $*"
    return $code
}

expect() {
    local number=$1 words=$2
    shift 2
    if ! launch "$@" || (($(grep -cE "of $number by $words: fine" "$work/output") != number)); then
        complain "$number lines with '$words' are expected" "$@"
    fi
}

refuse() {
    local words=$1
    shift
    if launch "$@" || ! grep -qF "$words" "$work/output"; then complain "'$words' is expected" "$@"; fi
}

expect_perf() {
    local number=$1
    shift
    if ! launch "$@" "$bin/tutti-perf" allreduce -b 1K -e 256K -f 16 -w 1 -n 3 --timeout 30 ||
        (($(grep -c "^# tutti-perf allreduce: $number ranks (from a launcher)" "$work/output") != 1)) ||
        (($(grep -c '^# tutti-perf' "$work/output") != 1)) ||
        ! grep -q '^# Wrong elements *: 0 OK' "$work/output"; then
        complain "one measurement of $number ranks, with nothing wrong, is expected" "$@" tutti-perf
    fi
}

# Rank r gives 2 4 6, 1 2 3 or 4 8 12, as r modulo 3 is.
expect_hello() {
    local number=$1 sum=0 r
    shift
    for ((r = 0; r < number; r++)); do
        case $((r % 3)) in 0) ((sum += 2)) ;; 1) ((sum += 1)) ;; 2) ((sum += 4)) ;; esac
    done
    if ! launch "$@" "$bin/hello" ||
        (($(grep -cE "^rank [0-9]+ of $number gave .* and got $sum $((sum * 2)) $((sum * 3))$" "$work/output") != number)); then
        complain "$number sums $sum are expected" "$@" hello
    fi
}

# ------------------------------------------------------------------------------------------- two emulated hosts

cluster_finish() {
    trap '' INT TERM HUP
    local pids tenths=100
    pids=$(cluster_pids)
    "$cluster" down >/dev/null 2>&1
    # shellcheck disable=SC2086 # a list
    while kill -0 $pids 2>/dev/null && ((tenths-- > 0)); do sleep 0.1; done
    # shellcheck disable=SC2086
    [[ -z $pids ]] || kill -KILL $pids 2>/dev/null
    rm -rf "$work"
}

cluster_pids() {
    ip netns pids "$CLUSTER_PREFIX-h0"
    ip netns pids "$CLUSTER_PREFIX-h1"
} 2>/dev/null

cluster_up() {
    need_namespaces
    cluster=$(realpath "${TUTTI_ROOT:?}/bench/peers/cluster")
    export CLUSTER_PREFIX=tl$$
    leave_nothing cluster_finish clean_up_cluster "$cluster" "$work"
    "$cluster" up --hosts 2 >"$work/up" 2>&1 || skip "no network namespaces can be made here: $(tail -1 "$work/up")"
    host0=("$cluster" exec 0)
    host1=("$cluster" exec 1)
    # What mpiruns call as ssh.
    printf '#!/bin/sh\nexec %q rsh "$@"\n' "$cluster" >"$work/rsh"
    chmod 755 "$work/rsh"
}

# But for what the caller names as an extended regular expression: its daemons.
cluster_expect_quiet() {
    local but=${1:-^$} tenths=50 pid name left
    while true; do
        left=
        for pid in $(cluster_pids); do
            name=$(cat "/proc/$pid/comm" 2>/dev/null) || continue
            [[ $name =~ $but ]] || left+=" $name($pid)"
        done
        [[ $left ]] || return
        ((tenths-- > 0)) || break
        sleep 0.1
    done
    echo "failed: left behind:$left"
    failed=1
}
