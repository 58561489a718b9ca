/* derived_list.h - lists of ranks of which communicators were made, how many of each, and how often
 * this rank tried. A rank that makes one takes part in as many as the other ranks of its list, so
 * the count tells the next one from all before. */
#ifndef TUTTI_COMM_DERIVED_LIST_H
#define TUTTI_COMM_DERIVED_LIST_H

#include <stdint.h>

struct tutti_comm;

struct derived_list {
    struct derived_list *next;
    uint64_t count, attempts;
    int rank_count;
    int ranks[];
};

/* The entry of a list, made when it is first seen; NULL when there is no memory for it. The
 * communicator has it. */
struct derived_list *derived_list_find(struct tutti_comm *comm, const int *ranks, int rank_count);
void derived_lists_free(struct tutti_comm *comm);

#endif
