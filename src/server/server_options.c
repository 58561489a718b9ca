#include "server/server_options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/sized.h"
#include "base/status.h"
#include "call/communicator.h"
#include "health/failure.h"
#include "server/table_words.h"

/* So one call can name all of them. */
enum { TABLES_MAX = TUTTI_SERVER_PARTS, JOINERS_MAX = 1024 };
#define QUEUE_BYTES (UINT64_C(256) << 20)

/* ---------------------------------------------------------------------------------------- ranks */

static enum tutti_status check_ranks(const char *name, const int *ranks, size_t count, int size)
{
    if (ranks == NULL) return error_set(TUTTI_INVALID_OPTIONS, "%s is NULL", name);
    if (count == 0 || count > (size_t)size)
        return error_set(TUTTI_INVALID_OPTIONS, "%s has %zu ranks, and the communicator %d", name,
                         count, size);
    for (size_t i = 0; i < count; i++)
        if (ranks[i] < 0 || ranks[i] >= size || (i > 0 && ranks[i] <= ranks[i - 1]))
            return error_set(TUTTI_INVALID_OPTIONS,
                             "%s[%zu] is %d; ranks are increasing, from 0 to %d", name, i, ranks[i],
                             size - 1);
    return TUTTI_OK;
}

int server_setup_find(const int *ranks, int count, int rank)
{
    for (int i = 0; i < count; i++)
        if (ranks[i] == rank) return i;
    return -1;
}

static enum tutti_status copy_ranks(struct server_setup *setup,
                                    const struct tutti_server_options *options, int size)
{
    struct server_division *const division = &setup->division;
    if (options->joiner_max < 0 || options->joiner_max > JOINERS_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "joiner_max is %d; 0 to %d are possible",
                         options->joiner_max, JOINERS_MAX);
    TRY(check_ranks("server_ranks", options->server_ranks, options->server_count, size));
    if (options->worker_ranks != NULL)
        TRY(check_ranks("worker_ranks", options->worker_ranks, options->worker_count, size));
    setup->server_ranks = malloc((size_t)size * sizeof *setup->server_ranks);
    setup->worker_ranks =
        malloc(((size_t)size + (size_t)options->joiner_max) * sizeof *setup->worker_ranks);
    if (setup->server_ranks == NULL || setup->worker_ranks == NULL)
        return error_set(TUTTI_NO_MEMORY, "no memory");
    for (size_t i = 0; i < options->server_count; i++)
        setup->server_ranks[division->server_count++] = options->server_ranks[i];
    for (int rank = 0; rank < size; rank++) {
        const bool works =
            options->worker_ranks != NULL
                ? server_setup_find(options->worker_ranks, (int)options->worker_count, rank) >= 0
                : server_setup_find(setup->server_ranks, division->server_count, rank) < 0;
        if (works) setup->worker_ranks[division->worker_count++] = rank;
    }
    if (division->worker_count == 0)
        return error_set(TUTTI_INVALID_OPTIONS, "all ranks are servers, and none is a worker");
    for (int place = 0; place < options->joiner_max; place++)
        setup->worker_ranks[division->worker_count++] = size + place;
    division->place_count = options->joiner_max;
    return TUTTI_OK;
}

/* --------------------------------------------------------------------------------------- tables */

static enum tutti_status read_table(const struct tutti_server_options *options, size_t t,
                                    struct tutti_server_table *own)
{
    const void *at = options->tables;
    /* Structs of another version have another size. */
    for (size_t i = 0; i < t; i++) {
        size_t bytes;
        memcpy(&bytes, at, sizeof bytes);
        at = (const char *)at + bytes;
    }
    TRY(SIZED_READ("tables", tutti_server_table, (const struct tutti_server_table *)at, own));
    if (own->name == NULL || own->name[0] == 0 ||
        strlen(own->name) >= sizeof((struct division_table *)0)->name)
        return error_set(TUTTI_INVALID_OPTIONS, "table %zu has no name of 1 to 255 bytes", t);
    const uint64_t rows = own->row_count, width = own->width;
    if (width == 0 || (rows > 0 && width > TABLE_WIDTH_MAX) || rows > INT64_MAX ||
        width > SIZE_MAX / 2 / sizeof(float))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "table '%s' has row_count %zu and width %zu; a dense tensor (row_count "
                         "0) has 1 or more elements, a row 1 to %d",
                         own->name, own->row_count, own->width, TABLE_WIDTH_MAX);
    return TUTTI_OK;
}

