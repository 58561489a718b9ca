/* checkpoint_agree.h - how ranks exchange what all of them must know about a checkpoint: whether
 * all is well, and their tables. */
#ifndef TUTTI_TRAIN_CHECKPOINT_AGREE_H
#define TUTTI_TRAIN_CHECKPOINT_AGREE_H

#include "checkpoint_table.h"

/* `status` is this rank's, with its message. All ranks return the status of the lowest rank that
 * failed, with that message. Collective. */
enum tutti_status checkpoint_agree(struct tutti_comm *comm, enum tutti_status status);

enum { AGREE_NUMBERS_MAX = 4 };
struct agree_number {
    const char *name;
    uint64_t value;
};
/* Like checkpoint_agree, and MISMATCH unless all ranks have the same numbers; the message, which
 * begins with `function`, says which rank has a different number. Collective. */
enum tutti_status checkpoint_agree_on(struct tutti_comm *comm, enum tutti_status status,
                                      const char *function, const struct agree_number *numbers,
                                      size_t count);
/* Whether the answer is yes on all ranks that succeeded until now; as checkpoint_agree.
 * Collective. */
enum tutti_status checkpoint_agree_whether(struct tutti_comm *comm, enum tutti_status status,
                                           bool answer, bool *is_yes);

/* Gives all ranks `table_count` tables. Rank r has the bytes of the tables r, r + ranks, ..., one
 * behind the other; it sets their sizes in sizes[r] and so on, where other ranks have 0. The caller
 * releases the tables, and frees *tables. CORRUPT (a table is damaged), NO_MEMORY; otherwise as
 * checkpoint_agree. Collective. */
enum tutti_status checkpoint_agree_on_tables(struct tutti_comm *comm, enum tutti_status status,
                                             const unsigned char *bytes, const int64_t *sizes,
                                             size_t table_count, struct table **tables);
void checkpoint_agree_release_tables(struct table *tables, size_t count);

#endif
