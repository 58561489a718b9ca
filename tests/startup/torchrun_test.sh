#!/bin/bash
# torchrun_test.sh - ranks that torchrun starts, on one host and on two emulated ones. The program is no Python.
# ctest: label=nosan label=once timeout=300 lock=torchrun
# shellcheck source=tests/startup/launchers.sh
source "${TUTTI_ROOT:?}/tests/startup/launchers.sh"
command -v torchrun >/dev/null || skip "torchrun is not here (python3-torch, a large download: ./check --torch installs it)"
# PyTorch 1.13 with Python 3.11, as in Debian 12, does not understand the numbers 0 and 3 for where output goes, which are
# its own defaults; what it says of a rank that is not there, it understands.
torchrun=(torchrun --redirects 9:1 --tee 9:1 --monitor_interval 0.2)
"${torchrun[@]}" --help >"$work/help" 2>&1 || skip "torchrun does not start here: $(tail -1 "$work/help")"

here=("${torchrun[@]}" --standalone --nproc_per_node 3 --no_python)
expect 3 'torchrun, local [0-2] of 3, service none' "${here[@]}" "$rank" rank

# Each agent's output apart: rank 0's counts for all where a measurement is.
on_two_hosts() { # each part of the command after the nodes' own
    local node code=0 pids=()
    for node in 0 1; do
        "$cluster" exec $node "${torchrun[@]}" --nnodes 2 --node_rank $node --master_addr 10.77.0.1 --master_port 29511 \
            --nproc_per_node 2 --no_python "$@" &
        pids+=($!)
    done
    for node in 0 1; do wait "${pids[node]}" || code=$?; done
    return $code
}
if [ $failed = 0 ]; then
    cluster_up
    export -f on_two_hosts
    export cluster
    two=(bash -c "$(declare -p torchrun); on_two_hosts \"\$@\"" two)
    # Each start of torchrun takes seconds.
    if [[ ${TUTTI_LONG:-} == 1 ]]; then
        expect_hello 3 "${here[@]}"
        expect 4 'torchrun, local [01] of 2, service none' "${two[@]}" "$rank" rank
        expect_perf 4 "${two[@]}"
    fi
    expect_hello 4 "${two[@]}"
    ! grep -iE 'store|magic' "$work/output" || complain "torch's store is left alone" hello
    cluster_expect_quiet
fi
exit $failed
