#!/bin/bash
# Ranks of a container whose time is limited to fewer CPUs than there are ranks leave them to each other.
# ctest: label=once timeout=120
set -u
TUTTI_BIN=${TUTTI_BIN:-build/bin}

if ! unshare -m true 2>/dev/null; then
    echo "mount namespaces cannot be made here"
    exit 77
fi

# Two ranks where control groups have that limit. Prints what they say of their cores.
run() { # "QUOTA PERIOD"
    LIMIT=$1 TUTTI_LOG=info unshare -m bash -c '
        mount -t tmpfs none /sys/fs/cgroup && echo "$LIMIT" >/sys/fs/cgroup/cpu.max &&
            "$0" -n 2 --no-prefix "$1" allreduce --sizes 8 --time 0.01' \
        "$TUTTI_BIN/tutti-run" "$TUTTI_BIN/tutti-perf" 2>&1 || echo "failed"
}

failures=0
expect() { # WHAT COUNT TEXT
    local found
    found=$(grep -c "more ranks than cores" <<<"$3")
    if grep -q failed <<<"$3" || { [ "$2" = 0 ] && [ "$found" -gt 0 ]; } || { [ "$2" = 1 ] && [ "$found" = 0 ]; }; then
        echo "$1: $3"
        failures=$((failures + 1))
    fi
}
expect "one CPU for two ranks" 1 "$(run "100000 100000")"
cores=$(nproc)
[ "$cores" -lt 2 ] || expect "a CPU for each rank" 0 "$(run "200000 100000")"
[ "$cores" -lt 2 ] || expect "no limit" 0 "$(run "max 100000")"
exit "$failures"
