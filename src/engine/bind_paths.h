/* bind_paths.h - finds the paths that the messages of a program's steps may take: a part of
 * binding, private to bind.c.
 *
 * The case of a message (struct path_case) follows from the plan alone: the traffic of its
 * collective, its readers, the work of its step, and how many ranks send to several. The table of
 * the peer (struct path_map) makes a list of paths from it.
 */
#ifndef TUTTI_ENGINE_BIND_PATHS_H
#define TUTTI_ENGINE_BIND_PATHS_H

#include "engine/bind.h"
#include "engine/wire.h"
#include "plan/flow.h"
#include "plan/layout.h"

struct binder {
    const struct rank_plan *plan;
    const struct bind_options *options;
    struct program *program;
    struct layout layout;
    size_t *begins; /* of the blocks in input and output, where they have counts of their own */
    size_t *scratch_offsets; /* one more than there are scratch chunks */
    struct plan_flow flow;
};

/* Writes down the paths of the messages that a bound step sends. NO_MEMORY. */
enum tutti_status bind_paths(struct binder *binder, const struct plan_step *step,
                             struct program_step *bound);
/* Whether a message that a step receives from a link, and stores as it comes, may come by that
 * path. */
bool bind_may_come(const struct binder *binder, const struct program_step *bound,
                   enum path_kind path);

/* The bytes of so many bytes of memory on a link of that encoding (NULL: as in memory). */
static inline size_t bind_wire_bytes(const struct binder *binder,
                                     const struct kernel_encoding *encoding, size_t bytes)
{
    return wire_bytes(encoding, binder->program->element_bytes, bytes);
}

/* The bytes of memory that a unit of the encoding, which there is, stands for. */
static inline size_t bind_unit_bytes(const struct binder *binder)
{
    return binder->options->encoding->unit_elements * binder->program->element_bytes;
}

/* The largest piece on a link. */
static inline size_t bind_piece_bytes_max(const struct bind_options *options)
{
    const size_t most = options->paths->tables[0]->sizes.piece_bytes_max;
    return most < options->piece_bytes_max ? most : options->piece_bytes_max;
}

#endif