static enum tutti_status copy_tables(struct server_setup *setup,
                                     const struct tutti_server_options *options)
{
    if (options->tables == NULL) return error_set(TUTTI_INVALID_OPTIONS, "tables is NULL");
    if (options->table_count == 0 || options->table_count > TABLES_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "%zu tables; 1 to %d are possible",
                         options->table_count, TABLES_MAX);
    setup->division_tables = calloc(options->table_count, sizeof *setup->division_tables);
    setup->table_words = calloc(options->table_count, sizeof *setup->table_words);
    if (setup->division_tables == NULL || setup->table_words == NULL)
        return error_set(TUTTI_NO_MEMORY, "no memory");
    for (size_t t = 0; t < options->table_count; t++) {
        struct tutti_server_table given;
        struct division_table *const table = &setup->division_tables[t];
        TRY(read_table(options, t, &given));
        memcpy(table->name, given.name, strlen(given.name) + 1);
        table->is_rows = given.row_count > 0;
        table->allows_nan = given.allows_nan != 0;
        table->row_count = given.row_count;
        table->width = given.width;
        table_words_of(&given, &setup->table_words[t]);
    }
    setup->division.tables = setup->division_tables;
    setup->division.table_count = options->table_count;
    setup->hashes[SERVER_TABLES] = hash_take(0, options->table_count);
    for (size_t t = 0; t < options->table_count; t++)
        setup->hashes[SERVER_TABLES] =
            table_words_hash(setup->hashes[SERVER_TABLES], &setup->table_words[t]);
    return TUTTI_OK;
}

static enum table_optimizer_kind optimizer_of(enum tutti_server_optimizer optimizer)
{
    switch (optimizer) {
    case TUTTI_SERVER_SGD: return TABLE_SGD;
    case TUTTI_SERVER_MOMENTUM: return TABLE_MOMENTUM;
    case TUTTI_SERVER_ADAGRAD: return TABLE_ADAGRAD;
    case TUTTI_SERVER_ADAM: return TABLE_ADAM;
    default: return TABLE_USER;
    }
}

static enum tutti_status spec_of(const struct tutti_server_table *given, struct table_spec *spec)
{
    if ((unsigned)given->optimizer > TUTTI_SERVER_FUNCTION ||
        (unsigned)given->initial > TUTTI_SERVER_NORMAL)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "table '%s' has optimizer %d and initial %d, one of which is unknown",
                         given->name, (int)given->optimizer, (int)given->initial);
    static const enum table_initial_kind initials[] = {
        [TUTTI_SERVER_CONSTANT] = TABLE_INITIAL_CONSTANT,
        [TUTTI_SERVER_UNIFORM] = TABLE_INITIAL_UNIFORM,
        [TUTTI_SERVER_NORMAL] = TABLE_INITIAL_NORMAL};
    const float value = (float)given->initial_value;
    *spec = (struct table_spec){.name = given->name,
                                .kind = given->row_count > 0 ? TABLE_ROWS : TABLE_DENSE,
                                .count = given->row_count > 0 ? given->row_count : given->width,
                                .width = given->width,
                                .seed = given->seed,
                                .initial = {initials[given->initial], value, value},
                                .optimizer = {.kind = optimizer_of(given->optimizer),
                                              .rate = given->rate,
                                              .weight_decay = given->weight_decay,
                                              .decoupled = given->decoupled != 0,
                                              .momentum = given->momentum,
                                              .nesterov = given->nesterov != 0,
                                              .rate_decay = given->rate_decay,
                                              .first_beta = given->beta1,
                                              .second_beta = given->beta2,
                                              .epsilon = given->epsilon,
                                              .initial_state = given->initial_state,
                                              .state_count = (unsigned)given->state_count,
                                              .update = given->function,
                                              .context = given->context}};
    return TUTTI_OK;
}

