#include "encoded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "plan/rounding.h"

int *encoded_places(const struct encoding_wish *wish, const struct hosts *hosts, int rank_count,
                    bool *none)
{
    const int *const groups = wish->links == ENCODED_HOSTS   ? hosts->host_of
                              : wish->links == ENCODED_RACKS ? hosts->rack_of
                                                             : NULL;
    *none = false;
    int *const places = malloc((size_t)rank_count * sizeof *places);
    if (places == NULL) return NULL;
    for (int r = 0; r < rank_count; r++)
        places[r] = wish->links == ENCODED_EVERYWHERE ? r : groups != NULL ? groups[r] : 0;
    *none = !rounding_on_any(places, rank_count);
    if (!*none) return places;
    free(places);
    return NULL;
}

void encoded_ask(const struct encoding_wish *wish, struct choose_call *call)
{
    if (!encoded_is_asked(wish)) return;
    const unsigned unit = encoding_unit_elements(wish->encoding);
    call->is_encoded = true;
    call->goes_in_units = unit > 1;
    call->ends_within_units = call->question.bytes / dtype_size(call->question.dtype) % unit != 0;
    call->question.encoding = wish->encoding;
    call->question.encoded_links = wish->links;
}

const char *encoded_why_not(const struct encoding_wish *wish, const struct algorithm *algorithm)
{
    if (!encoded_is_asked(wish)) return NULL;
    if (algorithm->collective == COLLECTIVE_BARRIER) return "has no elements";
    const struct choose_call call = {.is_encoded = true,
                                     .goes_in_units = encoding_unit_elements(wish->encoding) > 1};
    return choose_why_not_encoded(&call, algorithm);
}

bool encoded_has_v_form(enum collective collective)
{
    return collective_blocks_sent(collective, true, 2) > 1 ||
           collective_blocks_received(collective, true, 2) > 1;
}

const char *encoded_why_not_varying(const struct encoding_wish *wish,
                                    const struct algorithm *algorithm)
{
    const bool knows_all = collective_knows_all_counts(algorithm->collective);
    const struct choose_call call = {.is_encoded = true,
                                     .goes_in_units = encoding_unit_elements(wish->encoding) > 1,
                                     .ends_within_units =
                                         encoding_unit_elements(wish->encoding) > 1};
    if (!knows_all && call.goes_in_units)
        return "ranks do not know each other's counts, and units would hide counts that differ";
    if (!knows_all && !algorithm->is_direct)
        return "it passes blocks through ranks that do not know their counts";
    return choose_why_not_encoded(&call, algorithm) != NULL ? "blocks may end within a unit" : NULL;
}

bool encoded_in_place(struct plan *plan)
{
    for (int r = 0; r < plan->shape.rank_count; r++)
        if (!rounding_of_own_block(plan->ranks[r])) return false;
    return true;
}

static const char *const links_texts[] = {
#define X(enumerator, word, text) [ENCODED_##enumerator] = text,
    ENCODED_LINKS_LIST(X)
#undef X
};

void encoded_describe(const struct encoding_wish *wish, unsigned roundings, char *text, size_t size)
{
    const int used = snprintf(text, size, "%s %s", tutti_encoding_name(wish->encoding),
                              links_texts[wish->links]);
    if (used < 0 || (size_t)used >= size || roundings == 0) return;
    if (roundings == 1)
        snprintf(text + used, size - (size_t)used, ": rounded once on the way to a result");
    else
        snprintf(text + used, size - (size_t)used,
                 ": rounded up to %u times on the way to a result", roundings);
}
