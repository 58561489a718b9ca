#include "transport/ofi/leftovers.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "os/process.h"

static const char folder_name[] = "/dev/shm";

/* The process that made a file of that name; 0: provider shm does not name any like this. */
static pid_t maker_of(const char *name)
{
    char *end;
    if (strspn(name, "0123456789:") != strlen(name)) return 0;
    const long pid = strtol(name, &end, 10);
    return *end == ':' && pid > 0 && pid <= INT32_MAX ? (pid_t)pid : 0;
}

static bool has_ended(pid_t pid, const pid_t *pids, int count)
{
    for (int i = 0; i < count; i++)
        if (pids[i] == pid) return process_is_ending(pid);
    return false;
}

void ofi_leftovers_remove(const pid_t *pids, int count)
{
    DIR *const folder = opendir(folder_name);
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        const pid_t pid = maker_of(entry->d_name);
        if (pid == 0 || !has_ended(pid, pids, count)) continue;
        char name[sizeof entry->d_name + 1];
        snprintf(name, sizeof name, "/%s", entry->d_name);
        (void)shm_unlink(name);
    }
    if (folder != NULL) closedir(folder);
}
