/* cache_folder.h - where files of this user lie that Tutti can make anew. */
#ifndef TUTTI_FORMAT_CACHE_FOLDER_H
#define TUTTI_FORMAT_CACHE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* The path of a file or folder there: $XDG_CACHE_HOME/tutti/NAME, or ~/.cache/tutti/NAME. False:
 * neither variable is a folder, or the path does not fit. Nothing is made or looked at. */
bool cache_folder_path(const char *name, char *path, size_t path_bytes);

#endif
