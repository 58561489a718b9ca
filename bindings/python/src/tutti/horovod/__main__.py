"""python -m tutti.horovod [-m] PROGRAM [ARGUMENTS]: runs a program that uses Horovod, over Tutti."""

from __future__ import annotations

import os
import runpy
import sys

_USAGE = """usage: python -m tutti.horovod PROGRAM.py [ARGUMENT ...]
       python -m tutti.horovod -m MODULE [ARGUMENT ...]

Runs a program in which `import horovod.torch` finds Tutti in place of Horovod. Each rank is such a process:
    tutti-run -n 4 python3 -m tutti.horovod train.py"""


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(_USAGE)
        return
    is_module = arguments[:1] == ["-m"]
    if is_module:
        arguments = arguments[1:]
    if not arguments or arguments[0].startswith("-"):
        print(_USAGE, file=sys.stderr)
        raise SystemExit(2)
    from . import install

    install()
    # Processes that the program starts, such as those that load data, are to find it, too.
    shim = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shim")
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = shim if not others else shim + os.pathsep + others
    sys.argv = arguments
    if is_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
