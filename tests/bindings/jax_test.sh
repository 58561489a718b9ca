#!/bin/bash
# JAX programs run over Tutti: collectives of all kinds between processes, errors that name who died, what enable() refuses, examples.
# ctest: label=nosan label=once timeout=900 needs=wheel
# shellcheck source=tests/bindings/jax.sh
source "${TUTTI_ROOT:?}/tests/bindings/jax.sh"

tests=$TUTTI_ROOT/bindings/jax/tests
"$jax_python" "$tests/enable_test.py"
tutti-run -n 2 --no-prefix "$jax_python" "$tests/collectives_test.py"
tutti-run -n 2 --no-prefix "$jax_python" "$tests/exit_test.py"
"$jax_python" "$tests/failures_test.py"
if [[ ${TUTTI_LONG:-} == 1 ]]; then
    tutti-run -n 2 --no-prefix "$jax_python" "$tests/collectives_test.py" 2
    tutti-run -n 4 --no-prefix "$jax_python" "$tests/collectives_test.py"
    "$jax_python" "$tests/failures_test.py" 4
fi

# The examples train, and to the same losses as over gloo.
for example in data_parallel tensor_parallel; do
    for collectives in tutti gloo; do
        tutti-run -n 2 --no-prefix "$jax_python" "$TUTTI_ROOT/examples/jax/$example.py" --collectives "$collectives" >"$work/said" \
            2>"$work/log" || { cat "$work/log"; exit 1; }
        grep '^step' "$work/said" >"$work/$collectives" # gloo says things of its own there
    done
    paste -d ' ' "$work/tutti" "$work/gloo" | awk -v example="$example" '
        { half = NF / 2; mine = $4; theirs = $(half + 4) }
        (mine - theirs) ^ 2 > (1e-4 * theirs) ^ 2 { print example " differs:", $0; failed = 1 }
        NR == 1 { first = mine }
        END { if (NR < 20 || !(mine < 0.5 * first)) { print example " does not train:", first, mine; failed = 1 } exit failed }'
done
