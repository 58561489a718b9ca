/* The distances of cards, in a folder like /sys that the test makes. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transport/ofi/card_distance.h"

static char sys[] = "/tmp/tutti-distance-XXXXXX";

static void make(const char *path, const char *text)
{
    char command[512];
    snprintf(command, sizeof command, "mkdir -p \"$(dirname %s/%s)\" && printf '%%b' '%s' >%s/%s",
             sys, path, text, sys, path);
    assert_int_equal(system(command), 0);
}

/* Node 0 has the CPU of this thread, node 1 has none of this host's. */
static int make_sys(void **state)
{
    (void)state;
    if (mkdtemp(sys) == NULL) return -1;
    char cpu[20];
    snprintf(cpu, sizeof cpu, "%d\\n", sched_getcpu());
    make("devices/system/node/node0/cpulist", cpu);
    make("devices/system/node/node1/cpulist", "1020-1022\\n");
    make("devices/system/node/node3/cpulist", "nonsense");
    make("class/infiniband/mlx5_0/device/numa_node", "0\\n");
    make("class/infiniband/mlx5_1/device/numa_node", "1\\n");
    make("class/infiniband/mlx5_2/device/numa_node", "-1\\n");
    make("class/infiniband/mlx5_3/device/numa_node", "3\\n");
    make("class/infiniband/mlx5_4/device/numa_node", "x\\n");
    make("class/infiniband/mlx5_5/device/numa_node", "");
    make("class/infiniband/mlx5_6/device/numa_node", "99999999999999999999\\n");
    make("class/infiniband/rdmap0s31/device/numa_node", "0\\n");
    make("class/cxi/cxi0/device/numa_node", "1\\n");
    make("bus/pci/devices/0000:3b:00.0/numa_node", "0\\n");
    return 0;
}

static int remove_sys(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", sys);
    return system(command);
}

static void cards_are_as_far_as_their_nodes(void **state)
{
    (void)state;
    static const struct {
        const char *domain;
        int distance;
    } cards[] = {{"mlx5_0", DISTANCE_NEAR},    {"mlx5_0-xrc", DISTANCE_NEAR},
                 {"mlx5_1", DISTANCE_FAR},     {"mlx5_2", DISTANCE_UNKNOWN},
                 {"mlx5_3", DISTANCE_FAR},     {"mlx5_4", DISTANCE_UNKNOWN},
                 {"mlx5_5", DISTANCE_UNKNOWN}, {"mlx5_6", DISTANCE_FAR},
                 {"mlx5_7", DISTANCE_UNKNOWN}, {"rdmap0s31-rdm", DISTANCE_NEAR},
                 {"cxi0", DISTANCE_FAR},       {"", DISTANCE_UNKNOWN},
                 {"-", DISTANCE_UNKNOWN},      {"../infiniband/mlx5_0", DISTANCE_UNKNOWN}};
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        const int distance = card_distance(sys, cards[i].domain);
        if (distance != cards[i].distance)
            fail_msg("'%s': %d instead of %d", cards[i].domain, distance, cards[i].distance);
    }
}

static void devices_are_found_by_their_folder(void **state)
{
    (void)state;
    assert_int_equal(card_distance_of_device(sys, "bus/pci/devices/0000:3b:00.0"), DISTANCE_NEAR);
    assert_int_equal(card_distance_of_device(sys, "bus/pci/devices/0000:3b:00.1"), DISTANCE_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cards_are_as_far_as_their_nodes),
        cmocka_unit_test(devices_are_found_by_their_folder),
    };
    return cmocka_run_group_tests(tests, make_sys, remove_sys);
}
