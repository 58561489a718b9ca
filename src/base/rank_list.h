/* rank_list.h - ranks in words, for messages: "2 3 17", the first 24 of them and then "...".
 *
 * Begin with RANK_LIST_EMPTY and add in the order in which they are to be read.
 */
#ifndef TUTTI_BASE_RANK_LIST_H
#define TUTTI_BASE_RANK_LIST_H

#include <stdio.h>

enum { RANK_LIST_SHOWN = 24, RANK_LIST_BYTES = RANK_LIST_SHOWN * 12 + 5 };

struct rank_list {
    int count, first; /* first: -1 while there is none */
    int used;
    char text[RANK_LIST_BYTES];
};

#define RANK_LIST_EMPTY \
    {                   \
        .first = -1     \
    }

static inline void rank_list_add(struct rank_list *list, int rank)
{
    char *const end = list->text + list->used;
    const size_t left = sizeof list->text - (size_t)list->used;
    if (list->count == 0) list->first = rank;
    if (list->count < RANK_LIST_SHOWN)
        list->used += snprintf(end, left, list->count > 0 ? " %d" : "%d", rank);
    else if (list->count == RANK_LIST_SHOWN)
        list->used += snprintf(end, left, " ...");
    list->count++;
}

#endif
