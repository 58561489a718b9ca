#include "os/cpu.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
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

void cpu_place_within(const cpu_set_t *allowed, const char *folder, struct cpu_place *place)
{
    /* By their old names, which every kernel has. */
    static const char *const lists[CPU_ITSELF] = {[CPU_PACKAGE] = "topology/core_siblings_list",
                                                  [CPU_CACHE] = "cache/index3/shared_cpu_list",
                                                  [CPU_CORE] = "topology/thread_siblings_list"};
    const int lowest = lowest_of(allowed);
    cpu_set_t shared, both;
    memset(&shared, 0xff, sizeof shared);
    *place = (struct cpu_place){{0}};
    if (lowest < 0) return;
    for (int level = CPU_PACKAGE; level < CPU_ITSELF; level++) {
        read_shared(folder, lowest, lists[level], &shared);
        CPU_AND(&both, allowed, &shared);
        if (!CPU_EQUAL(&both, allowed)) return;
        place->parts[level] = (uint16_t)(1 + lowest_of(&shared));
    }
    if (CPU_COUNT(allowed) == 1) place->parts[CPU_ITSELF] = (uint16_t)(1 + lowest);
}

void cpu_place_of_thread(struct cpu_place *place)
{
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) CPU_ZERO(&allowed);
    cpu_place_within(&allowed, "/sys/devices/system/cpu", place);
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
