/* profile.h - the last steps of all ranks in one file, which Perfetto (ui.perfetto.dev) and
 * chrome://tracing open.
 *
 *     rank 3     computing   the spans of its timeline (timeline.h), waiting in them
 *                dp, tp, pp  operations along each axis, from the library's flight recorder: also those that go on while the
 *                            rank computes; where several do at once, on several lines
 *
 * The file is in the JSON format of Chrome's traces. All times are of rank 0's clock (clocks.h),
 * from the beginning of the first of these steps. Each rank keeps at most PROFILE_OPERATIONS_MAX
 * operations and TIMELINE_SPANS_MAX spans; what is left out is said in the file.
 */
#ifndef GPT_PROFILE_H
#define GPT_PROFILE_H

#include <stdio.h>

#include "mesh.h"
#include "timeline.h"

enum { PROFILE_OPERATIONS_MAX = 1 << 18 };

struct profile_track {
    struct tutti_comm *comm; /* NULL: there is nobody else along this axis */
    enum tutti_trace_of of;
    uint64_t next; /* number of what was not read yet */
};

struct profile_operation {
    struct tutti_trace_entry entry;
    unsigned track;
};

struct profile {
    const struct mesh *mesh; /* borrowed, as the timeline */
    struct timeline *timeline;
    FILE *file;       /* of rank 0 */
    const char *path; /* borrowed; NULL: no profile is wanted */
    bool keeps;
    uint64_t began_ns;
    struct profile_track tracks[2 * AXES]; /* collectives and messages of each axis */
    struct profile_operation *operations;
    size_t count, room, left_out;
};

/* Rank 0 opens the file, so a path that cannot be written is noticed before the training. With a
 * path of NULL the other functions do nothing. */
void profile_init(struct profile *profile, const struct mesh *mesh, struct timeline *timeline,
                  const char *path);
void profile_release(struct profile *profile);

/* From now on everything is kept. */
void profile_begin(struct profile *profile);

/* Reads what the flight recorder has; at least once in every 500 operations along an axis, or some
 * are lost. */
void profile_read(struct profile *profile);

/* Writes the file. Collective. */
void profile_write(struct profile *profile);

#endif
