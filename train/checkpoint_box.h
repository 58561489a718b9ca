/* checkpoint_box.h - boxes of a tensor's elements: cuts a range into boxes, and finds the common
 * part of two boxes.
 *
 *     a range of a box, in row-major order, is at most 2 dims - 1 boxes, which lie behind each
 *     other in memory:
 *
 *     . . . 1 1 1        1: the end of its first row
 *     2 2 2 2 2 2        2: whole rows
 *     2 2 2 2 2 2
 *     3 3 . . . .        3: the beginning of its last row
 *
 * Pure. Numbers of elements fit in 60 bits: code that makes a shape or a box checks that
 * (box_fits).
 */
#ifndef TUTTI_TRAIN_CHECKPOINT_BOX_H
#define TUTTI_TRAIN_CHECKPOINT_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BOX_DIMS = 8, BOX_PIECES_MAX = 2 * BOX_DIMS - 1 };

struct box {
    int dims;
    uint64_t first[BOX_DIMS], extent[BOX_DIMS];
};

/* The box of a whole tensor. */
struct box box_whole(int dims, const uint64_t *shape);
/* Whether the box lies in the shape, is not empty, and no number of elements is above 2^60. */
bool box_fits(const struct box *box, const uint64_t *shape);
uint64_t box_count(const struct box *box);
/* Sets *both to the common part; false if there is none. */
bool box_intersect(const struct box *a, const struct box *b, struct box *both);
/* Their order by place, and then by extent: below, equal to or above 0. They have the same dims. */
int box_compare(const struct box *a, const struct box *b);

/* Writes the boxes of a range of the box's elements, in their order, and returns how many there
 * are. */
size_t box_of_range(const struct box *box, uint64_t begin, uint64_t count, struct box *pieces);
/* Writes the boxes that make up `box` without `hole`, and returns how many there are: at most 2
 * dims. `hole` lies in `box`. */
size_t box_subtract(const struct box *box, const struct box *hole, struct box *rest);

/* Elements of `part`, which lies in `box`, have no gaps between them in the box's memory as long as
 * they differ in no dimension before this one. For two boxes the larger of the two numbers
 * holds. */
int box_run_dimension(const struct box *box, const struct box *part);
/* The number of runs of `part` from that dimension on, of *run elements each. */
uint64_t box_runs(const struct box *part, int dimension, uint64_t *run);
/* The place in `box` where the run of that index begins. */
uint64_t box_run_place(const struct box *box, const struct box *part, int dimension, uint64_t index);

#endif
