/* encoded.h - which links of a call are encoded, and how: what the call or the communicator's rules
 * wish (base/encoding_wish.h), as far as the call can have it.
 *
 *     wish of the call ──┐
 *     rules, by size ────┴─► can it? ──► places: the links between which ranks are encoded ──► the choice of the algorithm
 *                              └─ no: a wish of the call is refused; of the rules, the call goes as it is
 *
 * Messages are encoded by their senders, as if each was a broadcast on two ranks. A receive
 * finds the encoding that it agrees to from its own wish, and from dtype, size and sender of the
 * message.
 */
#ifndef TUTTI_CALL_ENCODED_H
#define TUTTI_CALL_ENCODED_H

#include <stdbool.h>

#include "base/encoding_wish.h"
#include "call/communicator.h"
#include "call/request.h"
#include "kernel/format.h"
#include "tune/choose.h"

struct call_encoding {
    struct encoding_wish wish;
    const struct kernel_encoding *encoding; /* NULL: nothing is encoded */
    const int *places; /* of each rank: links between different ones are encoded (plan/rounding.h); the communicator's */
    const char *why_not; /* nothing is encoded although there is a wish: a static text; else NULL */
};

/* The parts of a call on which the decision rests. */
struct call_to_encode {
    enum collective collective;
    enum tutti_dtype dtype;
    enum op op;
    size_t bytes; /* of a block, as all ranks know them */
    bool varies, deterministic;
    uint16_t wish; /* of the call, packed; 0: the rules decide */
};

/* Decides for a call all that does not depend on times. The same on all ranks. Domain held, or
 * nothing else runs. */
void call_encoding_find(const struct tutti_comm *comm, const struct call_to_encode *call,
                        struct call_encoding *found);
/* Chooses the algorithm of a call, where it is encoded one that keeps replicas alike. A permission
 * is taken if the model expects the call to be faster; otherwise nothing is encoded then, and
 * found->why_not says why. The errors of choose_algorithm. */
enum tutti_status call_encoding_choose(struct choose_call *wanted, struct call_encoding *found,
                                       struct choice *choice);
/* A message between this rank and `peer`, with that wish of the call, packed. For a
 * receive, *found is the encoding that it agrees to. Domain held. */
void call_encoding_find_message(const struct tutti_comm *comm, uint16_t wish, enum tutti_dtype dtype,
                                size_t bytes, int peer, struct call_encoding *found);
/* The sender's decision: of a permission that is not required, whether the model expects it
 * to be faster. As call_encoding_choose. NO_MEMORY. Domain held. */
enum tutti_status call_encoding_choose_message(const struct tutti_comm *comm, enum tutti_dtype dtype,
                                               size_t bytes, int peer, struct call_encoding *found);
/* Why such a call cannot be encoded so at all, a static text; NULL: it can, or the wish is none. */
const char *call_encoding_why_never(const struct call_to_encode *call,
                                    const struct encoding_wish *wish);

#endif
