# shellcheck shell=bash disable=SC2034
# over.sh - whole communicators over something else than usual: each test that sources it sets what, and says what is to run.
#
#     $bin, $tests, $failed   programs; tests; 1 after a failure
#     $operations             of tutti-perf
#     run COMMAND...          quiet, but for what a failing command said, and with what it ran
#     run_tests ROOM/NAME...  tests_ROOM_NAME_test, where it was built
#     run_beside ROOM/NAME... the same, at the same time: of programs that mostly wait
#     is_sanitized            whether the tests are built with a sanitizer
#
# Which calls there are is the business of the same programs over shared memory; here they go through a part of the combinations (sanitized.h).
bin=${TUTTI_BIN:?}
tests=$bin/../tests
failed=0
export TUTTI_TEST_SPARSE=1
operations='allreduce reduce broadcast gather scatter allgather reduce_scatter alltoall barrier sendrecv gatherv scatterv allgatherv
    reduce_scatterv alltoallv'

run() {
    if ! output=$(timeout 200 "$@" 2>&1); then
        printf '%s failed, with %s:\n%s\n' "$*" \
            "$(env | grep -E '^TUTTI_(TEST_HOSTS|TRANSPORT|INTEGRITY|ENCRYPTION)=' | paste -sd ' ')" "$output"
        failed=1
    fi
}

run_beside() {
    local name pids=()
    for name; do
        (run_tests "$name" && exit $failed) &
        pids+=($!)
    done
    for name in "${pids[@]}"; do wait "$name" || failed=1; done
}

run_tests() {
    local name program
    for name; do
        program=$tests/tests_${name/\//_}_test
        if [[ -x $program ]]; then run "$program"; fi
    done
}

is_sanitized() {
    grep -q '^TUTTI_SANITIZE:.*=.' "${TUTTI_BUILD:?}/CMakeCache.txt"
}
