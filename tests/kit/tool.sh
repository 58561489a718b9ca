# What the tests of a program from outside have in common: `source` it with the program in $tool; ends with `exit $((failures > 0))`.
failures=0

fail() {
    echo "  $*"
    failures=$((failures + 1))
}

# exits CODE ARGUMENTS...: runs it; output is in ./out and ./err.
exits() {
    local code=$1
    shift
    timeout 60 "$tool" "$@" >out 2>err </dev/null
    local got=$?
    [ $got = "$code" ] || fail "${tool##*/} $*: exit $got instead of $code: $(head -c 300 err)"
}

says() { # file, fixed string
    grep -qF -- "$2" "$1" || fail "no '$2' in: $(head -c 1000 "$1")"
}

# spin COUNT: as many processes use the processors from here on, until `rest`, which belongs into the test's trap, too.
spinners=()
spin() {
    local i
    for ((i = 0; i < $1; i++)); do
        (
            trap - EXIT INT TERM HUP
            while :; do :; done
        ) &
        spinners+=($!)
    done
}
rest() {
    [ ${#spinners[@]} -gt 0 ] || return 0
    kill "${spinners[@]}" 2>/dev/null
    wait "${spinners[@]}" 2>/dev/null
    spinners=()
}
