"""python -m tutti_jax [-m MODULE | PROGRAM] ARGUMENTS...: runs a program of JAX, as it is, over Tutti."""

import sys

from tutti._program import read_program, run_program

from . import UnknownVersion, enable

_USAGE = "usage: python -m tutti_jax PROGRAM.py ARGUMENTS...\n       python -m tutti_jax -m MODULE ARGUMENTS..."


def main() -> None:
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(_USAGE)
        return
    program = read_program(sys.argv[1:])
    if program is None:
        sys.exit(_USAGE)
    try:
        enable()
    except (UnknownVersion, ImportError) as error:
        sys.exit(f"tutti_jax: {error}")
    run_program(*program)


main()
