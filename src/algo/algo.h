/* algo.h - the list of all algorithms, which the choice, the tests, the documents and `tutti-plan
 * list` read.
 *
 * A new algorithm is one file (or one more function in its family's file) and one line in list.c;
 * it is then verified, run by the conformance tests and listed in the documents.
 */
#ifndef TUTTI_ALGO_ALGO_H
#define TUTTI_ALGO_ALGO_H

#include <stdbool.h>
#include <stdint.h>

#include "algo/generate.h"

struct algorithm {
    const char *name; /* "ring"; with the collective it is unique */
    enum collective collective;
    algo_generate *generate;
    bool has_radix;     /* of a tree, or one more than the ports it sends through at once */
    bool is_direct;     /* every block goes in one message from its source to its destination */
    bool keeps_partner; /* between hosts a rank sends all that it sends to one rank, and receives from one: a ring, or a chain */
    bool is_paced; /* between hosts a rank has at most two messages under way, to different ranks one after the other */
    bool needs_power_of_two;
    bool needs_levels;
    bool needs_commutative; /* operands do not come in rank order */
    bool deterministic; /* one association tree for every element, whatever count, offset and chunking */
    bool adds_in_rank_order; /* and that is ((0 + 1) + 2) + 3 ...: all of these give the same bits */
    bool has_owners; /* replicas stay bit-identical on encoded links (plan/rounding.h): of an allreduce, one rank completes each part of the result */
    bool sends_to_owners; /* of what reduces: the rank that completes a part has all contributions from their ranks themselves; with levels, in each team the sums of its members */
    bool keeps_units; /* no message goes on behind the end of a block, which may end within a unit of an encoding */
    int rank_count_max;  /* the most ranks that are sensible; PLAN_RANKS_MAX: any number */
    const char *summary; /* one line for people */
    const char *cost;    /* in alpha, beta, gamma, p, n */
    const char *source;  /* paper or origin */
    /* An algorithm from a file or from the user (loaded.h) has a plan for one number of ranks and
     * one root, in the place of a generator; NULL: it is one of the list. */
    const struct plan *plan;
    uint64_t plan_fingerprint;
};

extern const struct algorithm algo_list[];
extern const int algo_count;

/* NULL when there is none of that name for that collective. */
const struct algorithm *algo_find(enum collective collective, const char *name);
enum { ALGO_RADIX_MIN = 2, ALGO_RADIX_MAX = 64 };
/* "NAME", or "NAME/RADIX" for an algorithm that has a radix; *radix is 0 if none is given. False,
 * and nothing is set, if there is none of that name, or none with such a radix. */
bool algo_parse(enum collective collective, const char *text, const struct algorithm **algorithm,
                unsigned *radix);
/* Checks that every rank is in the order once: INVALID_RANK and *message if not. */
enum tutti_status algo_check_order(const int *order, int rank_count, const char **message);
/* If nothing is known of hosts: an algorithm that needs levels supports nothing. */
bool algo_supports(const struct algorithm *algorithm, int rank_count);
/* If it is known which ranks are on one host. */
bool algo_supports_levels(const struct algorithm *algorithm, int rank_count);
/* One rank's plan. *message tells what went wrong. */
enum tutti_status algo_rank_plan(const struct algorithm *algorithm, const struct algo_params *params,
                                 int rank, struct rank_plan **rank_plan, const char **message);
/* The plan of all ranks, for proving and drawing. */
enum tutti_status algo_plan(const struct algorithm *algorithm, const struct algo_params *params,
                            struct plan **plan, const char **message);

#endif
