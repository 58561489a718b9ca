"""Every rank has a gradient, every rank gets their average, while it computes something else.

    tutti-run -n 4 python3 examples/numpy_allreduce.py
"""

import numpy as np

import tutti


def main() -> None:
    with tutti.init(timeout=30) as comm:  # rank and size from the launcher
        gradient = tutti.empty(1_000_000)  # memory that the other ranks read in place
        gradient[:] = comm.rank

        with comm.allreduce_start(gradient, out=gradient, op="avg"):
            loss = np.array(1.0 / (comm.rank + 1))  # whatever there is to compute meanwhile

        worst = comm.allreduce(loss, op="max")
        ranks = comm.allgather(np.array(comm.rank))
        print(f"rank {comm.rank} of {comm.size}: average {gradient[0]:g}, worst loss {worst:g}, ranks {ranks}")


if __name__ == "__main__":
    main()
