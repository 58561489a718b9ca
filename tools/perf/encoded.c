#include "encoded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"
#include "base/option.h"
#include "tune/rules.h"

enum { TEXT_BYTES = 8192 };

void perf_encoded_read(const char *text, int rank_count, struct perf_encoded *found)
{
    const char *const line = strstr(text, "\n  ");
    char name[32];
    *found = (struct perf_encoded){TUTTI_ENCODING_NONE, 0};
    if (line == NULL || sscanf(line, " %31s", name) != 1) return;
    found->encoding = encoding_from_name(name); /* "not" is none, and no number is */
    if (found->encoding == TUTTI_ENCODING_NONE) return;
    found->roundings = rank_count;
    const char *const how_often = strstr(line, "contributions are rounded ");
    if (how_often == NULL) return;
    if (sscanf(how_often, "contributions are rounded up to %d", &found->roundings) != 1)
        found->roundings = 1;
}

/* Of messages and v forms nothing is explained: the permission tells, and it may go unused.
 * rules_for: the rules that are for the call, by that size. */
static enum tutti_status find_permitted(const struct perf_encodable *call, enum collective rules_for,
                                        size_t bytes, int roundings, struct perf_encoded *found)
{
    struct encoding_wish wish = {.encoding = TUTTI_ENCODING_NONE};
    if (call->encoding != NULL) {
        const char *const wrong = encoding_wish_parse(call->encoding, &wish);
        if (wrong != NULL) return TUTTI_INVALID_OPTIONS;
    } else {
        struct rules *rules;
        const enum tutti_status status =
            rules_parse_encodings(option_text(OPTION_ENCODINGS), &rules);
        if (status != TUTTI_OK) return status;
        rules_encode(rules, rules_for, bytes, &wish);
        rules_free(rules);
    }
    if (wish.encoding != TUTTI_ENCODING_NONE && encoding_takes(wish.encoding, call->dtype))
        *found = (struct perf_encoded){wish.encoding, roundings};
    return TUTTI_OK;
}

/* "allgatherv": its collective; COLLECTIVE_COUNT: it is no v form. */
static enum collective varying(const char *name)
{
    char even[32];
    const size_t length = strlen(name);
    if (length == 0 || length > sizeof even || name[length - 1] != 'v') return COLLECTIVE_COUNT;
    snprintf(even, sizeof even, "%.*s", (int)length - 1, name);
    return collective_from_name(even);
}

/* Where ranks know only their own counts, rules take the call for 0 bytes. */
static enum tutti_status find_varying(const struct perf_encodable *call, enum collective collective,
                                      int rank_count, struct perf_encoded *found)
{
    const size_t bytes =
        collective_knows_all_counts(collective) ? call->count * tutti_dtype_size(call->dtype) : 0;
    return find_permitted(call, collective, bytes, collective_reduces(collective) ? rank_count : 1,
                          found);
}

enum tutti_status perf_encoded_find(const struct tutti_comm *comm,
                                    const struct perf_encodable *call, struct perf_encoded *found)
{
    *found = (struct perf_encoded){TUTTI_ENCODING_NONE, 0};
    if (call->collective == NULL ||
        (call->encoding == NULL && option_text(OPTION_ENCODINGS) == NULL))
        return TUTTI_OK;
    if (strcmp(call->collective, "send") == 0)
        return find_permitted(call, RULES_MESSAGES, call->count * tutti_dtype_size(call->dtype), 1,
                              found);
    const enum collective varied = varying(call->collective);
    if (varied != COLLECTIVE_COUNT) return find_varying(call, varied, tutti_comm_size(comm), found);
    char asked[128], *const text = malloc(TEXT_BYTES);
    if (text == NULL) return TUTTI_NO_MEMORY;
    snprintf(asked, sizeof asked, "%s%s%s", call->collective, call->encoding != NULL ? "=" : "",
             call->encoding != NULL ? call->encoding : "");
    const enum tutti_status status =
        tutti_comm_explain(comm, asked, call->count, call->dtype, text, TEXT_BYTES);
    const int rank_count = tutti_comm_size(comm);
    if (status == TUTTI_OK) perf_encoded_read(text, rank_count, found);
    if (call->has_algorithm && found->encoding != TUTTI_ENCODING_NONE)
        found->roundings = rank_count;
    free(text);
    return status;
}

double perf_encoded_largest(const struct perf_encoded *encoded, double exact_max)
{
    if (encoded->encoding == TUTTI_ENCODING_NONE) return exact_max;
    return fmin(exact_max, encoding_largest(encoded->encoding));
}

double perf_encoded_tolerance(const struct perf_encoded *encoded, int rank_count, double largest,
                              double exact_max)
{
    if (encoded->encoding == TUTTI_ENCODING_NONE) return 0;
    const double share = encoding_error_max(encoded->encoding), own = rank_count / exact_max;
    return largest * (pow(1 + share, encoded->roundings) - 1 + own);
}
