#include "checkpoint_box.h"

#include <assert.h>

static const uint64_t count_max = UINT64_C(1) << 60;

struct box box_whole(int dims, const uint64_t *shape)
{
    struct box box = {.dims = dims};
    for (int d = 0; d < dims; d++) box.extent[d] = shape[d];
    return box;
}

bool box_fits(const struct box *box, const uint64_t *shape)
{
    uint64_t elements = 1;
    for (int d = 0; d < box->dims; d++) {
        if (shape[d] == 0 || shape[d] > count_max / elements) return false;
        elements *= shape[d];
        if (box->extent[d] == 0 || box->extent[d] > shape[d] ||
            box->first[d] > shape[d] - box->extent[d])
            return false;
    }
    return true;
}

uint64_t box_count(const struct box *box)
{
    uint64_t count = 1;
    for (int d = 0; d < box->dims; d++) count *= box->extent[d];
    return count;
}

bool box_intersect(const struct box *a, const struct box *b, struct box *both)
{
    *both = (struct box){.dims = a->dims};
    for (int d = 0; d < a->dims; d++) {
        const uint64_t a_end = a->first[d] + a->extent[d], b_end = b->first[d] + b->extent[d];
        const uint64_t first = a->first[d] > b->first[d] ? a->first[d] : b->first[d];
        const uint64_t end = a_end < b_end ? a_end : b_end;
        if (first >= end) return false;
        both->first[d] = first;
        both->extent[d] = end - first;
    }
    return true;
}

int box_compare(const struct box *a, const struct box *b)
{
    for (int d = 0; d < a->dims; d++)
        if (a->first[d] != b->first[d]) return a->first[d] < b->first[d] ? -1 : 1;
    for (int d = 0; d < a->dims; d++)
        if (a->extent[d] != b->extent[d]) return a->extent[d] < b->extent[d] ? -1 : 1;
    return 0;
}

/* --------------------------------------------------------------------------------------- ranges */

/* Elements of the box that differ in no dimension up to this one. */
static uint64_t row_count(const struct box *box, int dimension)
{
    uint64_t count = 1;
    for (int d = dimension + 1; d < box->dims; d++) count *= box->extent[d];
    return count;
}

/* Cuts a range within the rows [dimension, ...). For a range that begins at the front of a row, or
 * ends at the back of a row, the recursion goes as deep as there are dimensions. `at` has the place
 * in the dimensions before. */
static size_t cut(const struct box *box, int dimension, struct box at, uint64_t begin,
                  uint64_t count, struct box *pieces)
{
    size_t made = 0;
    if (count == 0) return 0;
    const uint64_t row = row_count(box, dimension);
    const uint64_t before = begin % row == 0 ? 0 : row - begin % row;
    const uint64_t head = before < count ? before : count;
    at.extent[dimension] = 1;
    if (head > 0) {
        at.first[dimension] = box->first[dimension] + begin / row;
        made += cut(box, dimension + 1, at, begin % row, head, pieces + made);
    }
    begin += head;
    count -= head;
    if (count >= row) {
        struct box *const rows = &pieces[made++];
        *rows = at;
        rows->first[dimension] = box->first[dimension] + begin / row;
        rows->extent[dimension] = count / row;
        for (int d = dimension + 1; d < box->dims; d++) {
            rows->first[d] = box->first[d];
            rows->extent[d] = box->extent[d];
        }
        begin += count / row * row;
        count %= row;
    }
    if (count > 0) {
        at.first[dimension] = box->first[dimension] + begin / row;
        made += cut(box, dimension + 1, at, 0, count, pieces + made);
    }
    return made;
}

size_t box_of_range(const struct box *box, uint64_t begin, uint64_t count, struct box *pieces)
{
    assert(count <= box_count(box) && begin <= box_count(box) - count);
    return cut(box, 0, (struct box){.dims = box->dims}, begin, count, pieces);
}

size_t box_subtract(const struct box *box, const struct box *hole, struct box *rest)
{
    struct box left = *box;
    size_t made = 0;
    for (int d = 0; d < box->dims; d++) {
        const uint64_t before = hole->first[d] - left.first[d];
        const uint64_t end = left.first[d] + left.extent[d],
                       hole_end = hole->first[d] + hole->extent[d];
        if (before > 0) {
            rest[made] = left;
            rest[made++].extent[d] = before;
        }
        if (hole_end < end) {
            rest[made] = left;
            rest[made].first[d] = hole_end;
            rest[made++].extent[d] = end - hole_end;
        }
        left.first[d] = hole->first[d];
        left.extent[d] = hole->extent[d];
    }
    return made;
}

/* ----------------------------------------------------------------------------------------- runs */

int box_run_dimension(const struct box *box, const struct box *part)
{
    int d = box->dims - 1;
    while (d > 0 && part->extent[d] == box->extent[d]) d--;
    return d;
}

uint64_t box_runs(const struct box *part, int dimension, uint64_t *run)
{
    *run = row_count(part, dimension) * part->extent[dimension];
    return box_count(part) / *run;
}

uint64_t box_run_place(const struct box *box, const struct box *part, int dimension, uint64_t index)
{
    uint64_t place = 0, stride = 1;
    for (int d = box->dims - 1; d >= 0; d--) {
        uint64_t at = part->first[d] - box->first[d];
        if (d < dimension) {
            at += index % part->extent[d];
            index /= part->extent[d];
        }
        place += at * stride;
        stride *= box->extent[d];
    }
    return place;
}
