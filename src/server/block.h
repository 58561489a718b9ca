/* block.h - memory for values on their way: counted, and kept for the next ones.
 *
 * A step of training moves as many bytes as the step before it. Fresh memory of that size costs a
 * page fault every 4 KiB, which takes longer than to copy the values.
 *
 * Invariant: large blocks that are kept and those that are in use have together no more bytes than
 * were in use at once. One thread.
 */
#ifndef TUTTI_SERVER_BLOCK_H
#define TUTTI_SERVER_BLOCK_H

#include <stddef.h>
#include <stdint.h>

struct block;

struct block_pool { /* all zero at first */
    struct block *kept;
    uint64_t kept_bytes, used_bytes, used_bytes_max; /* of large blocks */
};

/* Frees what is kept; all blocks have been given back. */
void block_pool_release(struct block_pool *pool);
/* At least so many bytes, with undefined contents, aligned for all types. NULL: no memory. */
struct block *block_take(struct block_pool *pool, size_t bytes);
void block_give(struct block *block); /* NULL is allowed */
void *block_memory(struct block *block);

#endif
