#include "tests/kit/scratch.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

void scratch_make(char path[SCRATCH_BYTES])
{
    snprintf(path, SCRATCH_BYTES, "/tmp/tutti-test-XXXXXX");
    if (mkdtemp(path) != NULL) return;
    perror("making a folder in /tmp");
    abort();
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about;
    (void)kind;
    (void)place;
    (void)remove(path);
    return 0;
}

void scratch_remove(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
