"""What tutti_jax.enable() does and refuses, each case in a process of its own, and `python -m tutti_jax`. Needs no other process."""

import os
import subprocess
import sys
import tempfile


def run(program, *arguments, expect=0, **environment):
    """Runs a program, and returns what it says."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, env={**os.environ, **environment}, timeout=300
    )
    said = done.stdout + done.stderr
    assert done.returncode == expect, f"status {done.returncode}:\n{said}"
    return said


def test_it_sets_what_jax_asks_for_and_leaves_the_environment_alone():
    said = run(
        "import os, tutti_jax; tutti_jax.enable(); tutti_jax.enable(); import jax;"
        "print(jax.config.jax_cpu_collectives_implementation, os.environ.get('MPITRAMPOLINE_LIB'));"
        "print('mapped' if any('libtutti_jax.so' in line for line in open('/proc/self/maps')) else 'not mapped')"
    )
    assert said.splitlines()[-2:] == ["mpi None", "mapped"], said


def test_importing_it_loads_neither_jax_nor_tutti():
    said = run("import sys, tutti_jax; print('jax' in sys.modules, 'tutti' in sys.modules, 'numpy' in sys.modules)")
    assert said.split() == ["False", "False", "False"], said


def test_jax_before_it_is_refused():
    said = run("import jax, tutti_jax; tutti_jax.enable()", expect=1)
    assert "RuntimeError: jax was imported before tutti_jax.enable()" in said and "python -m tutti_jax" in said, said


def test_one_process_needs_no_tutti():
    said = run("import tutti_jax; tutti_jax.enable(); import jax.numpy as jnp; print(jnp.arange(4).sum())")
    assert "6" in said.splitlines(), said


# A jaxlib that nobody has tried is loaded by another process first. Here it says and does what each case needs.
_PRETEND = "import tutti_jax._versions as v; v.installed = lambda: '99.1'; v._TRY = {child!r}; import tutti_jax; tutti_jax.enable(); print('enabled')"
_SAYS = "import sys; print('[MPItrampoline] Requiring MPI ABI version {abi}', file=sys.stderr); "


def test_an_untried_version_with_this_abi_is_taken():
    said = run("import tutti_jax._versions as v; v.installed = lambda: '99.1'; import tutti_jax; tutti_jax.enable(); print('enabled')")
    assert said.splitlines()[-1] == "enabled", said


def test_another_abi_is_refused_by_name():
    for abi in ("3.0.0", "2.10.0", "1.9.0"):
        child = _SAYS.format(abi=abi) + "print('loaded')"
        said = run(_PRETEND.format(child=child), expect=1)
        assert f"UnknownVersion: jaxlib 99.1 wants version {abi} of MPItrampoline's ABI. Tutti has the ABI 2.9.0" in said, said
    said = run(_PRETEND.format(child=_SAYS.format(abi="2.8.0") + "print('loaded')"))
    assert said.splitlines()[-1] == "enabled", said


def test_a_version_that_ends_its_process_is_refused():
    child = _SAYS.format(abi="2.9.7") + "print('no symbol MPIABI_New', file=sys.stderr); sys.exit(1)"
    said = run(_PRETEND.format(child=child), expect=1)
    assert "jaxlib 99.1 wants version 2.9.7 of MPItrampoline's ABI and ends with status 1: no symbol MPIABI_New" in said, said
    said = run(_PRETEND.format(child="print('loaded')"), expect=1)
    assert "UnknownVersion: jaxlib 99.1 has no MPItrampoline" in said, said


def test_programs_as_they_are():
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "program.py")
        with open(os.path.join(folder, "beside.py"), "w", encoding="utf-8") as file:
            file.write("name = 'beside'\n")
        with open(program, "w", encoding="utf-8") as file:
            file.write(
                "import sys, beside, jax\nprint(__name__, sys.argv[1:], beside.name, jax.config.jax_cpu_collectives_implementation)\n"
            )
        for arguments, where in (([program], None), (["-m", "program"], folder)):
            done = subprocess.run(
                [sys.executable, "-m", "tutti_jax", *arguments, "-x", "1"], cwd=where, capture_output=True, text=True, timeout=300
            )
            assert done.stdout.strip() == "__main__ ['-x', '1'] beside mpi", done.stdout + done.stderr
    done = subprocess.run([sys.executable, "-m", "tutti_jax"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and done.stderr.startswith("usage: python -m tutti_jax"), done.stderr


def main():
    tests = [function for name, function in globals().items() if name.startswith("test_")]
    for test in tests:
        test()
    print(f"{len(tests)} tests passed")


main()
