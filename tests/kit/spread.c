#include "tests/kit/spread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tutti/encode.h"

enum { GUARD_BYTES = 64, GUARD = 0xa7, POISON = 0x5b };

uint64_t spread_random(uint64_t *state)
{
    *state += 1;
    return elements_mixed(*state, 3);
}

/* ----------------------------------------------------------------------------------- life cycle */

static void shuffle(size_t *order, size_t count, uint64_t *random)
{
    for (size_t i = count; i > 1; i--) {
        const size_t j = spread_random(random) % i, kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
}

static bool place_pieces(struct spread *spread, enum spread_order order, uint64_t *random,
                         size_t *span)
{
    size_t *const turns = malloc((spread->piece_count + 1) * sizeof *turns);
    if (turns == NULL) return false;
    for (size_t i = 0; i < spread->piece_count; i++) turns[i] = i;
    if (order == SPREAD_SHUFFLED) shuffle(turns, spread->piece_count, random);
    *span = 0;
    for (size_t i = 0; i < spread->piece_count; i++) {
        if (order != SPREAD_PACKED) *span += spread_random(random) % 4;
        spread->offsets[turns[i]] = *span;
        *span += spread->counts[turns[i]];
        spread->count += spread->counts[turns[i]];
    }
    free(turns);
    return true;
}

/* The elements of a fenced one end at a page, or begin there. */
static bool allocate_fenced(struct spread *spread, size_t span_bytes, size_t shift)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t inner = (span_bytes + shift + GUARD_BYTES + page - 1) / page * page;
    spread->region_bytes = inner + 2 * page;
    spread->region = mmap(NULL, spread->region_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (spread->region == MAP_FAILED) {
        spread->region = NULL;
        return false;
    }
    spread->memory = spread->region + page;
    spread->bytes = inner;
    spread->base = spread->kind == SPREAD_FENCED_BEGIN ? spread->memory + shift
                                                       : spread->memory + inner - shift - span_bytes;
    return mprotect(spread->memory, inner, PROT_READ | PROT_WRITE) == 0;
}

static bool allocate(struct spread *spread, size_t span_bytes, size_t shift)
{
    if (spread->kind >= SPREAD_FENCED_END) return allocate_fenced(spread, span_bytes, shift);
    spread->bytes = (span_bytes + shift + 2 * GUARD_BYTES + 63) / 64 * 64;
    void *memory = NULL;
    if (spread->kind == SPREAD_HEAP)
        memory = aligned_alloc(64, spread->bytes);
    else if (tutti_mem_alloc(spread->bytes, &memory) != TUTTI_OK)
        return false;
    spread->memory = memory;
    spread->base = spread->memory + GUARD_BYTES + shift;
    return memory != NULL;
}

bool spread_init(struct spread *spread, const size_t *counts, size_t piece_count,
                 size_t element_bytes, enum spread_order order, size_t shift, uint64_t *random)
{
    return spread_init_in(spread, SPREAD_HEAP, counts, piece_count, element_bytes, order, shift,
                          random);
}

bool spread_init_in(struct spread *spread, enum spread_memory kind, const size_t *counts,
                    size_t piece_count, size_t element_bytes, enum spread_order order, size_t shift,
                    uint64_t *random)
{
    *spread =
        (struct spread){.element_bytes = element_bytes, .piece_count = piece_count, .kind = kind};
    spread->counts = malloc((piece_count + 1) * sizeof *spread->counts);
    spread->offsets = malloc((piece_count + 1) * sizeof *spread->offsets);
    if (spread->counts == NULL || spread->offsets == NULL) return false;
    for (size_t i = 0; i < piece_count; i++) spread->counts[i] = counts[i];
    size_t span;
    if (!place_pieces(spread, order, random, &span)) return false;
    if (!allocate(spread, span * element_bytes, shift)) return false;
    spread->expected = malloc(spread->bytes);
    if (spread->expected == NULL) return false;
    memset(spread->memory, GUARD, spread->bytes);
    return true;
}

void spread_release(struct spread *spread)
{
    free(spread->counts);
    free(spread->offsets);
    if (spread->region != NULL)
        munmap(spread->region, spread->region_bytes);
    else if (spread->kind == SPREAD_MAPPED)
        (void)tutti_mem_free(spread->memory);
    else
        free(spread->memory);
    free(spread->expected);
    *spread = (struct spread){0};
}

/* ------------------------------------------------------------------------------------- elements */

/* The part of a piece that lies at places from first to end; false: none of it. begin is the place
 * of the piece. */
static bool overlap(const struct spread *spread, size_t piece, size_t begin, size_t first,
                    size_t end, size_t *skip, size_t *count)
{
    const size_t low = begin > first ? begin : first;
    const size_t piece_end = begin + spread->counts[piece], high = piece_end < end ? piece_end : end;
    if (low >= high) return false;
    *skip = low - begin;
    *count = high - low;
    return true;
}

void spread_put(struct spread *spread, bool expected, size_t first, size_t count,
                const struct elements *table, size_t first_index)
{

    unsigned char *const base =
        expected ? spread->expected + (spread->base - spread->memory) : spread->base;
    for (size_t piece = 0, begin = 0; piece < spread->piece_count; begin += spread->counts[piece++]) {
        size_t skip, here;
        if (!overlap(spread, piece, begin, first, first + count, &skip, &here)) continue;
        elements_fill(base + (spread->offsets[piece] + skip) * spread->element_bytes, table,
                      first_index + begin + skip - first, here);
    }
}

void spread_poison(struct spread *spread, size_t first, size_t count)
{
    for (size_t piece = 0, begin = 0; piece < spread->piece_count; begin += spread->counts[piece++]) {
        size_t skip, here;
        if (overlap(spread, piece, begin, first, first + count, &skip, &here))
            memset(spread->base + (spread->offsets[piece] + skip) * spread->element_bytes, POISON,
                   here * spread->element_bytes);
    }
}

void spread_expect(struct spread *spread)
{
    memcpy(spread->expected, spread->memory, spread->bytes);
}

/* As float32; the dtypes of 16 bits are encodings of it. */
static float real_of(enum tutti_dtype dtype, const unsigned char *element)
{
    float value = 0;
    if (dtype == TUTTI_FLOAT32)
        memcpy(&value, element, sizeof value);
    else if (tutti_decode(dtype == TUTTI_BFLOAT16 ? TUTTI_ENCODING_BFLOAT16 : TUTTI_ENCODING_FLOAT16,
                          TUTTI_FLOAT32, element, 1, &value) != TUTTI_OK)
        abort();
    return value;
}

static void accept_piece(struct spread *spread, size_t offset, size_t count, enum tutti_dtype dtype,
                         double tolerance)
{
    const size_t bytes = spread->element_bytes;
    const unsigned char *seen = spread->base + offset * bytes;
    unsigned char *expected = spread->expected + (seen - spread->memory);
    for (size_t i = 0; i < count; i++, seen += bytes, expected += bytes)
        if (memcmp(seen, expected, bytes) != 0 &&
            fabs((double)real_of(dtype, seen) - (double)real_of(dtype, expected)) <= tolerance)
            memcpy(expected, seen, bytes);
}

void spread_accept(struct spread *spread, size_t first, size_t count, enum tutti_dtype dtype,
                   double tolerance)
{
    for (size_t piece = 0, begin = 0; piece < spread->piece_count && tolerance > 0;
         begin += spread->counts[piece++]) {
        size_t skip, here;
        if (overlap(spread, piece, begin, first, first + count, &skip, &here))
            accept_piece(spread, spread->offsets[piece] + skip, here, dtype, tolerance);
    }
}

uint64_t spread_number(const struct spread *spread, size_t first, size_t count)
{
    uint64_t number = count;
    for (size_t piece = 0, begin = 0; piece < spread->piece_count; begin += spread->counts[piece++]) {
        size_t skip, here;
        if (!overlap(spread, piece, begin, first, first + count, &skip, &here)) continue;
        const unsigned char *at =
            spread->base + (spread->offsets[piece] + skip) * spread->element_bytes;
        for (size_t i = 0; i < here * spread->element_bytes; i++)
            number = (number ^ at[i]) * 0x100000001b3u;
    }
    return number;
}

bool spread_is_wrong(const struct spread *spread, long *byte)
{
    for (size_t i = 0; memcmp(spread->memory, spread->expected, spread->bytes) != 0; i++)
        if (spread->memory[i] != spread->expected[i]) {
            *byte = (long)i - (long)(spread->base - spread->memory);
            return true;
        }
    return false;
}

size_t spread_tensors(const struct spread *spread, size_t first, size_t count,
                      struct tutti_tensor *tensors)
{
    size_t tensor_count = 0;
    for (size_t piece = 0, begin = 0; piece < spread->piece_count; begin += spread->counts[piece++]) {
        size_t skip = 0, here = 0;
        if (!overlap(spread, piece, begin, first, first + count, &skip, &here) &&
            spread->counts[piece] > 0)
            continue;
        tensors[tensor_count++] = (struct tutti_tensor){
            spread->base + (spread->offsets[piece] + skip) * spread->element_bytes, here};
    }
    return tensor_count;
}
