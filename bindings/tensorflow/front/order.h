/* order.h - one order for collectives that each rank begins in an order of its own.
 *
 * TensorFlow starts a collective as soon as its input is there, so ranks start them in different
 * orders. A collective has a name, its key: a group of ranks, and an instance in it. Each rank
 * reports to the first rank what it could run; the first rank answers as soon as all members have
 * reported. All ranks run what they are told to in the order of these answers.
 *
 *     rank 2 ── ready (7, 40) ──┐              ┌── run (7, 41) ──► ranks 0 and 2
 *     rank 0 ── ready (7, 41) ──┤              │
 *     rank 2 ── ready (7, 41) ──┴── order ─────┤
 *     rank 0 ── ready (7, 40) ──── (rank 0) ───┴── run (7, 40) ──► ranks 0 and 2
 *
 * The members of a group are the ranks whose reports complete its first collective. From then on
 * the group consists of these ranks, in the order of their numbers. A communicator's group is made
 * by a collective of its own, in which each member says its place, and has the order of places.
 *
 * Reports that do not fit each other fail the collective on all ranks that report it, and the text
 * says which ranks said what; so does a collective for which the last rank has not come when the
 * deadline of the first has passed. Other collectives go on.
 *
 * Pure but for its memory: reports and time go in, answers come out by a callback. One thread.
 */
#ifndef TUTTI_TENSORFLOW_ORDER_H
#define TUTTI_TENSORFLOW_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum {
    ORDER_WHAT_MAX = 112, /* with the 0 at its end */
    ORDER_TEXT_MAX = 512,
    ORDER_LATE_NS = 2000000000, /* after this a rank that has not reported is named */
    ORDER_PENDING_MAX = 65536
};

/* Communicators have groups of their own, so that a number may stand for a communicator and for a
 * group without one. */
struct order_key {
    int32_t group, instance;
    bool has_communicator;
};

enum order_root { ORDER_NO_ROOT, ORDER_ROOT, ORDER_NOT_ROOT };

/* A collective that a rank could run. */
struct order_report {
    struct order_key key;
    int32_t group_size;
    bool has_place; /* of a collective that makes a communicator: the rank says its number there */
    int32_t place;  /* this number, below group_size */
    enum order_root root;
    uint64_t timeout_ns;       /* from the report on; 0: none */
    char what[ORDER_WHAT_MAX]; /* operation, dtype, shape: must be the same on all members */
};

struct order_answer {
    struct order_key key;
    enum tutti_status status; /* OK: run it now. Otherwise it has failed, and nothing else has */
    int root;                 /* number in the group of the rank that has the data; -1: no root */
    const int *members;       /* ranks by their number in the group: ascending, or by places */
    int member_count;
    const char *text; /* of a failure */
};

/* An answer for that rank. What it points to is valid during the call. Answers that let a
 * collective run come in descending order of members, but that of the lowest rank, which comes
 * last. */
typedef void order_tell(void *context, int rank, const struct order_answer *answer);
/* A line for the log: somebody is late. */
typedef void order_warn(void *context, const char *text);

struct order; /* opaque */

/* For `size` ranks. NULL: no memory. */
struct order *order_create(int size, order_tell *tell, order_warn *warn, void *context);
void order_free(struct order *order);
/* The report of a rank below size; its text ends with 0. */
void order_take(struct order *order, int rank, const struct order_report *report, uint64_t now_ns);
/* Warns of late ranks, and fails what has waited too long. */
void order_tick(struct order *order, uint64_t now_ns);
/* Whether anything waits for a report, so that order_tick has work to come. */
bool order_waits(const struct order *order);

#endif
