/* derived_list.c - how often communicators were made of which ranks: those who make one have made
 * it as often before. */
#include "comm/derived_list.h"

#include <stdlib.h>
#include <string.h>

#include "call/communicator.h"

void derived_lists_free(struct tutti_comm *comm)
{
    while (comm->derivations.lists != NULL) {
        struct derived_list *const list = comm->derivations.lists;
        comm->derivations.lists = list->next;
        free(list);
    }
}

/* The entry of a list, made when it is first seen; NULL when there is no memory for it. */
struct derived_list *derived_list_find(struct tutti_comm *comm, const int *ranks, int rank_count)
{
    const size_t bytes = sizeof *ranks * (size_t)rank_count;
    struct derived_list *list = comm->derivations.lists;
    while (list != NULL && (list->rank_count != rank_count || memcmp(list->ranks, ranks, bytes) != 0))
        list = list->next;
    if (list != NULL) return list;
    list = calloc(1, sizeof *list + bytes);
    if (list == NULL) return NULL;
    list->rank_count = rank_count;
    memcpy(list->ranks, ranks, bytes);
    list->next = comm->derivations.lists;
    comm->derivations.lists = list;
    return list;
}
