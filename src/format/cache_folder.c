#include "format/cache_folder.h"

#include <stdio.h>
#include <stdlib.h>

/* Relative folders count as none, as the XDG Base Directory Specification wants it. */
static const char *folder_from(const char *variable)
{
    const char *folder = getenv(variable);
    return folder != NULL && folder[0] == '/' ? folder : NULL;
}

bool cache_folder_path(const char *name, char *path, size_t path_bytes)
{
    const char *const cache = folder_from("XDG_CACHE_HOME"), *const home = folder_from("HOME");
    if (cache == NULL && home == NULL) return false;
    const int length = cache != NULL ? snprintf(path, path_bytes, "%s/tutti/%s", cache, name)
                                     : snprintf(path, path_bytes, "%s/.cache/tutti/%s", home, name);
    return length >= 0 && (size_t)length < path_bytes;
}
