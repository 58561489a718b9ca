/* Numbers that tell whether processes are on one host, and may run on the same cores. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bootstrap/host_id.h"

static uint64_t cores_on(const cpu_set_t *cpus)
{
    uint64_t cores = 0;
    assert_int_equal(sched_setaffinity(0, sizeof *cpus, cpus), 0);
    assert_int_equal(host_id_cores(&cores), TUTTI_OK);
    assert_int_not_equal(cores, 0);
    return cores;
}

static void cores_are_told_apart_by_where_a_process_may_run(void **state)
{
    cpu_set_t all, some;
    int first = -1, second = -1, third = -1;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--)
        if (CPU_ISSET(cpu, &all)) third = second, second = first, first = cpu;
    const uint64_t whole = cores_on(&all);
    assert_true(cores_on(&all) == whole);
    CPU_ZERO(&some);
    CPU_SET(first, &some);
    const uint64_t one = cores_on(&some);
    if (third >= 0) {
        CPU_SET(second, &some);
        const uint64_t two = cores_on(&some);
        CPU_CLR(first, &some);
        CPU_SET(third, &some);
        assert_true(two != one && cores_on(&some) != two && cores_on(&some) != one);
        CPU_CLR(second, &some);
    }
    assert_true(cores_on(&some) == one); /* tied to one, whichever that is */
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_are_told_apart_by_where_a_process_may_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
