/* payload.h - memory for values on their way: counted, and kept for the next ones.
 *
 * A step of training moves as many bytes as the step before it. Fresh memory of that size costs a
 * page fault every 4 KiB, which takes longer than to copy the values.
 *
 * Invariant: large blocks that are kept and those that are in use have together no more bytes than
 * were in use at once. One thread.
 */
#ifndef TUTTI_SERVER_PAYLOAD_H
#define TUTTI_SERVER_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

struct payload; /* a block */

struct payload_pool { /* all zero at first */
    struct payload *kept;
    uint64_t kept_bytes, used_bytes, used_bytes_max; /* of large blocks */
};

/* Frees what is kept; all blocks have been given back. */
void payload_pool_release(struct payload_pool *pool);
/* At least so many bytes, with undefined contents, aligned for all types. NULL: no memory. */
struct payload *payload_take(struct payload_pool *pool, size_t bytes);
void payload_give(struct payload *payload); /* NULL is allowed */
void *payload_bytes(struct payload *payload);

#endif
