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
