#include "comm/explain_encoding.h"

#include <stdio.h>

#include "base/status.h"
#include "plan/verify.h"

/* The plan of all ranks, with the parameters that calls have (call/program.c). */
static enum tutti_status plan_of(const struct tutti_comm *comm, const struct choice *choice,
                                 struct plan **plan)
{
    const struct host_levels *const hosts = comm->team.members.levels;
    const bool has_hosts = hosts != NULL && hosts->host_count > 1;
    struct algo_levels levels = has_hosts ? hosts->levels : (struct algo_levels){0};
    if (choice->only_hosts) levels.level_count = 1;
    const struct algo_params params = {.collective = choice->algorithm->collective,
                                       .rank_count = comm->team.size,
                                       .encodes = true,
                                       .radix = choice->radix,
                                       .order = has_hosts ? hosts->order : comm->team.members.order,
                                       .levels = has_hosts ? &levels : NULL};
    const char *message = "";
    const enum tutti_status status = algo_plan(choice->algorithm, &params, plan, &message);
    return status == TUTTI_OK ? TUTTI_OK : error_set(status, "explaining a plan: %s", message);
}

/* *roundings: 0 if the plan is not proven. */
static enum tutti_status count_roundings(const struct tutti_comm *comm, const struct choice *choice,
                                         const int *places, uint32_t *roundings)
{
    struct plan *plan;
    struct verify_report report;
    TRY(plan_of(comm, choice, &plan));
    const struct verify_options options = {.places = places};
    const enum verify_verdict verdict = plan_verify(plan, &options, &report);
    plan_free(plan);
    if (verdict == VERIFY_NO_MEMORY)
        return error_set(TUTTI_NO_MEMORY, "explaining a plan: out of memory");
    *roundings = verdict == VERIFY_PROVEN ? report.roundings : 0;
    return TUTTI_OK;
}

static void say_not_encoded(const struct call_encoding *encoding, const char *wish,
                            char text[static EXPLAIN_ENCODING_SIZE])
{
    if (encoding->why_not != NULL)
        snprintf(text, EXPLAIN_ENCODING_SIZE, "  not encoded (%s): %s\n", wish, encoding->why_not);
}

enum tutti_status explain_encoding(const struct tutti_comm *comm, const struct choice *choice,
                                   const struct call_encoding *encoding,
                                   char text[static EXPLAIN_ENCODING_SIZE])
{
    char wish[ENCODING_WISH_TEXT_MAX];
    uint32_t roundings = 0;
    text[0] = '\0';
    encoding_wish_describe(&encoding->wish, wish, sizeof wish);
    if (encoding->encoding == NULL) {
        say_not_encoded(encoding, wish, text);
        return TUTTI_OK;
    }
    if (comm->team.size <= EXPLAIN_ENCODING_RANKS)
        TRY(count_roundings(comm, choice, encoding->places, &roundings));
    if (roundings == 1)
        snprintf(text, EXPLAIN_ENCODING_SIZE,
                 "  %s: contributions are rounded once on their way to a result\n", wish);
    else if (roundings > 0)
        snprintf(text, EXPLAIN_ENCODING_SIZE,
                 "  %s: contributions are rounded up to %u times on their way to a result\n", wish,
                 roundings);
    else
        snprintf(text, EXPLAIN_ENCODING_SIZE, "  %s\n", wish);
    return TUTTI_OK;
}

enum tutti_status explain_message_encoding(const struct tutti_comm *comm, uint16_t wish,
                                           enum tutti_dtype dtype, size_t bytes, int peer,
                                           char text[static EXPLAIN_ENCODING_SIZE])
{
    struct call_encoding found;
    char words[ENCODING_WISH_TEXT_MAX];
    call_encoding_find_message(comm, wish, dtype, bytes, peer, &found);
    TRY(call_encoding_choose_message(comm, dtype, bytes, peer, &found));
    encoding_wish_describe(&found.wish, words, sizeof words);
    snprintf(text, EXPLAIN_ENCODING_SIZE,
             "  not encoded: neither the call nor a rule asks for it\n");
    if (found.encoding == NULL)
        say_not_encoded(&found, words, text);
    else
        snprintf(text, EXPLAIN_ENCODING_SIZE, "  %s: elements are rounded once\n", words);
    return TUTTI_OK;
}
