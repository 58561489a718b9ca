#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric.h"
#include "fabric_files.h"

enum { CAPABILITY_IPC_LOCK = 14, GIB_ENOUGH = 4 };

/* Reads the entry behind the words that begin a line of the file. False: no line begins with
 * them. */
static bool read_entry(const struct fabric_report *report, const char *file, const char *words,
                       char entry[static FABRIC_TEXT_SIZE])
{
    char path[FABRIC_PATH_SIZE], line[FABRIC_TEXT_SIZE];
    const size_t bytes = strlen(words);
    bool is_found = false;
    fabric_path(path, report->root, "%s", file);
    FILE *const stream = fopen(path, "re");
    if (stream == NULL) return false;
    while (!is_found && fgets(line, sizeof line, stream) != NULL)
        is_found = strncmp(line, words, bytes) == 0;
    fclose(stream);
    if (!is_found) return false;
    const char *const value = line + bytes + strspn(line + bytes, " \t");
    snprintf(entry, FABRIC_TEXT_SIZE, "%.*s", (int)strcspn(value, " \t\n"), value);
    return true;
}

/* Whether users here are the host's own. In another user namespace, as of a rootless container, the
 * drivers of cards do not count capabilities. */
static bool is_first_namespace(const struct fabric_report *report)
{
    char path[FABRIC_PATH_SIZE], text[FABRIC_TEXT_SIZE];
    unsigned long long inside, outside, count;
    fabric_path(path, report->root, "/proc/self/uid_map");
    return !fabric_read(path, text) ||
           (sscanf(text, "%llu %llu %llu", &inside, &outside, &count) == 3 && inside == 0 &&
            outside == 0 && count == UINT32_MAX);
}

static bool may_lock_all(const struct fabric_report *report)
{
    char text[FABRIC_TEXT_SIZE];
    return read_entry(report, "/proc/self/status", "CapEff:", text) &&
           (strtoull(text, NULL, 16) >> CAPABILITY_IPC_LOCK & 1) != 0 && is_first_namespace(report);
}

static void check_locked(struct fabric_report *report)
{
    static const char advice[] =
        "cards need memory that stays where it is; set it to unlimited: in "
        "/etc/security/limits.conf "
        "(* - memlock unlimited), for services with LimitMEMLOCK=infinity (Slurm: in slurmd's "
        "unit, "
        "and PropagateResourceLimitsExcept=MEMLOCK), for containers with --ulimit memlock=-1";
    char text[FABRIC_TEXT_SIZE];
    if (!read_entry(report, "/proc/self/limits", "Max locked memory", text)) {
        fabric_find(report, FABRIC_WARN, "locked memory: the limit is not known; see ulimit -l");
        return;
    }
    const uint64_t bytes = strtoull(text, NULL, 10);
    const uint64_t mib = bytes >> 20;
    if (strcmp(text, "unlimited") == 0)
        fabric_find(report, FABRIC_OK, "locked memory: unlimited");
    else if (may_lock_all(report))
        fabric_find(report, FABRIC_OK,
                    "locked memory: this user may lock all (CAP_IPC_LOCK); the limit of others, "
                    "%" PRIu64 " MiB, does not count",
                    mib);
    else if (mib >> 10 >= GIB_ENOUGH)
        fabric_find(report, FABRIC_OK, "locked memory: %" PRIu64 " GiB", mib >> 10);
    else
        fabric_find(report, FABRIC_FAIL, "locked memory: %" PRIu64 " MiB (ulimit -l); %s", mib,
                    advice);
}

/* From 5.12 on the kernel copies for a child what a card may write. */
static void check_fork(struct fabric_report *report)
{
    char path[FABRIC_PATH_SIZE], release[FABRIC_TEXT_SIZE];
    int major = 0, minor = 0;
    fabric_path(path, report->root, "/proc/sys/kernel/osrelease");
    const bool is_known =
        fabric_read(path, release) && sscanf(release, "%d.%d", &major, &minor) == 2;
    const bool is_asked_for = report->root[0] == '\0' && (getenv("RDMAV_FORK_SAFE") != NULL ||
                                                          getenv("IBV_FORK_SAFE") != NULL);
    if (is_known && (major > 5 || (major == 5 && minor >= 12)))
        fabric_find(report, FABRIC_OK,
                    "fork: Linux %d.%d keeps memory of cards apart from that of child processes",
                    major, minor);
    else if (is_asked_for)
        fabric_find(
            report, FABRIC_OK,
            "fork: RDMAV_FORK_SAFE is set (with huge pages set RDMAV_HUGEPAGES_SAFE=1, too)");
    else
        fabric_find(report, FABRIC_WARN,
                    "fork: Linux before 5.12 may take memory of cards from a program that starts "
                    "others; set RDMAV_FORK_SAFE=1 (with huge pages also RDMAV_HUGEPAGES_SAFE=1; "
                    "EFA: FI_EFA_FORK_SAFE=1)");
}

void fabric_check_memory(struct fabric_report *report)
{
    check_locked(report);
    check_fork(report);
}
