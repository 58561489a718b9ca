/* read.h - reads dumps from files and folders. */
#ifndef TUTTI_TOOLS_TRACE_READ_H
#define TUTTI_TOOLS_TRACE_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "studio/trace/trace_json.h"

/* Any number of dumps; zeros at the beginning, and released by its owner, also after a failure. */
struct traces {
    struct trace_json *all;
    size_t count, room;
};

void traces_release(struct traces *traces);
/* False: the file cannot be read, or is no dump, or the folder has none; then the reason is on
 * stderr. */
bool traces_add_file(struct traces *traces, const char *path);
bool traces_add_folder(struct traces *traces, const char *folder);
/* A folder or a file. */
bool traces_add(struct traces *traces, const char *path);

/* Prints a message to stderr, with the program's name. Returns false. */
__attribute__((format(printf, 1, 2))) bool trace_complain(const char *format, ...);

#endif
