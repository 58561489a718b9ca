#include "tutti-perf_buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GUARD_BYTES = 64,
    PAGE_BYTES = 4096,
    PIECE = 2048, /* elements compared at once, from the stack */
    GUARD = 0xa5,
    POISON = 0xfb /* as an element: not a value of any pattern */
};

/* --------------------------------------------------------------------------------------------- life cycle */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t region_bytes(size_t bytes)
{
    return (bytes + GUARD_BYTES + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* Private regions come one by one, as an application's would; mapped ones lie in the arena. */
static unsigned char *region_take(struct buffers *buffers, size_t *used, size_t bytes)
{
    if (buffers->arena) {
        unsigned char *const region = (unsigned char *)buffers->arena + *used;
        *used += region_bytes(bytes);
        return region;
    }
    void *region = NULL;
    if (posix_memalign(&region, PAGE_BYTES, bytes + GUARD_BYTES)) return NULL;
    return region;
}

static bool set_init(struct buffers *buffers, struct buffer_set *set, size_t *used)
{
    const size_t block_bytes = buffers->shape.count * buffers->element_bytes;
    const size_t own_block = (size_t)buffers->shape.rank * block_bytes;
    if (buffers->aliased) {
        const size_t bytes = larger(buffers->send_bytes, buffers->recv_bytes);
        unsigned char *const region = region_take(buffers, used, bytes);
        if (!region) return false;
        memset(region, 0, bytes);
        memset(region + bytes, GUARD, GUARD_BYTES);
        set->send = buffers->send_bytes < bytes ? region + own_block : region;
        set->recv = buffers->recv_bytes < bytes ? region + own_block : region;
        return true;
    }
    if (buffers->operation->send_blocks(&buffers->shape)) {
        set->send = region_take(buffers, used, buffers->send_bytes);
        if (!set->send) return false;
        memset(set->send, 0, buffers->send_bytes);
        memset(set->send + buffers->send_bytes, GUARD, GUARD_BYTES);
    }
    if (buffers->operation->recv_blocks(&buffers->shape)) {
        set->recv = region_take(buffers, used, buffers->recv_bytes);
        if (!set->recv) return false;
        memset(set->recv, 0, buffers->recv_bytes);
        memset(set->recv + buffers->recv_bytes, GUARD, GUARD_BYTES);
    }
    return true;
}

enum tutti_status buffers_init(struct buffers *buffers, const struct operation *operation,
                               const struct shape *shape, size_t element_bytes, bool in_place,
                               bool mapped, int set_count)
{
    const size_t block_bytes = shape->count * element_bytes;
    const size_t send_blocks = operation->send_blocks(shape);
    const size_t recv_blocks = operation->recv_blocks(shape);
    *buffers = (struct buffers){
        .operation = operation,
        .shape = *shape,
        .element_bytes = element_bytes,
        .send_bytes = send_blocks * block_bytes,
        .recv_bytes = recv_blocks * block_bytes,
        .aliased = in_place && send_blocks && recv_blocks,
        .mapped = mapped,
        .set_count = set_count,
        .sets = calloc((size_t)set_count, sizeof(struct buffer_set)),
    };
    if (!buffers->sets) return TUTTI_NO_MEMORY;
    if (mapped) {
        const size_t set_bytes =
            region_bytes(buffers->send_bytes) + region_bytes(buffers->recv_bytes);
        const enum tutti_status status =
            tutti_mem_alloc((size_t)set_count * set_bytes, &buffers->arena);
        if (status != TUTTI_OK) {
            buffers_release(buffers);
            return status;
        }
    }
    size_t used = 0;
    for (int set = 0; set < set_count; set++)
        if (!set_init(buffers, &buffers->sets[set], &used)) {
            buffers_release(buffers);
            return TUTTI_NO_MEMORY;
        }
    return TUTTI_OK;
}

static void *region_start(const struct buffers *buffers, const struct buffer_set *set)
{
    return buffers->send_bytes > buffers->recv_bytes ? set->send : set->recv;
}

void buffers_release(struct buffers *buffers)
{
    for (int i = 0; !buffers->mapped && i < buffers->set_count; i++) {
        const struct buffer_set *const set = &buffers->sets[i];
        if (buffers->aliased) {
            free(region_start(buffers, set));
        } else {
            free(set->send);
            free(set->recv);
        }
    }
    tutti_mem_free(buffers->arena);
    free(buffers->sets);
    *buffers = (struct buffers){0};
}

/* ------------------------------------------------------------------------------------------------- filling */

static size_t elements(const struct buffers *buffers, size_t bytes)
{
    return bytes / buffers->element_bytes;
}

void buffers_fill(struct buffers *buffers, int set, const struct pattern *pattern)
{
    const struct buffer_set *const s = &buffers->sets[set];
    if (s->recv) memset(s->recv, POISON, buffers->recv_bytes);
    if (s->send)
        value_inputs(pattern, buffers->shape.rank, 0, elements(buffers, buffers->send_bytes),
                     s->send);
}

void buffers_fill_for_timing(struct buffers *buffers, int set, const struct pattern *pattern)
{
    const struct buffer_set *const s = &buffers->sets[set];
    if (buffers->aliased) {
        memset(region_start(buffers, s), 0, larger(buffers->send_bytes, buffers->recv_bytes));
        return;
    }
    buffers_fill(buffers, set, pattern);
    if (s->recv) memset(s->recv, 0, buffers->recv_bytes);
}

/* ------------------------------------------------------------------------------------------------ checking */

struct findings {
    size_t wrong;
    char *text;
    size_t text_bytes;
};

static void found_element(struct findings *findings, const char *where, size_t index,
                          enum tutti_dtype dtype, const void *seen, const void *expected)
{
    char seen_text[40], expected_text[40];
    if (findings->wrong++) return;
    value_text(dtype, seen, seen_text, sizeof seen_text);
    value_text(dtype, expected, expected_text, sizeof expected_text);
    snprintf(findings->text, findings->text_bytes, "%s[%zu] is %s, not %s", where, index, seen_text,
             expected_text);
}

/* Elements first .. first + count - 1 of a buffer, which must be those of the source. */
static void compare(const struct buffers *buffers, const struct pattern *pattern, const char *where,
                    const unsigned char *buffer, size_t first, size_t count, struct source source,
                    struct findings *findings)
{
    _Alignas(8) unsigned char expected[PIECE * 8];
    const size_t size = buffers->element_bytes;
    for (size_t done = 0; done < count;) {
        const size_t now = count - done < PIECE ? count - done : PIECE;
        const unsigned char *const seen = buffer + (first + done) * size;
        if (source.rank == SOURCE_ALL_RANKS)
            value_reduced(pattern, source.first + done, now, expected);
        else
            value_inputs(pattern, source.rank, source.first + done, now, expected);
        if (memcmp(seen, expected, now * size))
            for (size_t i = 0; i < now; i++)
                if (memcmp(seen + i * size, expected + i * size, size))
                    found_element(findings, where, first + done + i, pattern->dtype,
                                  seen + i * size, expected + i * size);
        done += now;
    }
}

static void compare_guard(const unsigned char *guard, const char *where, struct findings *findings)
{
    for (int i = 0; i < GUARD_BYTES; i++) {
        if (guard[i] == GUARD) continue;
        if (!findings->wrong++)
            snprintf(findings->text, findings->text_bytes,
                     "byte %d after the end of %s was written", i, where);
    }
}

/* What a call must not touch: all of send, or in place those parts of it that are not recv. */
static void compare_send(const struct buffers *buffers, const struct buffer_set *set,
                         const struct pattern *pattern, struct findings *findings)
{
    const int rank = buffers->shape.rank;
    const size_t count = elements(buffers, buffers->send_bytes);
    if (!buffers->aliased) {
        compare(buffers, pattern, "send", set->send, 0, count, (struct source){rank, 0}, findings);
        return;
    }
    if (buffers->send_bytes <= buffers->recv_bytes) return;
    const size_t before = elements(buffers, (size_t)(set->recv - set->send));
    const size_t after = before + elements(buffers, buffers->recv_bytes);
    compare(buffers, pattern, "send", set->send, 0, before, (struct source){rank, 0}, findings);
    compare(buffers, pattern, "send", set->send, after, count - after, (struct source){rank, after},
            findings);
}

size_t buffers_check(const struct buffers *buffers, int set, const struct pattern *pattern,
                     char *text, size_t text_bytes)
{
    const struct buffer_set *const s = &buffers->sets[set];
    const struct shape *const shape = &buffers->shape;
    struct findings findings = {.wrong = 0, .text = text, .text_bytes = text_bytes};
    text[0] = '\0';
    const size_t blocks = buffers->operation->recv_blocks(shape);
    for (size_t block = 0; block < blocks; block++)
        compare(buffers, pattern, "recv", s->recv, block * shape->count, shape->count,
                buffers->operation->source(shape, block), &findings);
    if (s->send) compare_send(buffers, s, pattern, &findings);
    if (buffers->aliased) {
        const unsigned char *const start = region_start(buffers, s);
        compare_guard(start + larger(buffers->send_bytes, buffers->recv_bytes), "the buffer",
                      &findings);
        return findings.wrong;
    }
    if (s->send) compare_guard(s->send + buffers->send_bytes, "send", &findings);
    if (s->recv) compare_guard(s->recv + buffers->recv_bytes, "recv", &findings);
    return findings.wrong;
}
