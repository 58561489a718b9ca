# shellcheck shell=bash disable=SC2034
# What the tests in network namespaces have in common: `source` it; ends with `exit $failed`.
failed=0

fail() {
    echo "FAILED  $*"
    failed=1
}

skip() {
    echo "$*: skipped"
    exit 77
}

# Says why no namespaces can be made here, or nothing.
namespaces_missing() {
    local program name=tn$$
    [ "$(id -u)" = 0 ] || { echo "network namespaces need root" && return; }
    for program in ip tc unshare; do
        command -v $program >/dev/null || { echo "$program (of iproute2 or util-linux) is not here" && return; }
    done
    ip netns add $name 2>/dev/null || { echo "no network namespaces can be made here" && return; }
    ip netns del $name
}

need_namespaces() {
    local why
    why=$(namespaces_missing)
    [ -z "$why" ] || skip "$why"
}

# clean_up_cluster PROGRAM FOLDER: the emulated cluster (bench/peers/cluster) and the test's files.
clean_up_cluster() {
    "$1" down >/dev/null 2>&1
    rm -rf "$2"
}
export -f clean_up_cluster

# leave_nothing FUNCTION COMMAND...: the script's own function is called however it ends; when it is killed with SIGKILL, as by a time
# limit, the command is, by somebody whom nobody finds.
leave_nothing() {
    # shellcheck disable=SC2016
    setsid -f bash -c 'while kill -0 "$1"; do sleep 1; done; "${@:2}"' _ $$ "${@:2}" >/dev/null 2>&1 </dev/null
    # shellcheck disable=SC2064 # now
    trap "$1" EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}
