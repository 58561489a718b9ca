/* derive.h - communicators from communicators: split, dup, group, and what a mesh needs of them.
 *
 *     parent's ranks ── who goes where ──► members, in their new order ──► meeting under a key ──► communicator
 *
 * The key follows from the parent's identity, which no other communicator has, from what is
 * derived, and from how often that was done before. So no two meetings have the same one, and all
 * members find it without asking.
 *
 * Invariants
 *   1. Split, dup and mesh first exchange what each rank wants, by a collective on the parent:
 *      their order among the parent's calls is checked like that of any other call, and all ranks
 *      judge the same words.
 *   2. A group's members ask no other rank. They count by themselves how often that list has
 *      succeeded; it succeeds for all or for none.
 *   3. The new communicator refers to its parent in no way.
 *   4. A member that cannot come to the meeting tells the others through the parent
 *      (health/withdrawn.h).
 */
#ifndef TUTTI_COMM_DERIVE_H
#define TUTTI_COMM_DERIVE_H

#include <stdint.h>

#include "call/communicator.h"

/* The description of a collective derivation; ranks must agree on it. */
struct derive_wish {
    enum call_purpose purpose; /* CALL_FOR_SPLIT, DUP or MESH */
    uint32_t signature;        /* of whatever else ranks must agree on */
    int color, key;            /* as in tutti_comm_split */
    const struct tutti_comm_options *options;
};

/* Collective over comm. `function` is the public one, without "tutti_". */
enum tutti_status derive_split(struct tutti_comm *comm, const char *function,
                               const struct derive_wish *wish, struct tutti_comm **created);
/* The key by which a meeting of survivors is known. */
struct derive_survivors {
    const char *function; /* the public one, without "tutti_" */
    const int *ranks;     /* all that is left of comm, in order */
    int rank_count;
    uint64_t epoch;         /* tells this from every other time */
    const uint64_t *secret; /* two words that only these ranks know; NULL: none */
};
/* Makes their communicator. Collective over them; comm may have failed. */
enum tutti_status derive_survivors(struct tutti_comm *comm, const struct derive_survivors *survivors,
                                   const struct tutti_comm_options *options,
                                   struct tutti_comm **created);
/* Whether the listed ranks of comm, which may have failed, can still come to a meeting that they
 * began at begin_ns. PROC_FAILED: the error names the rank that cannot. */
enum tutti_status derive_look_at_survivors(struct tutti_comm *comm, const int *ranks,
                                           int rank_count, uint64_t begin_ns);
/* The options of a communicator that is derived from comm: the user's (NULL: none), completed from
 * comm. They refer to texts of both. */
enum tutti_status derive_options(const struct tutti_comm *comm,
                                 const struct tutti_comm_options *user,
                                 struct tutti_comm_options *options);
/* Whether this rank may still decide anything about comm. MINORITY: it did not hear how an earlier
 * growth ended, and the others may have gone on to a new team. EXCLUDED: the others have put it
 * out. */
enum tutti_status derive_check_decided(const struct tutti_comm *comm, const char *function);
/* Frees the lists of groups of a communicator that is about to be freed. */
void derived_lists_free(struct tutti_comm *comm);

#endif
