# tensorflow.sh - what tests of TensorFlow over Tutti share: the environment of tests/bindings/wheel.sh, with a Python that has TensorFlow,
# and `forked`, which runs programs that have it from their start.
# shellcheck shell=bash
# shellcheck source=tests/bindings/wheel.sh
source "${TUTTI_ROOT:?}/tests/bindings/wheel.sh"

tensorflow_python=
for candidate in ${TUTTI_TENSORFLOW_PYTHON:+"$TUTTI_TENSORFLOW_PYTHON"} "$python" python3; do
    if [[ -z $tensorflow_python ]] &&
        "$candidate" -W ignore -c 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ("tensorflow", "tf_keras", "numpy"))))' 2>/dev/null; then
        tensorflow_python=$candidate
    fi
done
if [[ -z $tensorflow_python ]]; then wheel_skip "no python3 with tensorflow and tf_keras is here (a large download: ./check --tensorflow installs it)"; fi
# The packages of the wheel alone: all others are the other Python's.
mkdir "$work/packages"
ln -s "$wheel"/venv/lib/python3*/site-packages/{tutti,tutti_tensorflow,tutti_comm-*.dist-info} "$work/packages/"
export PYTHONPATH=$work/packages TF_CPP_MIN_LOG_LEVEL=3
unset TF_CONFIG
import_once "$tensorflow_python" tensorflow keras tf_keras
