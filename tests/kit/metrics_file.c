#include "tests/kit/metrics_file.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>

size_t metrics_file_find(const char *folder, pid_t pid, char *path, size_t path_bytes)
{
    char pattern[PATH_MAX];
    glob_t found = {.gl_pathc = 0};
    snprintf(pattern, sizeof pattern, "%s/tutti-*-%d-????????????????.prom", folder, (int)pid);
    const size_t count = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    snprintf(path, path_bytes, "%s", count > 0 ? found.gl_pathv[0] : "");
    globfree(&found);
    return count;
}
