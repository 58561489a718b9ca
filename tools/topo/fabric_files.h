/* fabric_files.h - reads small files and folders of the operating system, or copies of
 * them. */
#ifndef TUTTI_TOOLS_TOPO_FABRIC_FILES_H
#define TUTTI_TOOLS_TOPO_FABRIC_FILES_H

#include <stdbool.h>
#include <stddef.h>

enum { FABRIC_PATH_SIZE = 1024, FABRIC_TEXT_SIZE = 128, FABRIC_NAMES_MAX = 256 };

struct fabric_names {
    char *names[FABRIC_NAMES_MAX];
    int count;
};

/* Makes the path from root; if it does not fit, the path is one that does not exist. */
void fabric_path(char path[static FABRIC_PATH_SIZE], const char *root, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Reads the first line without its newline, cut if it does not fit; false, and an empty text: it
 * cannot be read. */
bool fabric_read(const char *path, char text[static FABRIC_TEXT_SIZE]);
/* Lists the entries of a folder that begin with prefix, in the order of their names and numbers;
 * none if there is no such folder. The caller releases them. */
void fabric_list(const char *folder, const char *prefix, struct fabric_names *names);
void fabric_names_release(struct fabric_names *names);
/* Reads the last part of the target of a link; an empty text: there is none. */
void fabric_read_link(const char *path, char text[static FABRIC_TEXT_SIZE]);

#endif
