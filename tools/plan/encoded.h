/* encoded.h - plans whose links are encoded in part, as --encoding says. */
#ifndef TUTTI_TOOLS_PLAN_ENCODED_H
#define TUTTI_TOOLS_PLAN_ENCODED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/encoding_wish.h"
#include "hosts.h"
#include "plan/plan.h"
#include "tune/choose.h"

static inline bool encoded_is_asked(const struct encoding_wish *wish)
{
    return wish->encoding != TUTTI_ENCODING_NONE;
}

/* The place of each rank, for plan/rounding.h; the caller frees it. hosts: of so many ranks; not
 * needed if all links are encoded. *none: no link is, and the result is NULL; otherwise NULL means
 * that memory is out. */
int *encoded_places(const struct encoding_wish *wish, const struct hosts *hosts, int rank_count,
                    bool *none);
/* Tells a choice that blocks of so many bytes of float32 go encoded. */
void encoded_ask(const struct encoding_wish *wish, struct choose_call *call);
/* Why no call takes an algorithm on such links, whatever the size; a static text such as "would give
 * ranks different bits", or NULL. */
const char *encoded_why_not(const struct encoding_wish *wish, const struct algorithm *algorithm);
/* Whether the collective has a v form, with blocks of counts of their own. */
bool encoded_has_v_form(enum collective collective);
/* Why no such v form takes an algorithm that other calls with the encoding take; NULL: it does. */
const char *encoded_why_not_varying(const struct encoding_wish *wish,
                                    const struct algorithm *algorithm);
/* Gives the plan of a file, in place, what the engine gives it on such links. False: out of
 * memory. */
bool encoded_in_place(struct plan *plan);
/* "int8 on links between hosts: rounded up to 2 times on the way to a result" */
void encoded_describe(const struct encoding_wish *wish, unsigned roundings, char *text, size_t size);

#endif
