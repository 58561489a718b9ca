#!/bin/bash
# launchers_test.sh - ranks started by the launchers that are here make a communicator, add up, and exchange keys over
# what the launcher offers.  Says which launchers are missing; exits with 77 when all foreign ones are.
# ctest: label=notsan timeout=300
set -uo pipefail

rank=${TUTTI_BUILD:?}/tests/tests_launched_test
run=${TUTTI_BIN:?}/tutti-run
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
foreign=0

export TUTTI_TIMEOUT=30s TUTTI_INIT_TIMEOUT=30s
export ASAN_OPTIONS=detect_leaks=0 # the launchers' libraries have some
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# What this test was itself started by must not be read as the launcher.
for variable in $(compgen -e | grep -E '^(TUTTI_(RANK|SIZE|JOB_ID|PODS|RANKS_PER_POD)|RANK|WORLD_SIZE|LOCAL_.*|PET_.*)$'); do
    unset "$variable"
done
for variable in $(compgen -e | grep -E '^(OMPI_COMM|PMIX?_|SLURM_|FLUX_|TORCHELASTIC_|JOB_COMPLETION_INDEX|TUTTI_REND)'); do
    unset "$variable"
done

# expect NUMBER WORDS COMMAND...: ends well, and NUMBER ranks say WORDS.
expect() {
    local number=$1 words=$2
    shift 2
    if ! timeout -k 5 100 "$@" >"$work/output" 2>&1 </dev/null ||
        (($(grep -cE "of $number by $words: fine" "$work/output") != number)); then
        echo "failed: $*"
        echo "  $number lines with '$words' are expected:"
        sed 's/^/  /' "$work/output"
        failed=1
    fi
}

# refuse WORDS COMMAND...: does not end well, and says WORDS.
refuse() {
    local words=$1
    shift
    if timeout -k 5 100 "$@" >"$work/output" 2>&1 </dev/null || ! grep -qF "$words" "$work/output"; then
        echo "failed: $*"
        echo "  '$words' is expected:"
        sed 's/^/  /' "$work/output"
        failed=1
    fi
}

here() {
    if command -v "$1" >/dev/null; then
        foreign=$((foreign + 1))
        return 0
    fi
    echo "skipped: $1 is not here ($2)"
    return 1
}

mkdir "$work/folder"

expect 3 'tutti-run, local [0-2] of 3, service none' "$run" -n 3 --no-prefix "$rank" rank
TUTTI_RENDEZVOUS_DIR=$work/folder expect 3 'tutti-run, .*' "$run" -n 3 --no-prefix "$rank" rank folder

if here mpirun.openmpi openmpi-bin; then
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
    # An inner torchrun, as its variables show it.
    # shellcheck disable=SC2016
    expect 2 'torchrun, .*, service none' "${mpirun[@]}" -n 2 sh -c '
        export RANK=$((1 - OMPI_COMM_WORLD_RANK)) WORLD_SIZE=2 TORCHELASTIC_RUN_ID=7; exec "$0" rank' "$rank"
fi

if here mpirun.mpich mpich; then
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
    # In the shell of a Slurm job.
    SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=5 expect 2 'MPICH, .*' mpirun.mpich -n 2 "$rank" rank
    # Two jobs at once have different names, though nothing in their environment differs.
    expect 2 'MPICH, .*' mpirun.mpich -n 2 "$rank" rank >"$work/first" &
    expect 2 'MPICH, .*' mpirun.mpich -n 2 "$rank" rank pmi1
    wait
    if [[ -s $work/first ]]; then cat "$work/first"; failed=1; fi
fi

if here torchrun python3-torch; then
    cat >"$work/start.py" <<'PYTHON'
import subprocess, sys
sys.exit(subprocess.call(sys.argv[1:]))
PYTHON
    expect 2 'torchrun, local [01] of 2, service none' \
        torchrun --standalone --nproc-per-node 2 "$work/start.py" "$rank" rank
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