/* A rank that only works has no use for the user's function, and may not have it. */
static void no_function(void *context, uint64_t step, size_t count, const float *gradients,
                        float *parameters, float *const *state)
{
    (void)context, (void)step, (void)count, (void)gradients, (void)parameters, (void)state;
}

static enum tutti_status add_table(const struct server_setup *setup,
                                   const struct tutti_server_options *options, size_t t, int server,
                                   struct tables *tables)
{
    struct tutti_server_table given;
    struct table_spec spec;
    struct table *table;
    char message[ERROR_TEXT_MAX];
    TRY(read_table(options, t, &given));
    TRY(spec_of(&given, &spec));
    if (server < 0 && spec.optimizer.update == NULL) spec.optimizer.update = no_function;
    if (spec.kind == TABLE_DENSE && server >= 0)
        division_dense(&setup->division, t, server, &spec.first, &spec.share);
    const enum tutti_status status = tables_add(tables, &spec, &table);
    if (status == TUTTI_OK) return TUTTI_OK;
    error_copy(message, sizeof message);
    return error_set(status, "tables[%zu]: %s", t, message);
}

enum tutti_status server_setup_tables(const struct server_setup *setup,
                                      const struct tutti_server_options *options, int server,
                                      struct tables **made)
{
    struct tables *tables;
    *made = NULL;
    TRY(tables_create(0, &tables));
    enum tutti_status status = TUTTI_OK;
    for (size_t t = 0; t < options->table_count && status == TUTTI_OK; t++)
        status = add_table(setup, options, t, server, tables);
    if (status == TUTTI_OK)
        *made = tables;
    else
        tables_free(tables);
    return status;
}

/* Workers make no tables, but say as well what is wrong with them. */
static enum tutti_status check_tables(const struct server_setup *setup,
                                      const struct tutti_server_options *options)
{
    struct tables *tables;
    TRY(server_setup_tables(setup, options, -1, &tables));
    tables_free(tables);
    return TUTTI_OK;
}

/* ----------------------------------------------------------------------------------- all of it */

static void hash_rest(struct server_setup *setup)
{
    const struct server_division *const division = &setup->division;
    uint64_t *const hashes = setup->hashes;
    for (int i = 0; i < division->server_count; i++)
        hashes[SERVER_RANKS] = hash_take(hashes[SERVER_RANKS], (uint64_t)setup->server_ranks[i]);
    for (int i = 0; i < division_first_workers(division); i++)
        hashes[SERVER_WORKERS] = hash_take(hashes[SERVER_WORKERS], (uint64_t)setup->worker_ranks[i]);
    const uint64_t rest[] = {setup->rule.staleness,
                             (uint64_t)setup->rule.quorum,
                             setup->averages,
                             division->payload_max,
                             (uint64_t)division->backup_count,
                             (uint64_t)division->spare_count,
                             (uint64_t)division->place_count};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        hashes[SERVER_REST] = hash_take(hashes[SERVER_REST], rest[i]);
}

