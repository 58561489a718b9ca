/* exchange.h - ranks of one job hand each other small values before they can talk: over what
 * started them, or over a folder that all of them see.
 *
 *     exchange_put(e, "address", mine, bytes)          on every rank
 *     exchange_fence(e, deadline)                      on every rank: what was put before it can be got after it
 *     exchange_get(e, rank, "address", ...)            on any rank, any number of times
 *     exchange_fence(e, deadline)                      before the close: nobody reads any more
 *     exchange_close(e)
 *
 *  1. All ranks of the job open with the same means, put under different keys only (of their own:
 *     another rank's key of the same name is another one), and make the same fences in the same
 *     order.
 *  2. Nothing waits longer than its deadline (PMIx's own connecting and leaving excepted, see
 *     pmix_service.h). A deadline's message names the missing ranks where the means lets them be
 *     known: the folder does.
 *  3. Values are foreign bytes: they are as long as they say and fit the buffer, nothing more is
 *     checked.
 *  4. After a failed fence, or one that ran out of time, only exchange_close makes sense.
 *
 *  5. A process may open one after the other, in the same order on all ranks.
 *
 * Not for the hot path, not for large values, and not for more than one thread at a time.
 */
#ifndef TUTTI_BOOTSTRAP_EXCHANGE_H
#define TUTTI_BOOTSTRAP_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "bootstrap/launcher.h"
#include "tutti/tutti.h"

enum {
    EXCHANGE_KEY_CHARACTERS_MAX = 24, /* letters, digits, '-' and '_' */
    EXCHANGE_VALUE_BYTES_MAX = 4096
};

/* The means that a caller allows, or-ed; the first that is there is taken, in this order. */
enum exchange_means {
    /* TUTTI_RENDEZVOUS_DIR names a folder that all ranks see. NFS will do; a file appears there for
     * others as late as its attribute cache allows, which may be many seconds. */
    EXCHANGE_FOLDER = 1,
    EXCHANGE_PMIX = 2, /* may be used beside an MPI library in this process: PMIx counts its users */
    /* A process has one PMI-1 connection, which is ours from the first exchange until exit(): a
     * process that ends otherwise has failed, for its manager. Allow this only when no MPI library
     * in the process has begun to use it or will want to: the first reader would get the
     * answers. */
    EXCHANGE_PMI1 = 4
};

struct exchange;

/* Opens an exchange. UNSUPPORTED when none of the means is there; the message says which of them
 * were looked for. place must say rank and size and is not needed afterwards. Blocks until the
 * deadline at most: rank 0 of a folder, until all ranks have come. The caller owns *exchange
 * (NULL on failure). */
enum tutti_status exchange_open(const struct launcher_facts *facts, unsigned means,
                                uint64_t deadline_ns, struct exchange **exchange);
/* The means by which it goes. */
enum exchange_means exchange_means_of(const struct exchange *exchange);
/* Puts value under this rank's key; the bytes are copied. Each key once. */
enum tutti_status exchange_put(struct exchange *exchange, const char *key, const void *value,
                               size_t value_bytes, uint64_t deadline_ns);
/* Blocks until all ranks are here, or the deadline. */
enum tutti_status exchange_fence(struct exchange *exchange, uint64_t deadline_ns);
/* Copies what `rank` put before the last fence into the buffer. INVALID_OPTIONS when it does not
 * fit. */
enum tutti_status exchange_get(struct exchange *exchange, int rank, const char *key, void *buffer,
                               size_t buffer_bytes, size_t *value_bytes, uint64_t deadline_ns);
/* Leaves; does not wait for the others, and what this rank put may be gone afterwards. NULL is
 * fine. */
void exchange_close(struct exchange *exchange);

#endif
