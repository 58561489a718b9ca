#!/bin/bash
# What scripts/run_tests.py says of tests that pass, fail for good, fail by chance, and end in other ways.
# ctest: label=nosan label=once
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2034
tool=true
# shellcheck source=tests/kit/tool.sh
source "${TUTTI_ROOT:?}/tests/kit/tool.sh"
mkdir "$work/tests" && cd "$work" || exit 1

# A test of the folder: scene NAME COMMAND. The commands run in $work.
scene() {
    printf 'add_test(NAME %s COMMAND bash -c [==[%s]==])\n' "$1" "$2" >>tests/CMakeLists.txt
}

# Runs the scenes; results.txt has what came of them, out what was said.
run() {
    rm -rf build kept results.txt
    cmake -S tests -B build >/dev/null || exit 1
    touch results.txt
    python3 "$TUTTI_ROOT/scripts/run_tests.py" --suite some --folder build --kept kept --results results.txt -- \
        ctest "$@" -j 2 >out || fail "run_tests.py ends with $?"
}

begin() {
    printf 'cmake_minimum_required(VERSION 3.22)\nproject(scenes NONE)\nenable_testing()\n' >tests/CMakeLists.txt
    rm -f once.*
}

came() { # outcome, name
    grep -qE "^$1 some [0-9.]+ $2\$" results.txt || fail "$2 has not $1: $(cat results.txt out)"
}

begin
scene good 'true'
scene always 'echo "rank 1: a_test.c:3: does not hold: status == TUTTI_OK"; exit 1'
scene a/chance '[[ -f once.chance ]] || { touch once.chance; echo "took too long"; exit 1; }'
scene absent 'echo "no such card here"; exit 77'
printf 'set_tests_properties(absent PROPERTIES SKIP_RETURN_CODE 77)\nset_tests_properties(good always a/chance absent PROPERTIES WORKING_DIRECTORY "%s")\n' \
    "$work" >>tests/CMakeLists.txt
run
came passed good
came failed always
came unsteady a/chance
came skipped absent
says out 'failed always'
says out 'does not hold: status'
says out 'unsteady: a/chance'
says out 'skipped absent: no such card here'
says kept/some.a.chance.first.txt 'took too long'
[ -f kept/some.a.chance.second.txt ] || fail "the second output of an unsteady test is not kept"
[ "$(wc -l <results.txt)" = 4 ] || fail "not a line for each test: $(cat results.txt)"

# Each of these would pass the second time.
by_no_chance() { # words that explain it, command
    begin
    scene bad "touch once.bad-\$\$; [[ \$(ls once.bad-* | wc -l) -gt 1 ]] || { $2; }"
    printf 'set_tests_properties(bad PROPERTIES WORKING_DIRECTORY "%s" TIMEOUT 2)\n' "$work" >>tests/CMakeLists.txt
    run
    came failed bad
    says out "failed bad: $1"
}
by_no_chance 'a signal' 'kill -SEGV $$'
by_no_chance 'a signal' 'kill -ABRT $$'
by_no_chance 'a signal' 'echo "rank 2: died of signal 11 (Segmentation fault)"; exit 1'
by_no_chance "a sanitizer's report" 'echo "==7==ERROR: AddressSanitizer: heap-use-after-free"; exit 1'
by_no_chance "a sanitizer's report" 'echo "a.c:3:4: runtime error: signed integer overflow"; exit 1'
by_no_chance 'a hang' 'sleep 20'
by_no_chance 'a hang' 'echo "rank 0: still there at the deadline"; exit 1'
by_no_chance 'wrong data' 'echo "block 1, element 7 is wrong"; exit 1'
by_no_chance 'wrong data' 'echo "rank 0: a_test.c:9: does not hold: memcmp(a, b, 8) == 0 ()"; exit 1'
by_no_chance 'something left behind' 'echo "left behind: 1234 tutti-run"; exit 1'

# A rank that a test kills is no failure of its own.
begin
scene killed '[[ -f once.killed ]] || { touch once.killed; echo "rank 2: died of signal 9 (Killed)"; exit 1; }'
printf 'set_tests_properties(killed PROPERTIES WORKING_DIRECTORY "%s")\n' "$work" >>tests/CMakeLists.txt
run
came unsteady killed

# Where many fail, it is no chance, and no time is spent on them.
begin
for i in 1 2 3 4 5 6; do
    scene "broken$i" "[[ -f once.$i ]] || { touch once.$i; exit 1; }"
    printf 'set_tests_properties(broken%d PROPERTIES WORKING_DIRECTORY "%s")\n' "$i" "$work" >>tests/CMakeLists.txt
done
run
[ "$(grep -c '^failed' results.txt)" = 6 ] || fail "six broken tests: $(cat results.txt)"

# A folder without tests is a failure.
begin
run
came failed all
exit $((failures > 0))