enum tutti_status server_rule_of(const struct tutti_server_change *change, int worker_count,
                                 struct worker_clock_rule *rule)
{
    *rule = (struct worker_clock_rule){0};
    switch (change->mode) {
    case TUTTI_SERVER_SYNCHRONOUS: return TUTTI_OK;
    case TUTTI_SERVER_ASYNCHRONOUS: rule->staleness = WORKER_CLOCK_UNBOUNDED; return TUTTI_OK;
    case TUTTI_SERVER_BOUNDED:
        if (change->staleness < 0)
            return error_set(TUTTI_INVALID_OPTIONS,
                             "mode BOUNDED needs a staleness of 0 or more; it is %d",
                             change->staleness);
        rule->staleness = (uint64_t)change->staleness;
        return TUTTI_OK;
    case TUTTI_SERVER_QUORUM:
        if (change->quorum < 1 || change->quorum > worker_count)
            return error_set(TUTTI_INVALID_OPTIONS,
                             "mode QUORUM needs a quorum from 1 to the number of workers, %d; "
                             "it is %d",
                             worker_count, change->quorum);
        rule->quorum = change->quorum;
        return TUTTI_OK;
    }
    return error_set(TUTTI_INVALID_OPTIONS, "mode %d is unknown", (int)change->mode);
}

static enum tutti_status read_backups(struct server_setup *setup,
                                      const struct tutti_server_options *options)
{
    if (options->backups < 0 || options->backups > 1)
        return error_set(TUTTI_INVALID_OPTIONS, "backups is %d; 0 and 1 are possible",
                         options->backups);
    if (options->backups == 1 && setup->division.server_count < 2)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "backups need at least 2 servers; server_count is %d",
                         setup->division.server_count);
    if (options->spares < 0 || options->spares > SERVER_SPARES_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "spares is %d; 0 to %d are possible",
                         options->spares, SERVER_SPARES_MAX);
    if (options->spares > 0 && (options->backups == 0 || setup->division.server_count < 3))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "spares need backups and at least 3 servers; backups is %d, and "
                         "server_count %d",
                         options->backups, setup->division.server_count);
    setup->division.backup_count = options->backups;
    setup->division.spare_count = options->spares;
    return TUTTI_OK;
}

enum tutti_status server_setup_init(struct server_setup *setup,
                                    const struct tutti_server_options *options,
                                    struct tutti_comm *comm)
{
    *setup = (struct server_setup){.averages = options->average != 0,
                                   .timeout_ns = options->timeout_ns,
                                   .serve_timeout_ns = options->serve_timeout_ns};
    TRY(copy_ranks(setup, options, tutti_comm_size(comm)));
    TRY(copy_tables(setup, options));
    TRY(check_tables(setup, options));
    setup->division.payload_max = options->queue_bytes != 0
                                      ? options->queue_bytes
                                      : division_queue_bytes(&setup->division, QUEUE_BYTES);
    if (setup->division.payload_max > DIVISION_QUEUE_MAX)
        setup->division.payload_max = DIVISION_QUEUE_MAX;
    const struct tutti_server_change mode = {
        .mode = options->mode, .staleness = options->staleness, .quorum = options->quorum};
    TRY(server_rule_of(&mode, setup->division.worker_count, &setup->rule));
    TRY(read_backups(setup, options));
    hash_rest(setup);
    return TUTTI_OK;
}

enum tutti_status server_setup_init_tables(struct server_setup *setup,
                                           const struct tutti_server_options *options)
{
    *setup = (struct server_setup){.timeout_ns = options->timeout_ns};
    TRY(copy_tables(setup, options));
    return check_tables(setup, options);
}

void server_setup_release(struct server_setup *setup)
{
    free(setup->division_tables);
    free(setup->table_words);
    free(setup->server_ranks);
    free(setup->worker_ranks);
}

/* ------------------------------------------------------------------------------------- agreement */

struct word {
    uint64_t hashes[SERVER_HASHES];
    uint64_t status;
};

/* The lowest rank that gave something else than rank 0, or -1; and what. */
static int find_other(const struct word *words, int size, int *what)
{
    for (int r = 1; r < size; r++)
        for (*what = 0; *what < SERVER_HASHES; ++*what)
            if (words[r].hashes[*what] != words[0].hashes[*what]) return r;
    return -1;
}

