#include "base/kept_text.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct kept {
    struct kept *next;
    char text[];
};

static _Atomic(struct kept *) all; /* the latest first; none is ever taken out */

const char *kept_text(const char *text)
{
    struct kept *first = atomic_load_explicit(&all, memory_order_acquire); /* pairs with below */
    for (struct kept *at = first; at != NULL; at = at->next)
        if (strcmp(at->text, text) == 0) return at->text;
    struct kept *const kept = malloc(sizeof *kept + strlen(text) + 1);
    if (kept == NULL) return NULL;
    strcpy(kept->text, text);
    do kept->next = first;
    while (!atomic_compare_exchange_weak_explicit(&all, &first, kept, memory_order_release,
                                                  memory_order_acquire));
    return kept->text;
}
