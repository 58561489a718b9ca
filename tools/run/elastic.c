#include "elastic.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/option.h"

#define SHORT_LIFE_NS UINT64_C(5000000000)
#define PAUSE_NS UINT64_C(100000000)
#define PAUSE_MAX_NS UINT64_C(5000000000)

bool elastic_make_store(char path[ELASTIC_STORE_BYTES])
{
    const char *parent = getenv("TMPDIR");
    *path = '\0';
    if (option_text(OPTION_ELASTIC_STORE) != NULL) return true;
    if (parent == NULL || *parent == '\0') parent = "/tmp";
    const int length = snprintf(path, ELASTIC_STORE_BYTES, "%s/tutti-elastic-XXXXXX", parent);
    if (length < ELASTIC_STORE_BYTES && mkdtemp(path) != NULL) {
        if (setenv(option_names.ELASTIC_STORE, path, 1) == 0) return true;
        rmdir(path);
    }
    fprintf(stderr, "tutti-run: cannot make a directory in %s: %s\n", parent, strerror(errno));
    *path = '\0';
    return false;
}

void elastic_remove_store(const char *path)
{
    DIR *const folder = *path != '\0' ? opendir(path) : NULL;
    if (folder == NULL) return;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    rmdir(path);
}

bool elastic_is_member(pid_t pid)
{
    const char *const folder = option_text(OPTION_ELASTIC_STORE);
    char path[PATH_MAX];
    struct stat status;
    return folder != NULL &&
           snprintf(path, sizeof path, "%s/tutti.member.%ld", folder, (long)pid) < PATH_MAX &&
           stat(path, &status) == 0;
}

uint64_t elastic_pause_ns(uint64_t lived_ns, int restart_count)
{
    if (lived_ns >= SHORT_LIFE_NS || restart_count == 0) return 0;
    const int doublings = restart_count - 1;
    const uint64_t pause_ns = doublings < 6 ? PAUSE_NS << doublings : PAUSE_MAX_NS;
    return pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS;
}
