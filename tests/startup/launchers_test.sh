#!/bin/bash
# launchers_test.sh - ranks that mpirun and tutti-run start on this host make a communicator, add up, and exchange keys
# over what the launcher offers. Says which launchers are missing; exits with 77 when all foreign ones are. The others,
# and several hosts, are in mpirun_hosts_test.sh, slurm_test.sh and torchrun_test.sh.
# ctest: label=longsan label=notsan timeout=300 waits
# shellcheck source=tests/startup/launchers.sh
source "${TUTTI_ROOT:?}/tests/startup/launchers.sh"
run=$bin/tutti-run
foreign=0

mkdir "$work/folder"

expect 3 'tutti-run, local [0-2] of 3, service none' "$run" -n 3 --no-prefix "$rank" rank
TUTTI_RENDEZVOUS_DIR=$work/folder expect 3 'tutti-run, .*' "$run" -n 3 --no-prefix "$rank" rank folder

if launchers_here mpirun.openmpi openmpi-bin; then
    foreign=1
    mpirun=(mpirun.openmpi --oversubscribe)
    expect 3 'Open MPI, local [0-2] of 3, service pmix' "${mpirun[@]}" -n 3 "$rank" rank
    TUTTI_RENDEZVOUS_DIR=$work/folder expect 2 'Open MPI, .*' \
        "${mpirun[@]}" -x TUTTI_RENDEZVOUS_DIR -n 2 "$rank" rank folder
    if grep -q '^PMIX_INCLUDE_DIR:PATH=/' "$TUTTI_BUILD/CMakeCache.txt"; then
        expect 3 'Open MPI, .*' "${mpirun[@]}" -n 3 "$rank" rank pmix
        expect 1 'Open MPI, .*' "${mpirun[@]}" -n 1 "$rank" rank pmix
        for how in late before within; do
            expect 2 'Open MPI, .*' "${mpirun[@]}" -n 2 "$rank" rank pmix $how
        done
    else
        echo "skipped: PMIx's header is not here (libpmix-dev)"
        refuse 'built without PMIx' "${mpirun[@]}" -n 2 "$rank" rank pmix
    fi
    expect_perf 3 "${mpirun[@]}" -n 3
    # An inner torchrun, as its variables show it.
    # shellcheck disable=SC2016
    expect 2 'torchrun, .*, service none' "${mpirun[@]}" -n 2 sh -c '
        export RANK=$((1 - OMPI_COMM_WORLD_RANK)) WORLD_SIZE=2 TORCHELASTIC_RUN_ID=7; exec "$0" rank' "$rank"
fi

if launchers_here mpirun.mpich mpich; then
    foreign=1
    expect 3 'MPICH, local [0-2] of 3, service pmi1' mpirun.mpich -n 3 "$rank" rank
    expect 3 'MPICH, .*' mpirun.mpich -n 3 "$rank" rank pmi1
    expect 1 'MPICH, .*' mpirun.mpich -n 1 "$rank" rank pmi1
    # A rank whose connection broke ends without a goodbye, and Hydra then ends the others.
    timeout -k 5 100 mpirun.mpich -n 2 "$rank" rank pmi1 late >"$work/output" 2>&1 </dev/null
    if ! grep -q 'rank 0 of 2 .*: fine' "$work/output"; then
        echo "failed: rank 0 did not give up waiting over PMI-1:"
        sed 's/^/  /' "$work/output"
        failed=1
    fi
    TUTTI_RENDEZVOUS_DIR=$work/folder expect 2 'MPICH, .*' mpirun.mpich -n 2 "$rank" rank folder
    expect_perf 3 mpirun.mpich -n 3
    # In the shell of a Slurm job.
    SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=5 expect 2 'MPICH, .*' mpirun.mpich -n 2 "$rank" rank
    # Two jobs at once have different names, though nothing in their environment differs.
    expect 2 'MPICH, .*' mpirun.mpich -n 2 "$rank" rank >"$work/first" &
    expect 2 'MPICH, .*' mpirun.mpich -n 2 "$rank" rank pmi1
    wait
    if [[ -s $work/first ]]; then cat "$work/first"; failed=1; fi
fi

# Several processes of a pod are not told apart by the pod's number.
refuse 'PET_NPROC_PER_NODE=auto' env PET_NPROC_PER_NODE=auto RANK=0 WORLD_SIZE=2 "$rank" rank
refuse 'TUTTI_RANKS_PER_POD' env JOB_COMPLETION_INDEX=0 TUTTI_PODS=2 "$rank" rank
refuse 'start the ranks with srun' env SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_ID=7 "$rank" rank

left=$(find "$work/folder" -mindepth 1)
if [[ $left ]]; then
    echo "left behind: $left"
    failed=1
fi
if ((failed == 0 && foreign == 0)); then exit 77; fi
exit $failed
