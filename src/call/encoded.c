#include "call/encoded.h"

#include "base/dtype.h"
#include "base/status.h"
#include "encoding/encoding.h"
#include "plan/rounding.h"

const char *call_encoding_why_never(const struct call_to_encode *call,
                                    const struct encoding_wish *wish)
{
    const bool reduces = collective_reduces(call->collective);
    if (wish->encoding == TUTTI_ENCODING_NONE) return NULL;
    if (call->collective == COLLECTIVE_BARRIER) return "a barrier has no elements";
    if (call->dtype != TUTTI_FLOAT32 && call->dtype != TUTTI_BFLOAT16 && call->dtype != TUTTI_FLOAT16)
        return "only float32, bfloat16 and float16 can be encoded";
    if (!encoding_takes(wish->encoding, call->dtype))
        return "only float32 can be encoded so: no 16-bit float gets shorter by it, or none has "
               "its "
               "numbers";
    if (reduces && call->op != OP_SUM && call->op != OP_AVG)
        return "only sums and averages can be encoded";
    if (call->varies && !collective_knows_all_counts(call->collective) &&
        encoding_unit_elements(wish->encoding) > 1)
        return "ranks do not know each other's counts, and units of several elements would hide "
               "counts that differ";
    if (call->deterministic && reduces)
        return "an owner adds its own part unrounded, and which rank owns an element depends on "
               "the "
               "size, so no deterministic sum can be encoded";
    if (call->deterministic && !wish->is_required)
        return "a deterministic call takes an encoding that is `required`, not one that the model "
               "may take";
    return NULL;
}

static const int *places_of(const struct tutti_comm *comm, enum encoded_links links)
{
    const struct host_levels *const levels = comm->team.members.levels;
    const bool has_hosts = levels != NULL && levels->host_count > 1;
    switch (links) {
    case ENCODED_EVERYWHERE: return comm->team.settings.own_places;
    case ENCODED_HOSTS: return has_hosts ? levels->levels.group_of[0] : NULL;
    case ENCODED_RACKS:
        return has_hosts && levels->levels.level_count > 1 ? levels->levels.group_of[1] : NULL;
    }
    return NULL;
}

/* Fills in the wish; false: there is none, or it cannot be. */
static bool find_wish(const struct tutti_comm *comm, const struct call_to_encode *call,
                      enum collective rules_for, struct call_encoding *found)
{
    *found = (struct call_encoding){.wish = encoding_wish_unpack(call->wish)};
    if (call->wish == 0 &&
        !rules_encode(comm->team.settings.encodings, rules_for, call->bytes, &found->wish))
        return false;
    if (found->wish.encoding == TUTTI_ENCODING_NONE) return false;
    found->why_not = call_encoding_why_never(call, &found->wish);
    return found->why_not == NULL;
}

void call_encoding_find(const struct tutti_comm *comm, const struct call_to_encode *call,
                        struct call_encoding *found)
{
    if (!find_wish(comm, call, call->collective, found)) return;
    const int *const places = places_of(comm, found->wish.links);
    if (!rounding_on_any(places, comm->team.size)) {
        found->why_not = found->wish.links == ENCODED_RACKS ? "there is no link between racks"
                                                            : "there is no link between hosts";
        return;
    }
    found->places = places;
    found->encoding = encoding_of(found->wish.encoding, call->dtype);
}

void call_encoding_find_message(const struct tutti_comm *comm, uint16_t wish, enum tutti_dtype dtype,
                                size_t bytes, int peer, struct call_encoding *found)
{
    const struct call_to_encode call = {.collective = COLLECTIVE_BROADCAST,
                                        .dtype = dtype,
                                        .bytes = bytes,
                                        .deterministic = comm->team.settings.deterministic,
                                        .wish = wish};
    if (!find_wish(comm, &call, RULES_MESSAGES, found)) return;
    const int *const places = places_of(comm, found->wish.links);
    if (places == NULL || places[comm->team.rank] == places[peer]) {
        found->why_not = "the permission is not for the link between these ranks";
        return;
    }
    found->places = places;
    found->encoding = encoding_of(found->wish.encoding, dtype);
}

/* Nothing is encoded after all. */
static void drop(struct choose_call *wanted, struct call_encoding *found, const char *why)
{
    found->encoding = NULL;
    found->places = NULL;
    found->why_not = why;
    wanted->is_encoded = wanted->goes_in_units = wanted->ends_within_units = false;
    wanted->question.encoding = TUTTI_ENCODING_NONE;
}

