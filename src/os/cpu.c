#include "os/cpu.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static_assert(CPU_COUNT_MAX == CPU_SETSIZE, "a mask holds all CPUs that have a place");

/* The whole of a small file as text; false: there is none, or it does not fit. */
static bool read_text(const char *path, char *text, size_t text_bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t used = 0;
    ssize_t got;
    do {
        got = read(fd, text + used, text_bytes - used);
        if (got > 0) used += (size_t)got;
    } while (used < text_bytes && (got > 0 || (got < 0 && errno == EINTR)));
    close(fd);
    if (got < 0 || used == text_bytes) return false;
    text[used] = '\0';
    return true;
}

bool cpu_list_read(const char *text, cpu_set_t *cpus)
{
    CPU_ZERO(cpus);
    for (;; text++) {
        char *end;
        const long first = strtol(text, &end, 10);
        if (end == text || first < 0) return false;
        long last = first;
        if (*end == '-') {
            text = end + 1;
            last = strtol(text, &end, 10);
            if (end == text || last < first) return false;
        }
        for (long cpu = first; cpu <= last && cpu < CPU_COUNT_MAX; cpu++)
            CPU_SET((size_t)cpu, cpus);
        text = end;
        if (*text != ',') return *text == '\n' || *text == '\0';
    }
}

/* The CPUs that share such a part with that one; *shared stays as it is where that is not told. */
static void read_shared(const char *folder, int cpu, const char *list, cpu_set_t *shared)
{
    char path[256], text[4096];
    cpu_set_t cpus;
    const int length = snprintf(path, sizeof path, "%s/cpu%d/%s", folder, cpu, list);
    if (length > 0 && (size_t)length < sizeof path && read_text(path, text, sizeof text) &&
        cpu_list_read(text, &cpus) && CPU_ISSET((size_t)cpu, &cpus))
        *shared = cpus;
}

static int lowest_of(const cpu_set_t *cpus)
{
    for (int cpu = 0; cpu < CPU_COUNT_MAX; cpu++)
        if (CPU_ISSET((size_t)cpu, cpus)) return cpu;
    return -1;
}

void cpu_binding_within(const cpu_set_t *allowed, const char *folder, struct cpu_binding *place)
{
    /* By their old names, which every kernel has. */
    static const char *const lists[CPU_ITSELF] = {[CPU_PACKAGE] = "topology/core_siblings_list",
                                                  [CPU_CACHE] = "cache/index3/shared_cpu_list",
                                                  [CPU_CORE] = "topology/thread_siblings_list"};
    const int lowest = lowest_of(allowed);
    cpu_set_t shared, both;
    memset(&shared, 0xff, sizeof shared);
    *place = (struct cpu_binding){{0}};
    if (lowest < 0) return;
    for (int level = CPU_PACKAGE; level < CPU_ITSELF; level++) {
        read_shared(folder, lowest, lists[level], &shared);
        CPU_AND(&both, allowed, &shared);
        if (!CPU_EQUAL(&both, allowed)) return;
        place->parts[level] = (uint16_t)(1 + lowest_of(&shared));
    }
    if (CPU_COUNT(allowed) == 1) place->parts[CPU_ITSELF] = (uint16_t)(1 + lowest);
}

void cpu_binding_of_thread(struct cpu_binding *place)
{
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) CPU_ZERO(&allowed);
    cpu_binding_within(&allowed, "/sys/devices/system/cpu", place);
}

#if defined(__x86_64__)
bool cpu_has_aes(void)
{
    return __builtin_cpu_supports("aes");
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

enum { HAS_AES = 1 << 3 }; /* HWCAP_AES of asm/hwcap.h */

bool cpu_has_aes(void)
{
    return (getauxval(AT_HWCAP) & HAS_AES) != 0;
}
#else
bool cpu_has_aes(void)
{
    return false;
}
#endif

/* --------------------------------------------------------------------------------------- limits */

/* Both in microseconds. */
struct quota {
    long time, period;
};

static bool read_long(const char *path, long *value)
{
    char text[64], *end;
    if (!read_text(path, text, sizeof text)) return false;
    *value = strtol(text, &end, 10);
    return end != text;
}

/* The quota of one control group, of version 2 or 1. */
static struct quota quota_of(const char *folder)
{
    char path[PATH_MAX], text[64];
    struct quota quota = {0, 0};
    snprintf(path, sizeof path, "%.*s/cpu.max", PATH_MAX - 64, folder);
    if (read_text(path, text, sizeof text))
        return sscanf(text, "%ld %ld", &quota.time, &quota.period) == 2 ? quota
                                                                        : (struct quota){0, 0};
    snprintf(path, sizeof path, "%.*s/cpu.cfs_quota_us", PATH_MAX - 64, folder);
    if (!read_long(path, &quota.time)) return quota;
    snprintf(path, sizeof path, "%.*s/cpu.cfs_period_us", PATH_MAX - 64, folder);
    if (!read_long(path, &quota.period)) quota.period = 0;
    return quota;
}

static int least_of(int limit, struct quota quota)
{
    if (quota.time <= 0 || quota.period <= 0) return limit;
    const long cpus = (quota.time - 1) / quota.period + 1;
    return cpus < CPU_COUNT_MAX && (limit == 0 || cpus < limit) ? (int)cpus : limit;
}

/* The limit of a group and of all groups that contain it. In a container, the container's own group
 * may be at the top. */
static int limit_of_group(const char *top, const char *group, int limit)
{
    char folder[PATH_MAX];
    size_t length = strlen(group);
    for (;;) {
        const int used = snprintf(folder, sizeof folder, "%s%.*s", top, (int)length, group);
        if (used > 0 && (size_t)used < sizeof folder) limit = least_of(limit, quota_of(folder));
        if (length == 0) return limit;
        do length--;
        while (length > 0 && group[length] != '/');
    }
}

/* Whether "cpu" is among the controllers, "cpu,cpuacct". */
static bool has_cpu(const char *controllers)
{
    for (const char *name = controllers;; name++) {
        const size_t length = strcspn(name, ",");
        if (length == 3 && memcmp(name, "cpu", 3) == 0) return true;
        name += length;
        if (*name == '\0') return false;
    }
}

/* A line is "NUMBER:CONTROLLERS:GROUP"; version 2 names no controllers. */
static int limit_of_line(char *line, const char *folder, int limit)
{
    char top[PATH_MAX];
    char *const controllers = strchr(line, ':');
    char *const group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL || group[1] != '/') return limit;
    *group = '\0';
    if (controllers[1] == '\0') {
        limit = limit_of_group(folder, group + 1, limit);
        snprintf(top, sizeof top, "%.*s/unified", PATH_MAX - 16, folder);
        return limit_of_group(top, group + 1, limit);
    }
    if (!has_cpu(controllers + 1)) return limit;
    snprintf(top, sizeof top, "%.*s/%.64s", PATH_MAX - 128, folder, controllers + 1);
    limit = limit_of_group(top, group + 1, limit);
    snprintf(top, sizeof top, "%.*s/cpu", PATH_MAX - 16, folder);
    return limit_of_group(top, group + 1, limit);
}

int cpu_limit_within(const char *groups, const char *folder)
{
    char text[4096];
    int limit = 0;
    if (!read_text(groups, text, sizeof text)) return 0;
    for (char *line = text, *next; line != NULL && *line != '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        limit = limit_of_line(line, folder, limit);
    }
    return limit;
}

int cpu_limit(void)
{
    return cpu_limit_within("/proc/self/cgroup", "/sys/fs/cgroup");
}
