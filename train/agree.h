/* agree.h - the end of a call with which all ranks make something: whether all could, and gave the
 * same arguments. If not, the message says which rank could not, or has what other arguments. */
#ifndef TUTTI_TRAIN_AGREE_H
#define TUTTI_TRAIN_AGREE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "tutti/tutti.h"

/* Writes a line for each argument that all ranks have to give alike: its name, and its value. Only
 * ranks that differ are asked. */
typedef void agree_describe(const void *context, FILE *lines);

struct agreement {
    const char *function; /* of the interface, as messages begin */
    int64_t fingerprint;  /* of the same arguments; not INT64_MIN. 0 after a failure. */
    agree_describe *describe;
    const void *context; /* passed to it */
};

/* `status` is that of this rank's own work, with its message. Returns it if that failed. MISMATCH
 * if the work of another rank failed, whose message it gives, or if fingerprints differ. is_common
 * may be NULL: it becomes true if it is true on all ranks. INVALID_REQUEST: this thread has a group
 * open. Collective. */
enum tutti_status agree_on_making(struct tutti_comm *comm, enum tutti_status status,
                                  const struct agreement *agreement, bool *is_common);

#endif