/* The tables of one rank, on all ranks; that rank has `count` of them. */
static enum tutti_status tell_tables(struct tutti_comm *comm, int from,
                                     const struct server_setup *setup, struct table_words **words,
                                     size_t *count)
{
    const bool is_own = tutti_comm_rank(comm) == from;
    uint64_t told = is_own ? setup->division.table_count : 0;
    *words = NULL;
    TRY(tutti_broadcast(&told, &told, sizeof told, TUTTI_UINT8, from, comm));
    if (told > TABLES_MAX) return error_set(TUTTI_MISMATCH, "rank %d has too many tables", from);
    *count = (size_t)told;
    *words = calloc(*count + 1, sizeof **words);
    if (*words == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for tables");
    if (is_own) memcpy(*words, setup->table_words, *count * sizeof **words);
    return tutti_broadcast(*words, *words, *count * sizeof **words, TUTTI_UINT8, from, comm);
}

/* Collective: in which table and field that rank differs from rank 0. */
static void say_difference(struct tutti_comm *comm, int other, const struct server_setup *setup,
                           char *text, size_t text_bytes)
{
    struct table_words *first = NULL, *words = NULL;
    size_t first_count = 0, count = 0;
    char said[400] = "";
    if (tell_tables(comm, 0, setup, &first, &first_count) == TUTTI_OK &&
        tell_tables(comm, other, setup, &words, &count) == TUTTI_OK)
        (void)table_words_differ(words, count, first, first_count, said, sizeof said);
    snprintf(text, text_bytes, "%s%s", said[0] != 0 ? ": " : "", said);
    free(first);
    free(words);
}

enum tutti_status server_setup_agree(struct tutti_comm *comm, const char *what,
                                     enum tutti_status status, const struct server_setup *setup,
                                     const uint64_t hashes[SERVER_HASHES])
{
    static const char rest[] =
        "mode, staleness, quorum, average, queue_bytes, backups, spares or joiner_max";
    static const char *const names[] = {[SERVER_TABLES] = "tables",
                                        [SERVER_RANKS] = "server_ranks",
                                        [SERVER_WORKERS] = "worker_ranks",
                                        [SERVER_REST] = rest};
    const int size = tutti_comm_size(comm), rank = tutti_comm_rank(comm);
    char message[ERROR_TEXT_MAX], difference[420] = "", who[128];
    error_copy(message, sizeof message);
    struct word *const words = calloc((size_t)size, sizeof *words);
    if (words == NULL) return error_set(TUTTI_NO_MEMORY, "%s: no memory for %d ranks", what, size);
    words[rank].status = status;
    if (hashes != NULL) memcpy(words[rank].hashes, hashes, sizeof words[rank].hashes);
    const enum tutti_status exchanged =
        tutti_allgather(&words[rank], words, sizeof *words, TUTTI_UINT8, comm);
    int culprit = -1;
    for (int r = size - 1; r >= 0 && exchanged == TUTTI_OK; r--)
        if (words[r].status != TUTTI_OK) culprit = r;
    const enum tutti_status theirs = culprit >= 0 && words[culprit].status < STATUS_COUNT
                                         ? (enum tutti_status)words[culprit].status
                                         : TUTTI_INTERNAL;
    int differs = 0;
    const int other = exchanged == TUTTI_OK ? find_other(words, size, &differs) : -1;
    free(words);
    if (status != TUTTI_OK) return error_set(status, "%s", message);
    if (exchanged != TUTTI_OK) return exchanged;
    if (culprit < 0 && other < 0) return TUTTI_OK;
    health_name_rank(&comm->health, culprit >= 0 ? culprit : other, who, sizeof who);
    if (culprit >= 0)
        return error_set(theirs, "%s: %s failed with %s; its own message says why", what, who,
                         tutti_status_name(theirs));
    if (differs == SERVER_TABLES) say_difference(comm, other, setup, difference, sizeof difference);
    return error_set(TUTTI_MISMATCH, "%s: %s gave %s that differ from those of rank 0%s", what, who,
                     names[differs], difference);
}
