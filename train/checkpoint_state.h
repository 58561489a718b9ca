/* checkpoint_state.h - the state that the files of the checkpoints share: the plan for saving, and
 * the checkpoint that is being written.
 *
 *     caller's thread    save: ── wait for the one before ── compare descriptions, plan ── copy ──┐           ── save: ...
 *     writing thread                                                            shard ── all agree ── manifest ── all agree
 *
 * 1. The communicator belongs to the writing thread while there is one, and otherwise to the
 *    caller.
 * 2. The same holds for everything in `writing`. The thread is joined before the caller reads it.
 * 3. The plan holds until a rank describes its tensors in another way.
 */
#ifndef TUTTI_TRAIN_CHECKPOINT_STATE_H
#define TUTTI_TRAIN_CHECKPOINT_STATE_H

#include <pthread.h>

#include "base/status.h"
#include "checkpoint_agree.h"
#include "checkpoint_folder.h"
#include "checkpoint_part.h"
#include "checkpoint_share.h"
#include "tutti/train/checkpoint.h"

/* The elements that this rank writes, as long as its tensors are described by these bytes. */
struct save_plan {
    struct table_bytes described;
    struct share *shares; /* of the parts */
    size_t share_count;
    struct table_bytes table; /* of what is written */
    uint64_t data_bytes;
    char *copy; /* [data_bytes] */
    bool is_made;
};

struct writing {
    bool is_on, has_thread;
    pthread_t thread;
    uint64_t step;
    uint64_t began_ns, ended_ns, bytes;
    enum tutti_status status;
    char message[ERROR_TEXT_MAX];
};

struct tutti_checkpoints {
    struct tutti_checkpoints_options options;
    struct tutti_comm *comm;
    int rank, size;
    struct folder folder;
    struct save_plan plan;
    struct writing writing;
    struct tutti_checkpoints_counters counters;
};

/* Writes the elements of the plan as the checkpoint writing.step; sets the rest of `writing`.
 * Collective. */
void checkpoint_write(struct tutti_checkpoints *checkpoints);

#endif
