/* read.h - reads dumps from files and folders. */
#ifndef TUTTI_TOOLS_TRACE_READ_H
#define TUTTI_TOOLS_TRACE_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "studio/trace/trace_json.h"

enum { UNREAD_NAMED_MAX = 64 };

/* A file that is no dump, or cannot be read. */
struct unread {
    char *path; /* without what a terminal obeys */
    char why[200];
};

/* Any number of dumps; zeros at the beginning, but for what the owner wants, and released by its
 * owner, also after a failure. */
struct traces {
    struct trace_json *all;
    size_t count, room, entry_count;
    bool goes_on;              /* wanted: past files that cannot be read, which are listed */
    size_t most, most_entries; /* wanted: no dump is read once there are so many dumps, or calls and
                                  messages in them; most 0: all are read */
    size_t left_out;           /* files behind those */
    struct unread unread[UNREAD_NAMED_MAX];
    size_t unread_count; /* of which the first ones are named */
};

void traces_release(struct traces *traces);
/* False: the file cannot be read, or is no dump, or the folder has none; then the reason is on
 * stderr. A folder is read in the order of its names. */
bool traces_add_file(struct traces *traces, const char *path);
bool traces_add_folder(struct traces *traces, const char *folder);
/* A folder or a file. */
bool traces_add(struct traces *traces, const char *path);

/* Prints a message to stderr, with the program's name. Returns false. */
__attribute__((format(printf, 1, 2))) bool trace_complain(const char *format, ...);

#endif
