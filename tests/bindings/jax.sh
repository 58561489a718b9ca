# jax.sh - what tests of JAX over Tutti share: the environment of tests/bindings/wheel.sh, with a Python that has JAX.
# shellcheck shell=bash
# shellcheck source=tests/bindings/wheel.sh
source "${TUTTI_ROOT:?}/tests/bindings/wheel.sh"

jax_python=
for candidate in ${TUTTI_JAX_PYTHON:+"$TUTTI_JAX_PYTHON"} "$python" python3; do
    if [[ -z $jax_python ]] && "$candidate" -W ignore -c 'import jax, jaxlib, numpy' 2>/dev/null; then jax_python=$candidate; fi
done
if [[ -z $jax_python ]]; then wheel_skip "no python3 with jax is here (a large download: ./check --jax installs it)"; fi
# The packages of the wheel alone: all others are the other Python's.
mkdir "$work/packages"
ln -s "$wheel"/venv/lib/python3*/site-packages/{tutti,tutti_jax,tutti_comm-*.dist-info} "$work/packages/"
export PYTHONPATH=$work/packages JAX_PLATFORMS=cpu TF_CPP_MIN_LOG_LEVEL=2
unset XLA_FLAGS JAX_NUM_CPU_DEVICES JAX_CPU_COLLECTIVES_IMPLEMENTATION MPITRAMPOLINE_LIB
# What XLA compiles need not be fast, and collectives are not what it compiles.
if [[ ${TUTTI_LONG:-} != 1 ]]; then export XLA_FLAGS=--xla_backend_optimization_level=0; fi
"$jax_python" -c 'import jax, sys; print("JAX", jax.__version__, "with Python", sys.version.split()[0])'
