#!/bin/bash
# slurm_test.sh - ranks that srun starts: a whole Slurm with two nodes, each on an emulated host, without
# systemd and with all its files in a temporary folder.
# ctest: label=nosan label=once timeout=300 waits
PATH=$PATH:/usr/sbin:/sbin
# shellcheck source=tests/startup/launchers.sh
source "${TUTTI_ROOT:?}/tests/startup/launchers.sh"
for program in slurmctld slurmd srun munged; do
    command -v $program >/dev/null || skip "$program is not here (slurmctld, slurmd, slurm-client, munge)"
done
cluster_up
cd "$work" || exit 1
name=$CLUSTER_PREFIX

# The nodes share this machine's /tmp, where PMIx's files of both would have one name: TmpFS. Only srun's tasks are to
# be asked about, not how they are fenced in: no cgroups, no affinity.
mkdir state spool.$name-h{0,1} tmp.$name-h{0,1}
cat >slurm.conf <<CONF
ClusterName=tutti
SlurmctldHost=$name-h0(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool.%n
TmpFS=$work/tmp.%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=2
NodeName=$name-h0 NodeAddr=10.77.0.1 CPUs=4 RealMemory=1000
NodeName=$name-h1 NodeAddr=10.77.0.2 CPUs=4 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP
CONF
echo CgroupPlugin=cgroup/v1 >cgroup.conf
export SLURM_CONF=$work/slurm.conf
(umask 077 && head -c 128 /dev/urandom >key)

"${host0[@]}" munged --foreground --force --socket="$work/munge.socket" --key-file="$work/key" --log-file="$work/munge.log" \
    --pid-file="$work/munge.pid" --seed-file="$work/seed" >munged.out 2>&1 </dev/null &
tenths=100
until [ -S munge.socket ] || ((tenths-- == 0)); do sleep 0.1; done
"${host0[@]}" slurmctld -D -i -f slurm.conf >slurmctld.out 2>&1 </dev/null &
"${host0[@]}" slurmd -D -f slurm.conf -N "$name-h0" >slurmd0.out 2>&1 </dev/null &
"${host1[@]}" slurmd -D -f slurm.conf -N "$name-h1" >slurmd1.out 2>&1 </dev/null &
tenths=300
until [ "$("${host0[@]}" sinfo -h -t idle -o %D 2>/dev/null)" = 2 ]; do
    if ((tenths-- == 0)); then
        echo "failed: Slurm does not start:"
        tail -n 20 ./*.out ./*.log
        exit 1
    fi
    sleep 0.1
done

one=("${host0[@]}" srun -N 1 -n 3)
two=("${host0[@]}" srun -N 2 -n 4 --ntasks-per-node 2)
means=$("${host0[@]}" srun --mpi=list 2>&1)
expect 3 'Slurm, local [0-2] of 3, service none' "${one[@]}" "$rank" rank
expect_hello 3 "${one[@]}" --mpi=none
expect_perf 3 "${one[@]}"
refuse 'TUTTI_RENDEZVOUS_DIR' "${two[@]}" --mpi=none "$bin/hello"
MASTER_ADDR=10.77.0.1 MASTER_PORT=29512 expect 4 'Slurm, local [01] of 2, service none' "${two[@]}" "$rank" rank
mkdir folder
TUTTI_RENDEZVOUS_DIR=$work/folder expect 4 'Slurm, local [01] of 2, service none' "${two[@]}" "$rank" rank folder
if [[ $means == *pmi2* ]]; then
    expect 3 'Slurm, local [0-2] of 3, service pmi1' "${one[@]}" --mpi=pmi2 "$rank" rank pmi1
    expect 4 'Slurm, local [01] of 2, service pmi1' "${two[@]}" --mpi=pmi2 "$rank" rank pmi1
    expect_hello 4 "${two[@]}" --mpi=pmi2
    expect_perf 4 "${two[@]}" --mpi=pmi2
else
    echo "skipped: this srun has no --mpi=pmi2"
fi
if [[ $means != *pmix* ]]; then
    echo "skipped: this srun has no --mpi=pmix"
elif grep -q '^PMIX_INCLUDE_DIR:PATH=/' "${TUTTI_BUILD:?}/CMakeCache.txt"; then
    expect 3 'Slurm, local [0-2] of 3, service pmix' "${one[@]}" --mpi=pmix "$rank" rank pmix
    expect 4 'Slurm, local [01] of 2, service pmix' "${two[@]}" --mpi=pmix "$rank" rank pmix
    expect_hello 4 "${two[@]}" --mpi=pmix
    expect_perf 4 "${two[@]}" --mpi=pmix
else
    echo "skipped: PMIx's header is not here (libpmix-dev)"
fi
# The only task that srun starts may be a shell, in which one says how many ranks there are to be.
if ! launch "${host0[@]}" srun -n 1 "$bin/tutti-perf" barrier --ranks 2 -w 1 -n 3 || ! grep -q '2 ranks (processes)' "$work/output"; then
    complain "two ranks of its own are expected" srun -n 1 tutti-perf --ranks 2
fi
# A rank that is not there ends the others' wait.
# shellcheck disable=SC2016
TUTTI_INIT_TIMEOUT=1s MASTER_ADDR=10.77.0.1 MASTER_PORT=29513 refuse 'rank 2' \
    "${two[@]}" sh -c '[ $SLURM_PROCID != 2 ] || exit 3; exec "$0"' "$bin/hello"

# The script that users start with, as a batch job: its output is in $work/job.
batch=$(realpath "${TUTTI_ROOT:?}/share/slurm/ddp.sbatch")
submit() {
    : >job
    launch "${host0[@]}" sbatch --wait --output="$work/job" "$@"
}
batch_fails() { # why, what was submitted
    complain "$1; the job said: $(cat job)" sbatch "${@:2}"
}
submit "$batch" "$rank" rank || batch_fails "a job that ends well is expected" "$batch" "$rank" rank
if (($(grep -cE 'of 4 by environment, local [01] of .*: fine' job) != 4)) || grep -q 'TUTTI_SECRET' job; then
    batch_fails "four ranks with a secret are expected" "$batch" "$rank" rank
fi
submit --ntasks-per-node=1 "$batch" "$bin/hello" || batch_fails "a job that ends well is expected" "$batch" hello
if (($(grep -cE '^rank [01] of 2 .* and got 3 6 9$' job) != 2)); then batch_fails "two sums are expected" "$batch" hello; fi
# shellcheck disable=SC2016
if TUTTI_INIT_TIMEOUT=1s submit "$batch" sh -c '[ $RANK != 2 ] || exit 3; exec "$0"' "$bin/hello" || ! grep -q 'rank 2' job; then
    batch_fails "an error that names rank 2 is expected" "$batch"
fi
if submit "$batch" || ! grep -q 'usage: sbatch' job; then batch_fails "the usage is expected" "$batch"; fi
left=$(compgen -G "$work/.tutti-secret*")
if [[ $left ]]; then
    echo "failed: the batch script leaves $left"
    failed=1
fi
cluster_expect_quiet '^(munged|slurmd|slurmctld|.*slurmscriptd.*)$'
left=$(find "$work/folder" -mindepth 1)
if [[ $left ]]; then
    echo "failed: left behind: $left"
    failed=1
fi
exit $failed
