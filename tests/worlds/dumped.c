#include "tests/worlds/dumped.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DUMP_BYTES_MAX = 1 << 20 };

static int count_in_file(const char *path, const char *what)
{
    int count = -1;
    char *const text = calloc(1, DUMP_BYTES_MAX);
    FILE *const file = fopen(path, "re");
    if (text != NULL && file != NULL && fread(text, 1, DUMP_BYTES_MAX - 1, file) > 0) {
        count = 0;
        for (const char *at = text; (at = strstr(at, what)) != NULL; at++) count++;
    }
    if (file != NULL) fclose(file);
    free(text);
    return count;
}

int dumped_count(struct tutti_comm *comm, const char *what)
{
    char folder[] = "/tmp/tutti-dumped-XXXXXX", path[400];
    int count = -1;
    if (mkdtemp(folder) == NULL) return -1;
    DIR *const entries = tutti_trace_dump(comm, folder) == TUTTI_OK ? opendir(folder) : NULL;
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        count = count_in_file(path, what);
        unlink(path);
    }
    if (entries != NULL) closedir(entries);
    rmdir(folder);
    return count;
}
