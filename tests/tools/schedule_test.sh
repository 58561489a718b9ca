#!/usr/bin/env bash
# schedule_test.sh - tutti-schedule from outside: it draws, prints and reads schedules; mistakes are named.
#
#     TUTTI_BIN=build/bin tests/tools/schedule_test.sh
#
# ctest: label=notsan
set -u
tool=$(realpath "${TUTTI_BIN:?}")/tutti-schedule
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0

fail() {
    echo "$1"
    bad=1
}

expect() { # exit status, text in the output, arguments
    local status=$1 text=$2
    shift 2
    timeout 60 "$tool" "$@" >out 2>&1 </dev/null
    local got=$?
    [ $got = "$status" ] || fail "tutti-schedule $*: exit $got instead of $status: $(head -c 500 out)"
    grep -qF -- "$text" out || fail "tutti-schedule $*: no '$text' in: $(head -c 500 out)"
}

expect 0 'step 33, idle over busy 37.50 %' 1f1b --stages 4 --micro 8
expect 0 '       0         24          9            4' 1f1b --stages 4 --micro 8
expect 0 'stage 1    F0 B0--- F1 B1---' 1f1b --stages 2 --micro 2
expect 0 'idle over busy 12.50 %' interleaved --stages 2 --micro 4 --chunks 2
expect 0 'step 11, idle over busy 50.00 %' gpipe --stages 2 --micro 2 --forward 3 --backward .666666666666666667
expect 0 '(the step takes 7500' gpipe --stages 1 --micro 500

# A printed schedule can be read again.
expect 0 'stage 1: F0.0 F1.0' interleaved --stages 2 --micro 2 --chunks 2 --print
cp out mine.txt
expect 0 'stage 1: F0.0 F1.0' mine.txt --print
cmp -s out mine.txt || fail "what is printed changes: $(diff out mine.txt)"
"$tool" - <mine.txt >out 2>&1 || fail "standard input: $(cat out)"

# Pictures, into a file and to standard output.
expect 0 'stage 0' 1f1b --stages 2 --micro 3 --draw one.svg
expect 0 '<svg ' 1f1b --stages 2 --micro 3 --draw -
cmp -s out one.svg || fail "the pictures differ"
if command -v xmllint >/dev/null; then xmllint --noout one.svg || fail "one.svg is no XML"; fi
expect 1 'no/where.svg: No such file' 1f1b --stages 2 --micro 3 --draw no/where.svg

# Schedules that cannot run.
printf 'schedule stages 2 micro_batches 2 chunks 1\nstage 0: F0 B0 F1 B1\nstage 1: F0 F1 B0 B1\n' >halt.txt
expect 1 'deadlock: stage 0, position 1: B0 waits for B0 of stage 1 (position 2); stage 1, position 1: F1 waits for F1 of stage 0 (position 2)' halt.txt
expect 1 'deadlock' halt.txt --print
expect 1 'deadlock' halt.txt --draw halt.svg
[ ! -e halt.svg ] || fail "a schedule that cannot run was drawn"
printf 'schedule stages 2 micro_batches 2 chunks 1\nstage 0: F0 F2\n' >wrong.txt
expect 1 "wrong.txt: line 2: 'F2': micro-batches are 0 to 1" wrong.txt
expect 1 'nowhere.txt: No such file' nowhere.txt
expect 1 'a multiple of its 4 stages' interleaved --stages 4 --micro 6 --chunks 2
expect 1 'gpipe has 1 chunk' gpipe --stages 4 --micro 6 --chunks 2

# Wrong usage.
expect 2 'which NAME or FILE?'
expect 2 'what is more?' 1f1b more --stages 2 --micro 2
expect 2 '1f1b takes --stages and --micro' 1f1b --stages 2
expect 2 '--stages must be a number above 0' 1f1b --stages 0 --micro 2
expect 2 "--micro must be a number above 0, is '2x'" 1f1b --stages 2 --micro 2x
expect 2 '--forward must be a time above 0' 1f1b --stages 2 --micro 2 --forward -1
expect 2 'the file has its own' mine.txt --stages 2
expect 2 '--draw or --print, not both' mine.txt --draw a.svg --print
expect 2 'cannot be read' mine.txt --colour
expect 0 'tutti-schedule FILE' --help
expect 0 'tutti-schedule 0.' --version
if [ -e /dev/full ]; then
    "$tool" mine.txt >/dev/full 2>out && fail "a full disk is no failure"
    grep -qF 'standard output' out || fail "a full disk is called: $(cat out)"
fi
exit $bad
