"""python -m tutti_jax [-m MODULE | PROGRAM] ARGUMENTS...: runs a program of JAX, as it is, over Tutti."""

import os
import runpy
import sys

from . import UnknownVersion, enable

_USAGE = "usage: python -m tutti_jax PROGRAM.py ARGUMENTS...\n       python -m tutti_jax -m MODULE ARGUMENTS..."


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(_USAGE)
        return
    is_module = arguments[:1] == ["-m"]
    if is_module:
        del arguments[0]
    if not arguments or (arguments[0].startswith("-") and not is_module):
        sys.exit(_USAGE)
    try:
        enable()
    except (UnknownVersion, ImportError) as error:
        sys.exit(f"tutti_jax: {error}")
    sys.argv[:] = arguments
    if is_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
        runpy.run_path(arguments[0], run_name="__main__")


main()
