#!/bin/bash
# mpirun_hosts_test.sh - ranks that the mpirun of Open MPI and that of MPICH start on two emulated hosts find each
# other through PMIx and PMI-1: nothing else says where they are.
# ctest: label=nosan label=once timeout=300 waits
# shellcheck source=tests/startup/launchers.sh
source "${TUTTI_ROOT:?}/tests/startup/launchers.sh"
found=0
command -v mpirun.openmpi >/dev/null || command -v mpirun.mpich >/dev/null ||
    skip "neither Open MPI nor MPICH is here (openmpi-bin, mpich)"
cluster_up

if launchers_here mpirun.openmpi openmpi-bin; then
    if grep -q '^PMIX_INCLUDE_DIR:PATH=/' "${TUTTI_BUILD:?}/CMakeCache.txt"; then
        found=1
        "$cluster" hostfile | sed 's/$/ slots=2/' >"$work/openmpi"
        mpirun=("${host0[@]}" mpirun.openmpi --hostfile "$work/openmpi" -n 4 --bind-to none --mca plm_rsh_agent "$work/rsh"
            --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include eth0)
        expect 4 'Open MPI, local [01] of 2, service pmix' "${mpirun[@]}" "$rank" rank pmix
        expect_hello 4 "${mpirun[@]}"
        expect_perf 4 "${mpirun[@]}"
        # mpirun ends the others, who wait for one that has gone.
        # shellcheck disable=SC2016
        refuse 'non-zero exit code' "${mpirun[@]}" sh -c '[ $OMPI_COMM_WORLD_RANK != 2 ] || exit 3; exec "$0"' "$bin/hello"
        cluster_expect_quiet
    else
        echo "skipped: PMIx's header is not here (libpmix-dev)"
    fi
fi

if launchers_here mpirun.mpich mpich; then
    found=1
    "$cluster" hostfile | sed 's/$/:2/' >"$work/mpich"
    mpirun=("${host0[@]}" mpirun.mpich -launcher ssh -launcher-exec "$work/rsh" -f "$work/mpich" -iface eth0 -n 4)
    expect 4 'MPICH, local [01] of 2, service pmi1' "${mpirun[@]}" "$rank" rank pmi1
    expect_hello 4 "${mpirun[@]}"
    expect_perf 4 "${mpirun[@]}"
    # For Hydra a rank that never spoke PMI has not failed: the others' deadline ends it.
    # shellcheck disable=SC2016
    TUTTI_INIT_TIMEOUT=2s refuse 'INIT_TIMEOUT' "${mpirun[@]}" sh -c '[ $PMI_RANK != 2 ] || exit 3; exec "$0"' "$bin/hello"
    cluster_expect_quiet
fi
((found)) || exit 77
exit $failed
