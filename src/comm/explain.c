/* explain.c - which algorithm and which encoding a call takes, and why, in words; of a message its
 * encoding. */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "call/communicator.h"
#include "call/encoded.h"
#include "comm/explain_encoding.h"
#include "tune/choose.h"

struct writer {
    char *text;
    size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void say(struct writer *writer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length =
        vsnprintf(writer->text + writer->used, writer->size - writer->used, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    writer->used += (size_t)length;
    if (writer->used >= writer->size) writer->used = writer->size - 1;
}

static const char *levels_text(const struct ranked *ranked)
{
    return ranked->only_hosts ? " (hosts)" : "";
}

static bool is_ranked(const struct ranking *ranking, const struct algorithm *algorithm)
{
    for (int i = 0; i < ranking->count; i++)
        if (ranking->ranked[i].algorithm == algorithm) return true;
    return false;
}

static void say_all(const struct choose_call *call, const struct ranking *ranking,
                    struct writer *writer)
{
    for (int i = 0; i < ranking->count; i++) {
        const struct ranked *ranked = &ranking->ranked[i];
        const char *const why_not = choose_why_not_unasked(call, ranked->algorithm);
        say(writer, "  %10.2f us  %s%s%s%s\n", (double)ranked->time_ps * 1e-6,
            ranked->algorithm->name, levels_text(ranked), why_not != NULL ? ": not used, " : "",
            why_not != NULL ? why_not : "");
    }
    for (int i = 0; i < algo_count; i++) {
        const char *const why_not = choose_why_not(call, &algo_list[i]);
        if (algo_list[i].collective == call->question.collective && why_not != NULL &&
            !is_ranked(ranking, &algo_list[i]))
            say(writer, "              -  %s: %s\n", algo_list[i].name, why_not);
    }
}

/* Of a sum. wish: of the call, packed; 0: the communicator's rules decide. */
static void find_encoding(const struct tutti_comm *comm, const struct choose_call *call,
                          uint16_t wish, struct call_encoding *found)
{
    const struct call_to_encode asked = {.collective = call->question.collective,
                                         .dtype = call->question.dtype,
                                         .op = OP_SUM,
                                         .bytes = call->question.bytes,
                                         .deterministic = call->deterministic,
                                         .wish = wish};
    call_encoding_find(comm, &asked, found);
}

static enum tutti_status explain(const struct tutti_comm *comm, struct choose_call *call,
                                 uint16_t wish, size_t count, struct writer *writer)
{
    struct choice choice;
    struct ranking ranking;
    struct call_encoding encoding;
    find_encoding(comm, call, wish, &encoding);
    TRY(call_encoding_choose(call, &encoding, &choice));
    TRY(choose_ranking(call, &ranking));
    say(writer, "%s of %zu %s on %d ranks: %s, because %s\n",
        collective_name(call->question.collective), count, tutti_dtype_name(call->question.dtype),
        comm->team.size, choice.algorithm->name, choice_reason_text(choice.reason));
    char encoded[EXPLAIN_ENCODING_SIZE];
    TRY(explain_encoding(comm, &choice, &encoding, encoded));
    say(writer, "%s", encoded);
    if (comm->team.size > 1) say_all(call, &ranking, writer);
    return TUTTI_OK;
}

/* The call or message to explain. */
struct asked {
    bool is_message;
    enum collective collective; /* of others */
    int peer;                   /* of a message to it */
    uint16_t wish;              /* packed; 0: none */
};

/* "3", a rank that there is. */
static enum tutti_status read_peer(const struct tutti_comm *comm, const char *text, int *peer)
{
    char *end;
    errno = 0;
    const long number = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : -1;
    if (number < 0 || errno != 0 || *end != '\0' || number >= comm->team.size)
        return error_set(
            TUTTI_INVALID_RANK,
            "tutti_comm_explain: a message goes to a rank, as in \"send:0\", of ranks 0 "
            "to %d; \"%.20s\" is none",
            comm->team.size - 1, text);
    *peer = (int)number;
    return TUTTI_OK;
}

/* "allreduce", or "send:3" for a message to rank 3. */
static enum tutti_status read_name(const struct tutti_comm *comm, const char *name,
                                   struct asked *asked)
{
    if (strcmp(name, "send") == 0 || strncmp(name, "send:", 5) == 0) {
        asked->is_message = true;
        return read_peer(comm, name[4] == ':' ? name + 5 : "", &asked->peer);
    }
    asked->collective = collective_from_name(name);
    if (asked->collective < COLLECTIVE_COUNT) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS,
                     "tutti_comm_explain: collective must be a name such as \"allreduce\", is "
                     "\"%.40s\"",
                     name);
}

/* A name, or "allreduce=bfloat16/hosts" for a call that asks for that encoding. */
static enum tutti_status read_asked(const struct tutti_comm *comm, const char *text,
                                    struct asked *asked)
{
    char name[41];
    struct encoding_wish wanted;
    if (text == NULL) text = "NULL";
    const size_t length = strcspn(text, "=");
    *asked = (struct asked){.is_message = false};
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name), text);
    TRY(read_name(comm, name, asked));
    if (text[length] == '\0') return TUTTI_OK;
    const char *const wrong = encoding_wish_parse(text + length + 1, &wanted);
    if (wrong != NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_comm_explain: the encoding in \"%.60s\": %s",
                         text, wrong);
    asked->wish = encoding_wish_pack(&wanted);
    return TUTTI_OK;
}

static enum tutti_status explain_message(const struct tutti_comm *comm, const struct asked *asked,
                                         size_t count, size_t bytes, enum tutti_dtype dtype,
                                         struct writer *writer)
{
    char encoded[EXPLAIN_ENCODING_SIZE];
    TRY(explain_message_encoding(comm, asked->wish, dtype, bytes, asked->peer, encoded));
    say(writer, "send of %zu %s from rank %d to rank %d\n%s", count, tutti_dtype_name(dtype),
        comm->team.rank, asked->peer, encoded);
    return TUTTI_OK;
}

enum tutti_status tutti_comm_explain(const struct tutti_comm *comm, const char *collective,
                                     size_t count, enum tutti_dtype dtype, char *text,
                                     size_t text_bytes)
{
    TRY(communicator_check_handle(comm, "comm_explain"));
    if (!dtype_is_valid(dtype))
        return error_set(TUTTI_INVALID_DTYPE, "tutti_comm_explain: dtype %d is none", (int)dtype);
    struct asked asked;
    TRY(read_asked(comm, collective, &asked));
    if (text == NULL || text_bytes == 0)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_comm_explain: there is no room for text");
    const size_t element_bytes = dtype_size(dtype), count_max = SIZE_MAX / 2 / element_bytes;
    const size_t bytes = (count < count_max ? count : count_max) * element_bytes;
    struct writer writer = {text, text_bytes, 0};
    text[0] = '\0';
    if (asked.is_message) return explain_message(comm, &asked, count, bytes, dtype, &writer);
    struct choose_call call = {
        .question = {.collective = asked.collective, .dtype = dtype, .bytes = bytes},
        .site = &comm->team.members.site,
        .deterministic = comm->team.settings.deterministic,
        .rules = comm->team.settings.rules};
    return explain(comm, &call, asked.wish, count, &writer);
}
