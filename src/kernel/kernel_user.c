/* kernel_user.c - operations of the user's, block by block, so that intermediate results stay in
 * the cache.
 *
 *     sources[0] ─┐
 *     sources[1] ─┴─ combine ─► partial ─┐
 *     sources[2] ────────────────────────┴─ combine ─► partial ─ ... ─► destination ─► also, others
 *
 * The destination and others may be any of the sources, so nothing is written there before the last
 * source has been read; combine may write to either of its operands. Nothing is divided or
 * multiplied afterwards, and nothing is stored past the caches.
 */
#include <assert.h>
#include <string.h>

#include "base/dtype.h"
#include "kernel/kernel_level.h"

enum { BLOCK_BYTES = 8192 };

/* count elements, `offset` bytes into the buffers. */
static void reduce_block(const struct kernel_call *call, size_t offset, size_t count)
{
    const struct tutti_operation *const operation = call->operation;
    _Alignas(64) unsigned char partial[BLOCK_BYTES];
    unsigned char *const destination = (unsigned char *)call->destination + offset;
    const unsigned char *left = (const unsigned char *)call->sources[0] + offset;
    for (unsigned s = 1; s < call->source_count; s++) {
        unsigned char *const result = s + 1 == call->source_count ? destination : partial;
        operation->combine(left, (const unsigned char *)call->sources[s] + offset, result, count,
                           call->dtype, operation->context);
        left = result;
    }
}

void kernel_reduce_user(const struct kernel_call *call)
{
    assert(call->divisor == 0 && call->factor == 0);
    const size_t element_bytes = tutti_dtype_size(call->dtype);
    const size_t bytes = call->count * element_bytes;
    if (call->source_count == 1 && call->destination != call->sources[0] && bytes != 0)
        memcpy(call->destination, call->sources[0], bytes);
    for (size_t offset = 0; offset < bytes; offset += BLOCK_BYTES) {
        const size_t block = bytes - offset < BLOCK_BYTES ? bytes - offset : BLOCK_BYTES;
        reduce_block(call, offset, block / element_bytes);
        const unsigned char *const result = (const unsigned char *)call->destination + offset;
        if (call->also != NULL) memcpy((unsigned char *)call->also + offset, result, block);
        for (unsigned i = 0; i < call->other_count; i++)
            memcpy((unsigned char *)call->others[i] + offset, result, block);
    }
}
