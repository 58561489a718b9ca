#!/bin/bash
# TensorFlow programs run over Tutti: operations in any order, a strategy with the losses of TensorFlow's own transport, deaths with a name.
# ctest: label=nosan label=once timeout=900 needs=wheel
# shellcheck source=tests/bindings/tensorflow.sh
source "${TUTTI_ROOT:?}/tests/bindings/tensorflow.sh"

tests=$TUTTI_ROOT/bindings/tensorflow/tests
run=(tutti-run --no-prefix)
quietly() { "$@" 2>"$work/log" || { cat "$work/log"; return 1; }; }

quietly "${run[@]}" -n 3 "${forked[@]}" "$tests/operations_test.py"
if [[ ${TUTTI_LONG:-} == 1 ]]; then
    for ranks in 1 2 4; do quietly "${run[@]}" -n $ranks "${forked[@]}" "$tests/operations_test.py"; done
fi

# Without a launcher: the workers of a TF_CONFIG. Ports that were free a moment ago.
with_config() { # workers command...
    local count=$1 list='' pids=() port status=0
    shift
    for port in $("$tensorflow_python" -c "
import socket
held = [socket.socket() for _ in range($count)]
for one in held: one.bind(('127.0.0.1', 0))
print(*(one.getsockname()[1] for one in held))"); do list+="${list:+, }\"127.0.0.1:$port\""; done
    for ((index = 0; index < count; index++)); do
        TF_CONFIG="{\"cluster\": {\"worker\": [$list]}, \"task\": {\"type\": \"worker\", \"index\": $index}}" "$@" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || status=1; done
    return $status
}

# The same losses, bit by bit. With Tutti the import of TensorFlow is the program's own, as it comes after enable().
quietly "${run[@]}" -n 2 "$tensorflow_python" "$tests/strategy_test.py" >"$work/launched"
if grep PROC_FAILED "$work/log"; then echo "above: what a good end says"; exit 1; fi
quietly with_config 2 "${forked[@]}" "$tests/strategy_test.py" grpc >"$work/grpc"
cmp "$work/launched" "$work/grpc" || { cat "$work/launched" "$work/grpc"; exit 1; }
[[ $(wc -w <"$work/launched") == 4 ]] || { echo "no losses:"; cat "$work/launched"; exit 1; }

quietly "${forked[@]}" "$tests/enable_test.py"
example=$TUTTI_ROOT/examples/tensorflow/multi_worker.py
quietly with_config 2 "${forked[@]}" "$example" >"$work/example"
awk '$1 == "step" { if (!n++) first = $4; last = $4 } END { exit !(n > 2 && last < 0.2 * first) }' "$work/example" ||
    { echo "the example does not train:"; cat "$work/example"; exit 1; }

# tutti-run ends the others when one dies: they are started by hand.
with_ranks() { # ranks victim command...
    local count=$1 victim=$2 pids=() status=0
    shift 2
    for ((rank = 0; rank < count; rank++)); do
        RANK=$rank WORLD_SIZE=$count MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$@" >"$work/said$rank" 2>"$work/log$rank" &
        pids+=($!)
    done
    for ((rank = 0; rank < count; rank++)); do
        if wait "${pids[rank]}"; then continue; fi
        if ((rank != victim)); then cat "$work/said$rank" "$work/log$rank"; status=1; fi
    done
    return $status
}
port=$("$tensorflow_python" -c 'import socket; one = socket.socket(); one.bind(("127.0.0.1", 0)); print(one.getsockname()[1])')
with_ranks 3 1 "${forked[@]}" "$tests/death_test.py"
cat "$work"/said[02]
