#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/hardware.h"
#include "tests/kit/made_file.h"

static char root[] = "/tmp/tutti-hardware-XXXXXX";

static struct hardware found(void)
{
    char proc[128], sys[128];
    struct hardware hardware;
    snprintf(proc, sizeof proc, "%s/proc", root);
    snprintf(sys, sizeof sys, "%s/sys", root);
    hardware_within(proc, sys, &hardware);
    return hardware;
}

static int make_root(void **state)
{
    (void)state;
    strcpy(root + sizeof root - 7, "XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static void a_host_is_described(void **state)
{
    (void)state;
    make_file(root, "proc/cpuinfo", "processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD \x1b[1mEPYC\n");
    make_file(root, "sys/devices/system/cpu/online", "0-3,8\n");
    make_file(root, "sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n");
    make_file(root, "sys/devices/system/cpu/cpu0/cache/index0/level", "1\n");
    make_file(root, "sys/devices/system/cpu/cpu0/cache/index0/size", "32K\n");
    make_file(root, "sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "0\n");
    make_file(root, "sys/devices/system/cpu/cpu0/cache/index1/type", "Instruction\n");
    make_file(root, "sys/devices/system/cpu/cpu0/cache/index1/level", "1\n");
    make_file(root, "sys/devices/system/cpu/cpu0/cache/index1/size", "64K\n");
    make_file(root, "sys/devices/system/cpu/cpu0/cache/index3/type", "Unified\n");
    make_file(root, "sys/devices/system/cpu/cpu0/cache/index3/level", "3\n");
    make_file(root, "sys/devices/system/cpu/cpu0/cache/index3/size", "32M\n");
    make_file(root, "sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "0-2\n");
    make_file(root, "sys/class/net/lo/speed", "10\n");
    make_file(root, "sys/class/net/eth1/device/vendor", "1\n");
    make_file(root, "sys/class/net/eth1/speed", "-1\n");
    make_file(root, "sys/class/net/eth0/device/vendor", "1\n");
    make_file(root, "sys/class/net/eth0/speed", "100000\n");
    const struct hardware hardware = found();
    assert_string_equal(hardware.cpu_model, "AMD ?[1mEPYC");
    assert_int_equal(hardware.cpu_count, 5);
    assert_int_equal(hardware.cpus_a_cache, 3);
    assert_int_equal(hardware.cache_bytes[0], 32 << 10);
    assert_int_equal(hardware.cache_bytes[1], 0);
    assert_int_equal(hardware.cache_bytes[2], 32 << 20);
    assert_string_equal(hardware.cards, "eth0 100000 Mb/s, eth1");
}

static void a_processor_without_a_name_has_numbers(void **state)
{
    (void)state;
    make_file(root, "proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n");
    assert_string_equal(found().cpu_model, "implementer 0x41 part 0xd0c");
}

static void its_processors_are_told_in_words(void **state)
{
    (void)state;
    char text[HARDWARE_CPUS_SIZE];
    hardware_print_cpus(&(struct hardware){.cpu_model = "AMD EPYC", .cpu_count = 64}, text);
    assert_string_equal(text, "AMD EPYC, 64 CPUs");
    hardware_print_cpus(&(struct hardware){.cpu_count = 1}, text);
    assert_string_equal(text, "1 CPU");
}

static void what_nobody_tells_is_empty(void **state)
{
    (void)state;
    const struct hardware hardware = found(), empty = {.cpu_count = 0};
    assert_memory_equal(&hardware, &empty, sizeof empty);
}

static void this_host_is_described_alike_twice(void **state)
{
    (void)state;
    struct hardware one, two;
    hardware_of_host(&one);
    hardware_of_host(&two);
    assert_memory_equal(&one, &two, sizeof one);
    assert_true(one.cpu_count > 0);
    assert_true(one.kernel_release[0] != '\0');
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(a_host_is_described),
        IN_A_FOLDER(a_processor_without_a_name_has_numbers),
        cmocka_unit_test(its_processors_are_told_in_words),
        IN_A_FOLDER(what_nobody_tells_is_empty),
        cmocka_unit_test(this_host_is_described_alike_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
