"""A process of a job is killed: the others get an error in Python that names it, and say so before anybody waits for a deadline.

    python death_test.py [PROCESSES]

The last process dies, because JAX itself ends all processes at once when process 0, its coordinator, is gone.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time

CALLS_BEFORE = 20


def work():
    """A process of the job."""
    import tutti_jax

    tutti_jax.initialize()
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("x",))
    data = np.ones((jax.device_count(), 1000), np.float32)
    array = jax.make_array_from_callback(data.shape, NamedSharding(mesh, P("x")), lambda index: data[index])
    total = jax.jit(jax.shard_map(lambda a: jax.lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))
    try:
        for call in range(10**9):
            if call == CALLS_BEFORE and jax.process_index() == jax.process_count() - 1:
                print("dies", time.monotonic(), flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            total(array).block_until_ready()
    except Exception as error:
        print("told", time.monotonic(), type(error).__name__, str(error), flush=True)
    os._exit(0)  # jax.distributed would wait for the one that is gone


def main(count):
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    processes = []
    for rank in range(count):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        command = [sys.executable, os.path.abspath(__file__), "work"]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=300) for process in processes]
    died = re.fullmatch(r"dies (\S+)\n", said[-1][0])
    assert died and processes[-1].returncode == -signal.SIGKILL, said[-1]
    wanted = rf"MPI error: MPI_Allreduce: PROC_FAILED: allreduce\(count 1000, float32, sum\) #\d+: rank {count - 1} \(host \S+, pid {processes[-1].pid}\) died"
    for rank in range(count - 1):
        told = re.match(r"told (\S+) (\w+) (.*)", said[rank][0])
        assert told and told[2] == "JaxRuntimeError" and re.search(wanted, told[3]), said[rank]
        print(f"process {rank} was told after {float(told[1]) - float(died[1]):.3f} s")


if sys.argv[1:] == ["work"]:
    work()
else:
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
