"""Runs scripts one after the other in each rank: run_scripts.py BACKEND SCRIPT[:OPTION]..., under torchrun.

Each has the command line "--backend BACKEND OPTION" and is a child of this process, which has imported PyTorch for all of
them. Lines of output begin with the script's name.
"""

import builtins
import os
import runpy
import sys
import traceback
import warnings

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as distributed_c10d


def run(script, backend):
    path, _, option = script.partition(":")
    name = os.path.basename(path)
    own_print = builtins.print
    builtins.print = lambda *what, **how: own_print(f"{name}:", *what, flush=True)
    sys.argv = [path, "--backend", backend, *option.split()]
    runpy.run_path(path, run_name="__main__")


def apart(number):
    """Groups of one script do not meet those of another one in torchrun's store."""
    own = distributed_c10d.rendezvous

    def rendezvous(*arguments, **named):
        for store, rank, size in own(*arguments, **named):
            yield dist.PrefixStore(str(number), store), rank, size

    distributed_c10d.rendezvous = rendezvous


def main():
    backend, scripts = sys.argv[1], sys.argv[2:]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if backend == "tutti":
        import tutti_torch

        tutti_torch.register()  # from a source tree, where nothing is installed
    for number, script in enumerate(scripts):
        child = os.fork()
        if child == 0:
            try:
                apart(number)
                run(script, backend)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"{script} failed with {backend}")


if __name__ == "__main__":
    main()
