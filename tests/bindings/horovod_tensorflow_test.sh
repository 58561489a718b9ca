#!/bin/bash
# Programs that use Horovod with TensorFlow and Keras run over Tutti: every function, training to the losses of one process, and a death.
# ctest: label=nosan label=once timeout=900 needs=wheel
# shellcheck source=tests/bindings/tensorflow.sh
source "${TUTTI_ROOT:?}/tests/bindings/tensorflow.sh"

tests=$TUTTI_ROOT/bindings/python/tests/horovod_programs
horovod=("${forked[@]}" -W ignore -m tutti.horovod)
export TUTTI_TIMEOUT=60s TUTTI_INIT_TIMEOUT=120s

# Runs a program on so many ranks, and counts the lines that say that all is well.
expect() {
    local ranks=$1 count=$2 text=$3
    shift 3
    tutti-run -n "$ranks" "${horovod[@]}" "$@" >log 2>&1 || { cat log; return 1; }
    [[ $(grep -c "$text" log) == "$count" ]] || { cat log; echo "not $count times: $text"; return 1; }
}

expect 2 2 'all functions are right' "$tests/tensorflow_functions.py"
expect 2 2 'trained alike' "$tests/tensorflow_keras.py"
if [[ ${TUTTI_LONG:-} == 1 ]]; then
    for ranks in 1 3 4; do expect $ranks $ranks 'all functions are right' "$tests/tensorflow_functions.py"; done
    expect 2 2 'trained alike' "$tests/tensorflow_keras.py" tf-keras
fi

# The losses of two ranks are those of one process that has the joined batch.
example=$TUTTI_ROOT/examples/horovod/classifier.py
tutti-run -n 2 --no-prefix "${horovod[@]}" "$example" >two 2>log || { cat log; exit 1; }
"${horovod[@]}" "$example" >one 2>log || { cat log; exit 1; }
paste two one | awk '{ d = $4 - $8; worst = d > worst ? d : -d > worst ? -d : worst; if (NR == 1) first = $4 }
    END { exit !(NR == 7 && worst <= 2e-6 && $4 < 0.2 * first) }' || { echo "two ranks, and one:"; paste two one; exit 1; }

# A killed rank is the end of the job, so its status says nothing of the others.
tutti-run -n 3 "${horovod[@]}" "$tests/tensorflow_death.py" >log 2>&1 && { cat log; echo "the killed rank did not count"; exit 1; }
[[ $(grep -c 'the survivor has seen all' log) == 2 ]] || { cat log; exit 1; }
