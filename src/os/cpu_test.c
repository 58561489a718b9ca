/* Places of threads on machines that are made of files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/cpu.h"
#include "tests/kit/made_file.h"

static const char *const lists[CPU_ITSELF] = {
    "topology/core_siblings_list", "cache/index3/shared_cpu_list", "topology/thread_siblings_list"};
static const char *const folders[] = {"topology", "cache", "cache/index3"};
enum { CPUS_MAX = 16 };

/* A folder as /sys/devices/system/cpu. */
struct machine {
    char folder[32];
};

static struct machine new_machine(void)
{
    struct machine machine = {"/tmp/tutti-cpu-XXXXXX"};
    assert_non_null(mkdtemp(machine.folder));
    for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
        char path[128];
        snprintf(path, sizeof path, "%s/cpu%d", machine.folder, cpu);
        assert_int_equal(mkdir(path, 0700), 0);
        for (int i = 0; i < 3; i++) {
            snprintf(path, sizeof path, "%s/cpu%d/%s", machine.folder, cpu, folders[i]);
            assert_int_equal(mkdir(path, 0700), 0);
        }
    }
    return machine;
}

static void describe(const struct machine *machine, int cpu, enum cpu_level level, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/cpu%d/%s", machine->folder, cpu, lists[level]);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void remove_machine(const struct machine *machine)
{
    for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
        char path[128];
        for (int i = 0; i < CPU_ITSELF; i++) {
            snprintf(path, sizeof path, "%s/cpu%d/%s", machine->folder, cpu, lists[i]);
            unlink(path);
        }
        for (int i = 2; i >= 0; i--) {
            snprintf(path, sizeof path, "%s/cpu%d/%s", machine->folder, cpu, folders[i]);
            assert_int_equal(rmdir(path), 0);
        }
        snprintf(path, sizeof path, "%s/cpu%d", machine->folder, cpu);
        assert_int_equal(rmdir(path), 0);
    }
    assert_int_equal(rmdir(machine->folder), 0);
}

/* Two packages of two caches of two cores of two threads: CPU c and c + 8 are one core. */
static struct machine usual_machine(void)
{
    struct machine machine = new_machine();
    for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
        char text[64];
        const int core = cpu % 8, cache = core / 2 * 2, package = core / 4 * 4;
        snprintf(text, sizeof text, "%d,%d\n", core, core + 8);
        describe(&machine, cpu, CPU_CORE, text);
        snprintf(text, sizeof text, "%d-%d,%d-%d\n", cache, cache + 1, cache + 8, cache + 9);
        describe(&machine, cpu, CPU_CACHE, text);
        snprintf(text, sizeof text, "%d-%d,%d-%d\n", package, package + 3, package + 8,
                 package + 11);
        describe(&machine, cpu, CPU_PACKAGE, text);
    }
    return machine;
}

/* `cpus` ends with -1; the expected place is the lowest CPU of each part, -1 for none. */
static void expect_place(const struct machine *machine, const int *cpus, int package, int cache,
                         int core, int itself)
{
    const int expected[CPU_LEVEL_COUNT] = {package, cache, core, itself};
    struct cpu_binding place;
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    for (; *cpus >= 0; cpus++) CPU_SET((size_t)*cpus, &allowed);
    cpu_binding_within(&allowed, machine->folder, &place);
    for (int level = 0; level < CPU_LEVEL_COUNT; level++)
        assert_int_equal(place.parts[level], 1 + expected[level]);
}

#define CPUS(...) ((const int[]){__VA_ARGS__, -1})

static void a_thread_is_placed_as_deep_as_it_is_bound(void **state)
{
    (void)state;
    const struct machine machine = usual_machine();
    expect_place(&machine, CPUS(0), 0, 0, 0, 0);
    expect_place(&machine, CPUS(15), 4, 6, 7, 15);
    expect_place(&machine, CPUS(7, 15), 4, 6, 7, -1);
    expect_place(&machine, CPUS(6, 7), 4, 6, -1, -1);
    expect_place(&machine, CPUS(4, 7), 4, -1, -1, -1);
    expect_place(&machine, CPUS(3, 4), -1, -1, -1, -1);
    expect_place(&machine, CPUS(0, 1, 2, 3, 8, 9, 10, 11), 0, -1, -1, -1);
    expect_place(&machine, CPUS(-1), -1, -1, -1, -1);
    remove_machine(&machine);
}

static void what_is_not_told_is_as_large_as_the_next_larger_part(void **state)
{
    (void)state;
    const struct machine machine = new_machine();
    expect_place(&machine, CPUS(5), 0, 0, 0, 5);
    expect_place(&machine, CPUS(2, 9), 0, 0, 0, -1);
    describe(&machine, 5, CPU_PACKAGE, "4-7\n");
    expect_place(&machine, CPUS(5), 4, 4, 4, 5);
    expect_place(&machine, CPUS(5, 6), 4, 4, 4, -1);
    expect_place(&machine, CPUS(5, 8), -1, -1, -1, -1);
    describe(&machine, 5, CPU_CORE, "5-6");
    expect_place(&machine, CPUS(5, 6), 4, 4, 5, -1);
    expect_place(&machine, CPUS(5, 7), 4, 4, -1, -1);
    remove_machine(&machine);
}

