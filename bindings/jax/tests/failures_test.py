"""What the processes of a job are told when one of them fails, in Python, before anybody waits for a deadline.

    python failures_test.py [PROCESSES]

A process is killed: the others get an error that names it. It is the last one, because JAX itself ends all processes at once when
process 0, its coordinator, is gone. And where processes have different numbers of devices, all of them get the reason.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time

CALLS_BEFORE = 20


def work(what):
    """A process of the job."""
    import tutti_jax

    tutti_jax.enable()
    import jax

    if what == "uneven":
        jax.config.update("jax_num_cpu_devices", 1 + int(os.environ["RANK"]) % 2)
    tutti_jax.initialize()
    import numpy as np
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("x",))
    data = np.ones((jax.device_count(), 1000), np.float32)
    array = jax.make_array_from_callback(data.shape, NamedSharding(mesh, P("x")), lambda index: data[index])
    total = jax.jit(jax.shard_map(lambda a: jax.lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))
    try:
        for call in range(10**9):
            if what == "death" and call == CALLS_BEFORE and jax.process_index() == jax.process_count() - 1:
                print("dies", time.monotonic(), flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            total(array).block_until_ready()
    except Exception as error:
        print("told", time.monotonic(), type(error).__name__, str(error), flush=True)
    os._exit(0)  # jax.distributed would wait for the one that is gone


def start(what, count):
    """The processes of a job, and what each has said until its end."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    processes = []
    for rank in range(count):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        command = [sys.executable, os.path.abspath(__file__), "work", what]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    return processes, [process.communicate(timeout=300) for process in processes]


def check_told(said, wanted):
    """The time at which a process got an error with that text."""
    told = re.match(r"told (\S+) (\w+) (.*)", said[0], re.S)
    assert told and told[2] == "JaxRuntimeError" and re.search(wanted, told[3]), said
    return float(told[1])


def test_a_death_is_told_with_the_culprit(count):
    processes, said = start("death", count)
    died = re.fullmatch(r"dies (\S+)\n", said[-1][0])
    assert died and processes[-1].returncode == -signal.SIGKILL, said[-1]
    wanted = (
        r"MPI error: MPI_Allreduce: PROC_FAILED: allreduce\(count 1000, float32, sum\) #\d+: "
        rf"rank {count - 1} \(host \S+, pid {processes[-1].pid}\) died"
    )
    for rank in range(count - 1):
        print(f"process {rank} was told after {check_told(said[rank], wanted) - float(died[1]):.3f} s")


def test_different_numbers_of_devices_are_refused(count):
    _, said = start("uneven", count)
    for one in said:
        check_told(one, "process 1 has 2 devices, and process 0 has 1: they must have equally many")


def main(count):
    test_a_death_is_told_with_the_culprit(count)
    test_different_numbers_of_devices_are_refused(count)


if sys.argv[1:2] == ["work"]:
    work(sys.argv[2])
else:
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
