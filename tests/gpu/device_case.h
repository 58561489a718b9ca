/* device_case.h - one collective with buffers in memory of devices or of the host, in the order of
 * a stream or without one, in any form and shape, and what every byte of its buffers must be
 * afterwards.
 *
 *     device_case_draw ──► device_run_begin ──► device_run_end
 *     all ranks alike      fills, puts, calls   waits, gets, compares
 *
 * What is to be in the buffers lies in a spread (spread.h) in the host's memory. It is put into the
 * buffers by copies, and got from them by copies: in the stream where the call is in one, so that a
 * call which is not in the stream's order is found.
 */
#ifndef TUTTI_TESTS_GPU_DEVICE_CASE_H
#define TUTTI_TESTS_GPU_DEVICE_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"
#include "base/op.h"
#include "tests/kit/form.h"
#include "tests/kit/spread.h"

enum { DEVICE_CASE_RANKS = 8, DEVICE_CASE_BYTES = 6 << 20 };

enum placement { ALL_ON_DEVICE, SOME_RANKS, SOME_BUFFERS, ON_HOST, PLACEMENT_COUNT };
enum streaming { NO_STREAM, ALL_IN_STREAMS, SOME_IN_STREAMS };

/* The same on all ranks. Where rank r keeps which buffer comes from `draw`. */
struct device_case {
    enum collective collective;
    const char *algorithm; /* NULL: the library's choice */
    enum tutti_dtype dtype;
    enum op kind;
    int root, size;
    enum form form;
    enum call_shape shape;
    enum placement placement;
    enum streaming streaming;
    bool in_place, deterministic, without_displs;
    bool is_pinned; /* what lies in the host's memory */
    uint64_t draw;
    size_t counts[DEVICE_CASE_RANKS]
                 [DEVICE_CASE_RANKS]; /* from, to; row 0 alone where ranks have one block each */
};

/* All that is not said yet, from chance: collective, algorithm and size are. */
void device_case_draw(struct device_case *c, uint64_t draw);
/* Other elements for what was drawn. */
void device_case_set_type(struct device_case *c, enum tutti_dtype dtype, enum op kind);
/* Whether this rank's call is in a stream. */
bool device_case_in_stream(const struct device_case *c, int rank);

/* Memory of a rank for one call at a time, on the current device. It is not freed between calls: a
 * driver may wait for all that the device does before it frees memory, also for another rank's
 * operation, which waits for this rank. */
struct device_room {
    unsigned char *memory[2], *pinned[2],
        *images[2]; /* send, recv: of the device, of the host, and what is put there */
    void *stream;
};
void device_room_open(struct device_room *room);
void device_room_close(struct device_room *room);

struct device_side {
    struct spread spread;  /* without memory: none, or in place */
    unsigned char *target; /* where the buffer lies, as spread.memory */
    enum { SIDE_HERE, SIDE_PINNED, SIDE_ON_DEVICE } place; /* HERE: it is the spread itself */
    struct tutti_tensor *tensors;
    struct tutti_list list;
    size_t blocks;
};

/* A call of one rank. */
struct device_run {
    const struct device_case *c;
    const struct device_room *room;
    struct tutti_comm *comm;
    int rank;
    bool in_place, in_stream; /* here */
    enum form form;
    size_t own; /* in place, the element at which the smaller side begins */
    struct device_side sides[2];
    struct tutti_call_options options;
    struct form_call call;
    struct tutti_request *request;
    struct tutti_prepared *prepared;
    enum tutti_status status;
};

/* Makes the call; started, or in a stream, it need not be over. False: out of memory. */
bool device_run_begin(struct device_run *run, const struct device_case *c,
                      const struct device_room *room, struct tutti_comm *comm, int rank);
/* Waits until it is over, again for each run of a prepared call. 0: all is as it should be; else it
 * says what is not. */
int device_run_end(struct device_run *run);

#endif
