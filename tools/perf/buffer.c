#include "buffer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "dtype.h"
#include "gpu/gpu.h"

enum {
    GUARD_BYTES = 64,
    PAGE_BYTES = 4096,
    HUGE_PAGE_BYTES = 2 << 20,
    LARGE_BYTES = 64 << 10,
    COMPARED = 2048, /* elements at once, from the stack */
    GUARD = 0xa5
};

/* ----------------------------------------------------------------------------------- life cycle */

static bool has(const struct buffers *buffers, enum side side)
{
    return buffers->layouts[side].block_count > 0;
}

/* In place there is one region, with the size of the larger side. */
static enum side larger_side(const struct buffers *buffers)
{
    return buffers->layouts[SEND].block_count > buffers->layouts[RECV].block_count ? SEND : RECV;
}

static bool owns_region(const struct buffers *buffers, enum side side)
{
    return has(buffers, side) && (!buffers->aliased || side == larger_side(buffers));
}

static size_t region_bytes(const struct buffers *buffers, enum side side)
{
    if (!owns_region(buffers, side)) return 0;
    return buffers->misalign[side] + buffers->layouts[side].span * buffers->element_bytes +
           GUARD_BYTES;
}

static size_t pages(size_t bytes, size_t page_bytes)
{
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

/* Private regions come one by one, as an application's would; mapped regions lie in the arena.
 * Larger private regions are whole huge pages, if malloc has any. Otherwise chance would decide, by
 * what lies around them on the heap. */
static unsigned char *region_take(struct buffers *buffers, size_t *used, size_t bytes)
{
    void *region = NULL;
    if (buffers->device)
        return buffers->device->driver->allocate_memory(buffers->device, bytes, &region) == TUTTI_OK
                   ? region
                   : NULL;
    if (buffers->arena) {
        region = (char *)buffers->arena + *used;
        *used += pages(bytes, PAGE_BYTES);
    } else {
        const size_t page_bytes = bytes >= LARGE_BYTES ? HUGE_PAGE_BYTES : PAGE_BYTES;
        if (posix_memalign(&region, page_bytes, pages(bytes, page_bytes))) return NULL;
    }
    memset(region, GUARD, bytes);
    return region;
}

static void region_free(struct buffers *buffers, unsigned char *region)
{
    if (!region || buffers->mapped) return;
    if (buffers->device)
        buffers->device->driver->release_memory(buffers->device, region);
    else
        free(region);
}

static unsigned char *element_at(const struct buffers *buffers, int set, enum side side,
                                 size_t offset)
{
    return buffers->sets[set].regions[side] + buffers->misalign[side] +
           offset * buffers->element_bytes;
}

/* The address at which the host reads and writes that element. */
static unsigned char *host_element_at(const struct buffers *buffers, int set, enum side side,
                                      size_t offset)
{
    if (!buffers->device) return element_at(buffers, set, side, offset);
    return buffers->images[side] + buffers->misalign[side] + offset * buffers->element_bytes;
}

enum path { TO_DEVICE, FROM_DEVICE };

/* Between the images and the regions of a set. */
static bool copy_images(const struct buffers *buffers, int set, enum path path)
{
    for (int side = 0; buffers->device && side < SIDE_COUNT; side++) {
        const struct memory_kind *const kind = &buffers->device->kind;
        unsigned char *const image = buffers->images[side], *const region =
                                                                buffers->sets[set].regions[side];
        if (!owns_region(buffers, (enum side)side)) continue;
        if (!kind->copy(kind, path == TO_DEVICE ? region : image,
                        path == TO_DEVICE ? image : region, region_bytes(buffers, (enum side)side)))
            return false;
    }
    return true;
}

static bool images_init(struct buffers *buffers)
{
    for (int side = 0; buffers->device && side < SIDE_COUNT; side++) {
        const size_t bytes = region_bytes(buffers, (enum side)side);
        if (!bytes) continue;
        if (!(buffers->images[side] = malloc(bytes))) return false;
        memset(buffers->images[side], GUARD, bytes);
    }
    if (buffers->aliased)
        buffers->images[1 - larger_side(buffers)] = buffers->images[larger_side(buffers)];
    return true;
}

static bool list_init(struct buffers *buffers, int set, enum side side)
{
    const struct perf_layout *const layout = &buffers->layouts[side];
    struct tutti_tensor *const tensors = calloc(layout->extent_count + 1, sizeof *tensors);
    if (!tensors) return false;
    for (size_t i = 0; i < layout->extent_count; i++)
        tensors[i] = (struct tutti_tensor){
            element_at(buffers, set, side, layout->extents[i].offset), layout->extents[i].count};
    buffers->sets[set].tensors[side] = tensors;
    buffers->sets[set].lists[side] = (struct tutti_list){tensors, layout->extent_count};
    return true;
}

static bool set_init(struct buffers *buffers, int set, size_t *used)
{
    unsigned char **const regions = buffers->sets[set].regions;
    for (int side = 0; side < SIDE_COUNT; side++) {
        const size_t bytes = region_bytes(buffers, (enum side)side);
        if (bytes && !(regions[side] = region_take(buffers, used, bytes))) return false;
    }
    if (buffers->aliased) regions[1 - larger_side(buffers)] = regions[larger_side(buffers)];
    for (int side = 0; side < SIDE_COUNT; side++)
        if (buffers->shape.tensors != TENSORS_NONE && has(buffers, (enum side)side) &&
            !list_init(buffers, set, (enum side)side))
            return false;
    return true;
}

static bool layouts_init(struct buffers *buffers)
{
    const struct perf_operation *const operation = buffers->operation;
    const struct perf_shape *const shape = &buffers->shape;
    for (int side = 0; !buffers->aliased && side < SIDE_COUNT; side++)
        if (!layout_init(&buffers->layouts[side], operation, shape, (enum side)side)) return false;
    if (!buffers->aliased) return true;
    const enum side large =
        operation->block_count[SEND](shape) > operation->block_count[RECV](shape) ? SEND : RECV;
    const enum side small = (enum side)(1 - large);
    return layout_init(&buffers->layouts[large], operation, shape, large) &&
           layout_init_within(&buffers->layouts[small], operation, shape, small,
                              &buffers->layouts[large]);
}

static enum tutti_status allocate(struct buffers *buffers)
{
    if (!buffers->sets || !layouts_init(buffers)) return TUTTI_NO_MEMORY;
    if (buffers->mapped) {
        const size_t set_bytes = pages(region_bytes(buffers, SEND), PAGE_BYTES) +
                                 pages(region_bytes(buffers, RECV), PAGE_BYTES);
        TRY(tutti_mem_alloc((size_t)buffers->set_count * set_bytes, &buffers->arena));
    }
    if (!images_init(buffers)) return TUTTI_NO_MEMORY;
    size_t used = 0;
    for (int set = 0; set < buffers->set_count; set++) {
        if (!set_init(buffers, set, &used)) return TUTTI_NO_MEMORY;
        if (!copy_images(buffers, set, TO_DEVICE)) return TUTTI_SYSTEM;
    }
    return TUTTI_OK;
}

enum tutti_status buffers_init(struct buffers *buffers, const struct perf_operation *operation,
                               const struct perf_shape *shape, const struct buffers_options *options)
{
    *buffers = (struct buffers){
        .operation = operation,
        .shape = *shape,
        .element_bytes = options->element_bytes,
        .aliased = shape->in_place && operation->block_count[SEND](shape) &&
                   operation->block_count[RECV](shape),
        .mapped = options->mapped,
        .device = options->device,
        .set_count = options->set_count,
        .sets = calloc((size_t)options->set_count, sizeof(struct buffer_set)),
    };
    buffers->misalign[SEND] = options->misalign;
    buffers->misalign[RECV] = buffers->aliased ? options->misalign : 2 * options->misalign;
    const enum tutti_status status = allocate(buffers);
    if (status != TUTTI_OK) buffers_release(buffers);
    return status;
}

void buffers_release(struct buffers *buffers)
{
    for (int i = 0; buffers->sets && i < buffers->set_count; i++)
        for (int side = 0; side < SIDE_COUNT; side++) {
            free(buffers->sets[i].tensors[side]);
            if (owns_region(buffers, (enum side)side))
                region_free(buffers, buffers->sets[i].regions[side]);
        }
    tutti_mem_free(buffers->arena);
    free(buffers->sets);
    for (int side = 0; side < SIDE_COUNT; side++)
        if (owns_region(buffers, (enum side)side)) free(buffers->images[side]);
    for (int side = 0; side < SIDE_COUNT; side++) layout_release(&buffers->layouts[side]);
    *buffers = (struct buffers){0};
}

void buffers_call(const struct buffers *buffers, int set, struct perf_call *call)
{
    void *starts[SIDE_COUNT];
    for (int side = 0; side < SIDE_COUNT; side++) {
        const struct perf_layout *const layout = &buffers->layouts[side];
        const bool here = has(buffers, (enum side)side);
        starts[side] = here ? element_at(buffers, set, (enum side)side, layout->start) : NULL;
        call->counts[side] = layout->counts;
        call->displs[side] = buffers->shape.displs == DISPLS_NULL ? NULL : layout->displs;
        call->lists[side] = here ? &buffers->sets[set].lists[side] : NULL;
    }
    call->send = starts[SEND];
    call->recv = starts[RECV];
}

/* -------------------------------------------------------------------------------------- filling */

static void set_pieces(struct buffers *buffers, int set, enum side side, int byte)
{
    const struct perf_layout *const layout = &buffers->layouts[side];
    for (size_t i = 0; i < layout->piece_count; i++)
        memset(host_element_at(buffers, set, side, layout->pieces[i].offset), byte,
               layout->pieces[i].count * buffers->element_bytes);
}

static void set_inputs(struct buffers *buffers, int set, const struct pattern *pattern)
{
    const struct perf_layout *const layout = &buffers->layouts[SEND];
    for (size_t i = 0; i < layout->piece_count; i++)
        value_inputs(pattern, buffers->shape.rank, layout->pieces[i].first, layout->pieces[i].count,
                     host_element_at(buffers, set, SEND, layout->pieces[i].offset));
}

enum tutti_status buffers_fill(struct buffers *buffers, int set, const struct pattern *pattern)
{
    if (!copy_images(buffers, set, FROM_DEVICE)) return TUTTI_SYSTEM; /* guards stay as they are */
    set_pieces(buffers, set, RECV, VALUE_POISON);
    set_inputs(buffers, set, pattern);
    return copy_images(buffers, set, TO_DEVICE) ? TUTTI_OK : TUTTI_SYSTEM;
}

enum tutti_status buffers_fill_for_timing(struct buffers *buffers, int set,
                                          const struct pattern *pattern)
{
    if (!copy_images(buffers, set, FROM_DEVICE)) return TUTTI_SYSTEM;
    if (buffers->aliased)
        set_pieces(buffers, set, SEND, 0);
    else
        set_inputs(buffers, set, pattern);
    set_pieces(buffers, set, RECV, 0);
    return copy_images(buffers, set, TO_DEVICE) ? TUTTI_OK : TUTTI_SYSTEM;
}

/* ------------------------------------------------------------------------------------- checking */

struct findings {
    size_t wrong;
    char *text;
    size_t text_bytes;
};

static void found_element(struct findings *findings, const char *where, size_t index,
                          enum tutti_dtype dtype, const void *seen, const void *expected)
{
    char seen_text[60], expected_text[60];
    if (findings->wrong++) return;
    element_text(dtype, seen, seen_text, sizeof seen_text);
    element_text(dtype, expected, expected_text, sizeof expected_text);
    snprintf(findings->text, findings->text_bytes, "%s[%zu] is %s, not %s", where, index, seen_text,
             expected_text);
}

/* Whether two elements that are not the same are near enough; NaN never is. */
static bool is_near(enum tutti_dtype dtype, const void *seen, const void *expected, double tolerance)
{
    return tolerance > 0 && fabs(real_load(dtype, seen) - real_load(dtype, expected)) <= tolerance;
}

/* index: of the piece's first element, for people. */
static void compare_piece(const struct buffers *buffers, const struct pattern *pattern,
                          double tolerance, const char *where, size_t index,
                          const struct layout_piece *piece, const unsigned char *seen,
                          struct findings *findings)
{
    unsigned char expected[COMPARED * ELEMENT_BYTES_MAX];
    const size_t size = buffers->element_bytes;
    for (size_t done = 0; done < piece->count;) {
        const size_t now = piece->count - done < COMPARED ? piece->count - done : COMPARED;
        if (piece->rank == SOURCE_ALL_RANKS)
            value_reduced(pattern, piece->first + done, now, expected);
        else
            value_inputs(pattern, piece->rank, piece->first + done, now, expected);
        if (memcmp(seen + done * size, expected, now * size))
            for (size_t i = 0; i < now; i++)
                if (memcmp(seen + (done + i) * size, expected + i * size, size) &&
                    !is_near(pattern->dtype, seen + (done + i) * size, expected + i * size,
                             tolerance))
                    found_element(findings, where, index + done + i, pattern->dtype,
                                  seen + (done + i) * size, expected + i * size);
        done += now;
    }
}

/* In place, what recv covers of send is a result. */
static bool is_overwritten(const struct buffers *buffers, enum side side,
                           const struct layout_piece *piece)
{
    if (side == RECV || !buffers->aliased) return false;
    return larger_side(buffers) == RECV || piece->block == (size_t)buffers->shape.rank;
}

static void compare_side(const struct buffers *buffers, int set, enum side side,
                         const struct pattern *pattern, struct findings *findings)
{
    const struct perf_layout *const layout = &buffers->layouts[side];
    /* Input in memory of its own stays as it is. */
    const double tolerance = side == RECV || buffers->aliased ? value_tolerance(pattern) : 0;
    size_t index = 0;
    for (size_t i = 0; i < layout->piece_count; i++) {
        const struct layout_piece *const piece = &layout->pieces[i];
        if (!is_overwritten(buffers, side, piece))
            compare_piece(buffers, pattern, tolerance, side == SEND ? "send" : "recv", index, piece,
                          host_element_at(buffers, set, side, piece->offset), findings);
        index += piece->count;
    }
}

static int compare_offsets(const void *a, const void *b)
{
    const struct layout_piece *const x = a, *const y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static void compare_guard(const unsigned char *region, size_t from, size_t to, const char *where,
                          struct findings *findings)
{
    for (size_t i = from; i < to; i++) {
        if (region[i] == GUARD) continue;
        if (!findings->wrong++)
            snprintf(findings->text, findings->text_bytes,
                     "byte %zu of the memory of %s, beside its elements, was written", i, where);
    }
}

/* Everything in a region that lies in no piece. */
static void compare_guards(const struct buffers *buffers, int set, enum side side,
                           struct findings *findings)
{
    const struct perf_layout *const layout = &buffers->layouts[side];
    const char *const where = buffers->aliased ? "the buffer" : side == SEND ? "send" : "recv";
    const unsigned char *const region =
        buffers->device ? buffers->images[side] : buffers->sets[set].regions[side];
    struct layout_piece *const sorted = calloc(layout->piece_count + 1, sizeof *sorted);
    if (!sorted) return (void)findings->wrong++; /* not to be called right unseen */
    memcpy(sorted, layout->pieces, layout->piece_count * sizeof *sorted);
    qsort(sorted, layout->piece_count, sizeof *sorted, compare_offsets);
    size_t from = 0;
    for (size_t i = 0; i < layout->piece_count; i++) {
        const size_t to = buffers->misalign[side] + sorted[i].offset * buffers->element_bytes;
        compare_guard(region, from, to, where, findings);
        from = to + sorted[i].count * buffers->element_bytes;
    }
    compare_guard(region, from, region_bytes(buffers, side), where, findings);
    free(sorted);
}

size_t buffers_check(const struct buffers *buffers, int set, const struct pattern *pattern,
                     char *text, size_t text_bytes)
{
    struct findings findings = {.wrong = 0, .text = text, .text_bytes = text_bytes};
    text[0] = '\0';
    if (!copy_images(buffers, set, FROM_DEVICE)) {
        snprintf(text, text_bytes, "the device does not say: %s", tutti_error_message());
        return 1;
    }
    compare_side(buffers, set, RECV, pattern, &findings);
    compare_side(buffers, set, SEND, pattern, &findings);
    for (int side = 0; side < SIDE_COUNT; side++)
        if (owns_region(buffers, (enum side)side))
            compare_guards(buffers, set, (enum side)side, &findings);
    return findings.wrong;
}
