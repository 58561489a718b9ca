/* stored_folder.h - the plans of a folder, which a process reads once.
 *
 *     FOLDER/any.plan                        on any machines
 *     FOLDER/2-hosts/some.plan               on 2 hosts, wherever they are
 *     FOLDER/4-hosts-2-racks/others.plan     on 4 hosts in 2 racks
 *
 * The number of ranks is in each plan. Other files and folders are not looked at.
 */
#ifndef TUTTI_COMM_STORED_FOLDER_H
#define TUTTI_COMM_STORED_FOLDER_H

#include <stdint.h>

#include "comm/stored_plan.h"

enum { STORED_FOLDER_PLANS_MAX = 256 };

struct stored_place {
    struct stored_plan *plan;
    int host_count, rack_count; /* 0: any */
};

/* A file that cannot be used, so that nobody knows what is in it. */
struct stored_refusal {
    char *name; /* "file:PATH" */
    char *why;
};

struct stored_folder {
    int refusal_count;
    struct stored_refusal *refusals; /* sorted by name */
    int count;
    uint64_t fingerprint; /* of names, from the folder on, and plans: the same on ranks that have the same */
    struct stored_place places[]; /* sorted by name */
};

/* For good, and the same every time. A file that is no plan, or one that others can write, is
 * refused, and the log says so. INVALID_OPTIONS: the folder cannot be read, or has more than
 * STORED_FOLDER_PLANS_MAX plans. TIMEOUT, ABORTED: the limits, of which each plan has the work and
 * memory; the next caller tries again. NO_MEMORY. Any thread; blocks until the deadline of the
 * limits, or as long as the file system does. */
enum tutti_status stored_folder_find(const char *path, const struct plan_budget *limits,
                                     const struct stored_folder **folder);

#endif
