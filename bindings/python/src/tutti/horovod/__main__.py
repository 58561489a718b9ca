"""python -m tutti.horovod [-m] PROGRAM [ARGUMENTS]: runs a program that uses Horovod, over Tutti."""

from __future__ import annotations

import os
import sys

from .._program import read_program, run_program
from ._alias import install

_USAGE = """usage: python -m tutti.horovod PROGRAM.py [ARGUMENT ...]
       python -m tutti.horovod -m MODULE [ARGUMENT ...]

Runs a program in which `import horovod.torch`, `horovod.tensorflow` and `horovod.keras` find Tutti in place of Horovod.
Each rank is such a process:
    tutti-run -n 4 python3 -m tutti.horovod train.py"""


def main() -> None:
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(_USAGE)
        return
    program = read_program(sys.argv[1:])
    if program is None:
        print(_USAGE, file=sys.stderr)
        raise SystemExit(2)
    install()
    # Processes that the program starts, such as those that load data, are to find it, too.
    shim = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shim")
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = shim if not others else shim + os.pathsep + others
    run_program(*program)


if __name__ == "__main__":
    main()