static void ask_encoded(struct choose_call *wanted, const struct call_encoding *found)
{
    wanted->is_encoded = true;
    wanted->goes_in_units = found->encoding->unit_elements > 1;
    wanted->ends_within_units =
        wanted->goes_in_units &&
        (wanted->varies || wanted->question.bytes / dtype_size(wanted->question.dtype) %
                                   found->encoding->unit_elements !=
                               0);
    wanted->question.encoding = found->wish.encoding;
    wanted->question.encoded_links = found->wish.links;
}

/* Why the model, or a wish for an algorithm, leaves a permission unused; NULL: it is taken. */
static const char *why_not_taken(const struct choice *plain, enum tutti_status status,
                                 const struct choice *encoded)
{
    if (status != TUTTI_OK)
        return "the algorithm that was asked for would give ranks different bits";
    if (encoded->reason != CHOICE_MODEL || plain->reason != CHOICE_MODEL)
        return "only the model takes a permission, and the algorithm was chosen otherwise";
    if (encoded->time_ps >= plain->time_ps) return "the model does not take it to be faster";
    return NULL;
}

enum tutti_status call_encoding_choose(struct choose_call *wanted, struct call_encoding *found,
                                       struct choice *choice)
{
    if (found->encoding == NULL) return choose_algorithm(wanted, choice);
    if (found->wish.is_required) {
        ask_encoded(wanted, found);
        return choose_algorithm(wanted, choice);
    }
    struct choose_call encoded_call = *wanted;
    struct choice encoded;
    ask_encoded(&encoded_call, found);
    TRY(choose_algorithm(wanted, choice));
    if (wanted->site->levels == NULL) {
        drop(wanted, found, "all ranks are on one host, where encoding costs more than it saves");
        return TUTTI_OK;
    }
    const enum tutti_status status = choose_algorithm(&encoded_call, &encoded);
    if (status == TUTTI_NO_MEMORY) return status;
    const char *const why = why_not_taken(choice, status, &encoded);
    if (why != NULL) {
        drop(wanted, found, why);
        return TUTTI_OK;
    }
    *wanted = encoded_call;
    *choice = encoded;
    return TUTTI_OK;
}

/* Two ranks on two hosts of a communicator. */
struct couple {
    struct tune_site site;
    struct algo_levels levels;
    int groups[2][2];
};

static void couple_of(const struct tutti_comm *comm, int peer, struct couple *couple)
{
    const struct algo_levels *const levels = comm->team.members.site.levels;
    *couple = (struct couple){.site = comm->team.members.site, .groups = {{0, 1}, {0, 1}}};
    couple->levels.level_count = levels->level_count > 1 ? 2 : 1;
    if (couple->levels.level_count > 1 &&
        levels->group_of[1][comm->team.rank] == levels->group_of[1][peer])
        couple->groups[1][1] = 0;
    couple->levels.group_of[0] = couple->groups[0];
    couple->levels.group_of[1] = couple->groups[1];
    couple->site.levels = &couple->levels;
    couple->site.rank_count = 2;
    couple->site.cores_of = NULL;
    couple->site.order = NULL;
    couple->site.table = NULL;
    couple->site.loaded_count = 0;
    couple->site.fingerprint =
        tune_site_fingerprint(&couple->site, (uint64_t)couple->groups[1][1] + 1);
}

enum tutti_status call_encoding_choose_message(const struct tutti_comm *comm, enum tutti_dtype dtype,
                                               size_t bytes, int peer, struct call_encoding *found)
{
    const struct algo_levels *const levels = comm->team.members.site.levels;
    struct couple couple;
    struct choice choice;
    if (found->encoding == NULL || found->wish.is_required) return TUTTI_OK;
    if (levels == NULL || levels->group_of[0][comm->team.rank] == levels->group_of[0][peer]) {
        found->encoding = NULL;
        found->why_not = "both ranks are on one host, where encoding costs more than it saves";
        return TUTTI_OK;
    }
    couple_of(comm, peer, &couple);
    struct choose_call wanted = {
        .question = {.collective = COLLECTIVE_BROADCAST, .dtype = dtype, .bytes = bytes},
        .site = &couple.site};
    return call_encoding_choose(&wanted, found, &choice);
}