static void lists_that_make_no_sense_tell_nothing(void **state)
{
    (void)state;
    const struct machine machine = new_machine();
    static const char *const wrong[] = {"",     "\n",   "x",     "4-",  "4,",  "5-4", "4-7x",
                                        "-4,5", "4,,5", "4-5-6", "4 5", "6-7", "4:5"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        describe(&machine, 5, CPU_PACKAGE, wrong[i]);
        expect_place(&machine, CPUS(5), 0, 0, 0, 5);
    }
    char endless[5000];
    memset(endless, '5', sizeof endless);
    for (size_t i = 1; i < sizeof endless; i += 2) endless[i] = ',';
    endless[sizeof endless - 1] = '\0';
    describe(&machine, 5, CPU_PACKAGE, endless);
    expect_place(&machine, CPUS(5), 0, 0, 0, 5);
    describe(&machine, 5, CPU_PACKAGE, "3,5,2000-3000,99999999999999999999\n");
    expect_place(&machine, CPUS(5), 3, 3, 3, 5);
    remove_machine(&machine);
}

/* --------------------------------------------------------------------------------------- limits */

static int limit_in(const char *folder, const char *groups)
{
    char path[256];
    make_file(folder, "groups", groups);
    snprintf(path, sizeof path, "%s/groups", folder);
    return cpu_limit_within(path, folder);
}

static void the_time_of_a_container_may_be_limited(void **state)
{
    (void)state;
    char folder[] = "/tmp/tutti-cpu-XXXXXX", command[64];
    assert_non_null(mkdtemp(folder));
    make_file(folder, "pods/one/cpu.max", "250000 100000\n");
    make_file(folder, "pods/cpu.max", "max 100000\n");
    make_file(folder, "pods/small/cpu.max", "10000 100000\n");
    make_file(folder, "pods/small/inner/cpu.max", "400000 100000\n");
    make_file(folder, "pods/wrong/cpu.max", "many\n");
    make_file(folder, "cpu,cpuacct/jobs/seven/cpu.cfs_quota_us", "200000\n");
    make_file(folder, "cpu,cpuacct/jobs/seven/cpu.cfs_period_us", "100000\n");
    make_file(folder, "cpu,cpuacct/jobs/free/cpu.cfs_quota_us", "-1\n");
    make_file(folder, "cpu,cpuacct/jobs/free/cpu.cfs_period_us", "100000\n");
    assert_int_equal(limit_in(folder, "0::/\n"), 0);
    assert_int_equal(limit_in(folder, "0::/pods/one\n"), 3);
    assert_int_equal(limit_in(folder, "0::/pods/one/inner\n"), 3);
    assert_int_equal(limit_in(folder, "0::/pods\n"), 0);
    assert_int_equal(limit_in(folder, "0::/pods/small/inner\n"), 1); /* the outer one counts */
    assert_int_equal(limit_in(folder, "0::/pods/wrong\n"), 0);
    assert_int_equal(limit_in(folder, "5:memory:/pods/one\n4:cpu,cpuacct:/jobs/seven\n0::/\n"), 2);
    assert_int_equal(limit_in(folder, "4:cpu,cpuacct:/jobs/free\n"), 0);
    assert_int_equal(limit_in(folder, "4:cpuset:/pods/one\nno sense\n::\n0::x"), 0);
    make_file(folder, "cpu.max", "150000 100000\n"); /* as a container sees its own group */
    assert_int_equal(limit_in(folder, "0::/\n"), 2);
    assert_int_equal(limit_in(folder, "0::/../elsewhere\n"), 2);
    assert_int_equal(cpu_limit_within("/tmp/there is no such file", folder), 0);
    assert_true(cpu_limit() >= 0);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void this_thread_has_a_place_once_it_is_bound(void **state)
{
    (void)state;
    cpu_set_t before, one;
    struct cpu_binding place;
    if (sched_getaffinity(0, sizeof before, &before) != 0) skip();
    int cpu = 0;
    while (!CPU_ISSET((size_t)cpu, &before)) cpu++;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    cpu_binding_of_thread(&place);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(place.parts[CPU_ITSELF], 1 + cpu);
    for (int level = 0; level < CPU_ITSELF; level++)
        assert_in_range(place.parts[level], 1, 1 + cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_is_placed_as_deep_as_it_is_bound),
        cmocka_unit_test(what_is_not_told_is_as_large_as_the_next_larger_part),
        cmocka_unit_test(lists_that_make_no_sense_tell_nothing),
        cmocka_unit_test(the_time_of_a_container_may_be_limited),
        cmocka_unit_test(this_thread_has_a_place_once_it_is_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
