/* arena.h - memory that is given out in turn and comes back in any order: a ring of bytes, and
 * beside it a ring of marks, one for each piece that was given out, in their order. Room comes back
 * when the oldest pieces have.
 *
 *     ring    [ free | piece 5 | piece 6 | (7, given back) | piece 8 | free ]
 *               tail ──┘                                     head ──┘
 *
 * Allocates nothing itself. One thread.
 */
#ifndef TUTTI_GPU_ARENA_H
#define TUTTI_GPU_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GPU_ARENA_MARKS = 1024 };

struct gpu_arena {
    char *memory;
    size_t bytes;
    uint64_t head, tail; /* counted without end */
    struct {
        uint64_t end; /* the piece's, as head */
        bool is_back;
    } marks[GPU_ARENA_MARKS];
    uint32_t first, next; /* marks of pieces, counted without end */
};

static inline void gpu_arena_init(struct gpu_arena *arena, char *memory, size_t bytes)
{
    arena->memory = memory;
    arena->bytes = bytes;
    arena->head = arena->tail = 0;
    arena->first = arena->next = 0;
}

/* NULL: there is no room now. The mark is for giving it back. bytes: above 0, a multiple of 64. */
static inline char *gpu_arena_allocate(struct gpu_arena *arena, size_t bytes, uint32_t *mark)
{
    if (arena->next - arena->first == GPU_ARENA_MARKS) return NULL;
    uint64_t begin = arena->head;
    if (arena->first == arena->next)
        begin = arena->tail = 0;
    else if (begin % arena->bytes + bytes > arena->bytes)
        begin += arena->bytes - begin % arena->bytes; /* in one piece */
    if (begin + bytes - arena->tail > arena->bytes) return NULL;
    arena->head = begin + bytes;
    *mark = arena->next++;
    arena->marks[*mark % GPU_ARENA_MARKS].end = arena->head;
    arena->marks[*mark % GPU_ARENA_MARKS].is_back = false;
    return arena->memory + begin % arena->bytes;
}

static inline void gpu_arena_give_back(struct gpu_arena *arena, uint32_t mark)
{
    arena->marks[mark % GPU_ARENA_MARKS].is_back = true;
    while (arena->first != arena->next && arena->marks[arena->first % GPU_ARENA_MARKS].is_back) {
        arena->tail = arena->marks[arena->first % GPU_ARENA_MARKS].end;
        arena->first++;
    }
}

#endif
