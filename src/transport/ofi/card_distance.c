#include "transport/ofi/card_distance.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/cpu.h"

enum { PATH_BYTES = 512, TEXT_BYTES = 4096 };

static bool read_line(const char *path, char text[static TEXT_BYTES])
{
    FILE *const file = fopen(path, "re");
    if (file == NULL) return false;
    const bool is_read = fgets(text, TEXT_BYTES, file) != NULL;
    fclose(file);
    return is_read;
}

static bool is_beside_us(const char *sys, long node)
{
    char path[PATH_BYTES], text[TEXT_BYTES];
    cpu_set_t ours, cpus, both;
    CPU_ZERO(&ours);
    snprintf(path, sizeof path, "%s/devices/system/node/node%ld/cpulist", sys, node);
    if (sched_getaffinity(0, sizeof ours, &ours) != 0 || !read_line(path, text) ||
        !cpu_list_read(text, &cpus))
        return false;
    CPU_AND(&both, &ours, &cpus);
    return CPU_COUNT(&both) > 0;
}

int card_distance_of_device(const char *sys, const char *device)
{
    char path[PATH_BYTES], text[TEXT_BYTES];
    snprintf(path, sizeof path, "%s/%s/numa_node", sys, device);
    if (!read_line(path, text)) return DISTANCE_UNKNOWN;
    char *end;
    const long node = strtol(text, &end, 10);
    if (end == text || node < 0) return DISTANCE_UNKNOWN; /* one node: -1 */
    return is_beside_us(sys, node) ? DISTANCE_NEAR : DISTANCE_FAR;
}

int card_distance(const char *sys, const char *domain)
{
    static const char *const classes[] = {"infiniband", "cxi", "hfi1"};
    const int bytes = (int)strcspn(domain, "-;"); /* kinds of endpoints stand behind that */
    if (bytes == 0 || memchr(domain, '/', (size_t)bytes) != NULL) return DISTANCE_UNKNOWN;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        char device[PATH_BYTES / 2];
        snprintf(device, sizeof device, "class/%s/%.*s/device", classes[i], bytes, domain);
        const int distance = card_distance_of_device(sys, device);
        if (distance != DISTANCE_UNKNOWN) return distance;
    }
    return DISTANCE_UNKNOWN;
}
