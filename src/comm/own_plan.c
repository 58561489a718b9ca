/* own_plan.c - plans that a program writes, reads, and registers (tutti/plan.h).
 *
 *     steps, as lines of text ──► one text ──► parsed when the plan is first used; it does not change from then on
 */
#include "tutti/plan.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/loaded.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "call/communicator.h"
#include "call/own_call.h"
#include "comm/plans.h"
#include "format/plan_file.h"
#include "plan/fingerprint.h"
#include "plan/text.h"
#include "tune/estimate.h"
#include "tune/ranking.h"

enum { STEP_BYTES_MAX = 65536, TEXT_BYTES_MAX = 1 << 28 };

/* Lines that were added so far. */
struct lines {
    char *text;
    size_t size, room;
};

struct rank_lines {
    struct lines scratch, lanes[PLAN_LANES_MAX];
};

struct tutti_plan {
    struct plan_shape shape;
    struct rank_lines *ranks; /* while steps can be added; else NULL */
    size_t text_bytes;        /* of all lines */
    struct plan *plan;        /* when they have been read */
    bool is_proven;
    struct loaded_proof proof;
};

/* -------------------------------------------------------------------------------------- writing */

static enum tutti_status append(struct tutti_plan *plan, struct lines *lines, const char *line,
                                size_t length)
{
    if (length > STEP_BYTES_MAX || plan->text_bytes > TEXT_BYTES_MAX - STEP_BYTES_MAX)
        return error_set(TUTTI_NO_MEMORY, "a plan: its text becomes too long");
    if (lines->room - lines->size < length + 1) {
        const size_t room = 2 * lines->room + length + 64;
        char *const grown = realloc(lines->text, room);
        if (grown == NULL) return error_set(TUTTI_NO_MEMORY, "a plan: out of memory");
        lines->text = grown;
        lines->room = room;
    }
    memcpy(lines->text + lines->size, line, length);
    lines->size += length;
    lines->text[lines->size++] = '\n';
    plan->text_bytes += length + 1;
    return TUTTI_OK;
}

static enum tutti_status check_shape(const char *collective, const struct plan_shape *shape,
                                     int parts)
{
    if (shape->collective >= COLLECTIVE_COUNT)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_plan_create: collective must be a name such as \"allreduce\", is "
                         "\"%.40s\"",
                         collective != NULL ? collective : "NULL");
    if (shape->rank_count < 2 || shape->rank_count > LOADED_RANKS_MAX)
        return error_set(TUTTI_INVALID_RANK, "tutti_plan_create: rank_count must be 2 to %d, is %d",
                         LOADED_RANKS_MAX, shape->rank_count);
    if (shape->root < 0 || shape->root >= shape->rank_count ||
        (shape->root != 0 && !collective_is_rooted(shape->collective)))
        return error_set(TUTTI_INVALID_ROOT, "tutti_plan_create: %s of %d ranks has no root %d",
                         collective, shape->rank_count, shape->root);
    if (parts < 1)
        return error_set(TUTTI_INVALID_COUNT, "tutti_plan_create: parts must be 1 or more, is %d",
                         parts);
    return TUTTI_OK;
}

static enum tutti_status check_out(const char *function, struct tutti_plan **plan)
{
    if (plan == NULL)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_%s: plan must be the address of a pointer, is NULL", function);
    *plan = NULL;
    return TUTTI_OK;
}

enum tutti_status tutti_plan_create(const char *collective, int rank_count, int root, int parts,
                                    struct tutti_plan **plan)
{
    TRY(check_out("plan_create", plan));
    const struct plan_shape shape = {
        .collective = collective != NULL ? collective_from_name(collective) : COLLECTIVE_COUNT,
        .rank_count = rank_count,
        .root = root,
        .parts = (uint32_t)parts};
    TRY(check_shape(collective, &shape, parts));
    struct tutti_plan *const created = calloc(1, sizeof *created);
    if (created != NULL) created->ranks = calloc((size_t)rank_count, sizeof *created->ranks);
    if (created == NULL || created->ranks == NULL) {
        free(created);
        return error_set(TUTTI_NO_MEMORY, "tutti_plan_create: out of memory");
    }
    created->shape = shape;
    *plan = created;
    return TUTTI_OK;
}

static enum tutti_status check_change(const char *function, const struct tutti_plan *plan, int rank)
{
    if (plan == NULL) return error_set(TUTTI_INVALID_OPTIONS, "tutti_%s: plan is NULL", function);
    if (plan->ranks == NULL)
        return error_set(TUTTI_UNSUPPORTED,
                         "tutti_%s: the plan was read or used, and cannot change any more",
                         function);
    if (rank < 0 || rank >= plan->shape.rank_count)
        return error_set(TUTTI_INVALID_RANK, "tutti_%s: rank must be 0 to %d, is %d", function,
                         plan->shape.rank_count - 1, rank);
    return TUTTI_OK;
}

enum tutti_status tutti_plan_scratch(struct tutti_plan *plan, int rank, uint32_t like)
{
    char line[40];
    TRY(check_change("plan_scratch", plan, rank));
    const int length = snprintf(line, sizeof line, "scratch like %u", like);
    return append(plan, &plan->ranks[rank].scratch, line, (size_t)length);
}

enum tutti_status tutti_plan_step(struct tutti_plan *plan, int rank, int lane, const char *step)
{
    TRY(check_change("plan_step", plan, rank));
    if (lane < 0 || lane >= PLAN_LANES_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_plan_step: lane must be 0 to %d, is %d",
                         PLAN_LANES_MAX - 1, lane);
    const size_t length = step != NULL ? strnlen(step, STEP_BYTES_MAX + 1) : 0;
    if (step == NULL || length > STEP_BYTES_MAX || memchr(step, '\n', length) != NULL ||
        strstr(step, "->") == NULL)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_plan_step: a step is one line such as \"in[0] -> to 1\", is "
                         "\"%.40s\"",
                         step != NULL ? step : "NULL");
    return append(plan, &plan->ranks[rank].lanes[lane], step, length);
}

static void lines_free(struct tutti_plan *plan)
{
    for (int r = 0; plan->ranks != NULL && r < plan->shape.rank_count; r++) {
        free(plan->ranks[r].scratch.text);
        for (int l = 0; l < PLAN_LANES_MAX; l++) free(plan->ranks[r].lanes[l].text);
    }
    free(plan->ranks);
    plan->ranks = NULL;
}

enum tutti_status tutti_plan_free(struct tutti_plan *plan)
{
    if (plan == NULL) return TUTTI_OK;
    lines_free(plan);
    plan_free(plan->plan);
    free(plan);
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------- reading */

static void write_lines(const struct lines *lines, FILE *file)
{
    if (lines->size > 0) fwrite(lines->text, 1, lines->size, file);
}

static void write_rank(const struct rank_lines *rank, FILE *file)
{
    int lane_count = PLAN_LANES_MAX;
    write_lines(&rank->scratch, file);
    while (lane_count > 0 && rank->lanes[lane_count - 1].size == 0) lane_count--;
    for (int l = 0; l < lane_count; l++) {
        fprintf(file, "lane %d\n", l);
        write_lines(&rank->lanes[l], file);
    }
}

/* NULL: out of memory. */
static char *write_all(const struct tutti_plan *plan, size_t *size)
{
    const struct plan_shape *const shape = &plan->shape;
    char *text = NULL;
    FILE *const file = open_memstream(&text, size);
    if (file == NULL) return NULL;
    fprintf(file, "plan %s ranks %d", collective_name(shape->collective), shape->rank_count);
    if (collective_is_rooted(shape->collective)) fprintf(file, " root %d", shape->root);
    fprintf(file, " parts %u\n", shape->parts);
    for (int r = 0; r < shape->rank_count; r++) {
        fprintf(file, "rank %d\n", r);
        write_rank(&plan->ranks[r], file);
    }
    if (fclose(file) == 0) return text;
    free(text);
    return NULL;
}

/* The parser names a line of a text that the user has not seen: says what is in it, and whose it
 * is. */
static enum tutti_status blame_line(const char *text, const char *message)
{
    unsigned long line = 0;
    if (sscanf(message, "line %lu", &line) != 1 || line == 0)
        return error_set(TUTTI_INVALID_ALGORITHM, "a plan: %s", message);
    const char *const cause = strchr(message, ':') != NULL ? strchr(message, ':') + 2 : message;
    int rank = -1, lane = -1, step = -1;
    for (const char *end; line > 1 && (end = strchr(text, '\n')) != NULL; line--, text = end + 1) {
        char head[16]; /* sscanf measures the whole of what it gets, and that is not to be the whole text for each line */
        snprintf(head, sizeof head, "%.*s", end - text < 15 ? (int)(end - text) : 15, text);
        if (sscanf(head, "rank %d", &rank) == 1)
            lane = step = -1;
        else if (sscanf(head, "lane %d", &lane) == 1)
            step = -1;
        else
            step++;
    }
    const int all = (int)strcspn(text, "\n"), length = all < 100 ? all : 100;
    if (lane < 0) /* what a rank begins with, before its first lane */
        return error_set(TUTTI_INVALID_ALGORITHM, "a plan: rank %d: \"%.*s\": %s", rank, length,
                         text, cause);
    return error_set(TUTTI_INVALID_ALGORITHM,
                     "a plan: rank %d lane %d step %d cannot be read: \"%.*s\": %s", rank, lane,
                     step + 1, length, text, cause);
}

/* Steps become a plan, once. */
static enum tutti_status complete(const char *function, const struct plan_budget *limits,
                                  struct tutti_plan *plan)
{
    if (plan == NULL) return error_set(TUTTI_INVALID_OPTIONS, "tutti_%s: plan is NULL", function);
    if (plan->plan != NULL) return TUTTI_OK;
    size_t size;
    char message[256];
    char *const text = write_all(plan, &size);
    if (text == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_%s: out of memory", function);
    struct plan_budget budget = plan_budget_to_read(limits);
    enum tutti_status status =
        plan_parse_within(text, size, &budget, &plan->plan, message, sizeof message);
    if (status == TUTTI_OK)
        lines_free(plan);
    else if (budget.end != PLAN_BUDGET_LASTS || status == TUTTI_NO_MEMORY)
        status = error_set(status, "tutti_%s: %s", function, message);
    else
        status = blame_line(text, message);
    free(text);
    return status;
}

static enum tutti_status take(struct plan *read, struct tutti_plan **plan)
{
    struct tutti_plan *const created = calloc(1, sizeof *created);
    if (created == NULL) {
        plan_free(read);
        return error_set(TUTTI_NO_MEMORY, "a plan: out of memory");
    }
    created->shape = read->shape;
    created->plan = read;
    *plan = created;
    return TUTTI_OK;
}

enum tutti_status tutti_plan_parse(const char *text, size_t text_bytes, struct tutti_plan **plan)
{
    struct plan *read;
    TRY(check_out("plan_parse", plan));
    if (text == NULL && text_bytes > 0)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_plan_parse: text is NULL");
    const struct plan_budget limits = plan_budget_default();
    struct plan_budget budget = plan_budget_to_read(&limits);
    TRY(plan_file_parse(text, text_bytes, &budget, &read));
    return take(read, plan);
}

enum tutti_status tutti_plan_load(const char *path, struct tutti_plan **plan)
{
    struct plan *read;
    TRY(check_out("plan_load", plan));
    if (path == NULL) return error_set(TUTTI_INVALID_OPTIONS, "tutti_plan_load: path is NULL");
    const struct plan_budget limits = plan_budget_default();
    struct plan_budget budget = plan_budget_to_read(&limits);
    TRY(plan_file_load(path, &budget, &read));
    return take(read, plan);
}

enum tutti_status tutti_plan_text(struct tutti_plan *plan, char *text, size_t text_bytes,
                                  size_t *full_bytes)
{
    const struct plan_budget limits = plan_budget_default();
    TRY(complete("plan_text", &limits, plan));
    if (text == NULL && text_bytes > 0)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_plan_text: text is NULL");
    char *full = NULL;
    size_t size = 0;
    FILE *const file = open_memstream(&full, &size);
    if (file != NULL) plan_print(plan->plan, file);
    if (file == NULL || fclose(file) != 0) {
        free(full);
        return error_set(TUTTI_NO_MEMORY, "tutti_plan_text: out of memory");
    }
    if (text_bytes > 0) snprintf(text, text_bytes, "%s", full);
    if (full_bytes != NULL) *full_bytes = size + 1;
    free(full);
    return TUTTI_OK;
}

/* --------------------------------------------------------------------------- an algorithm of it */

static enum tutti_status copy_plan(const struct plan *from, struct plan **plan)
{
    struct plan *const copy = calloc(1, sizeof *copy);
    if (copy != NULL) {
        copy->shape = from->shape;
        copy->ranks = calloc((size_t)from->shape.rank_count, sizeof(struct rank_plan *));
    }
    bool is_whole = copy != NULL && copy->ranks != NULL;
    for (int r = 0; is_whole && r < from->shape.rank_count; r++)
        is_whole = (copy->ranks[r] = plan_rank_copy(from->ranks[r])) != NULL;
    *plan = copy;
    if (is_whole) return TUTTI_OK;
    plan_free(copy);
    return error_set(TUTTI_NO_MEMORY, "a plan: out of memory");
}

/* Proven, and the caller's. */
static enum tutti_status make_algorithm(const char *function, const struct plan_budget *limits,
                                        struct tutti_plan *plan, const char *name,
                                        struct algorithm **algorithm)
{
    struct plan *copy;
    struct plan_budget budget = *limits;
    *algorithm = NULL;
    TRY(complete(function, limits, plan));
    TRY(copy_plan(plan->plan, &copy));
    TRY(loaded_create(name, copy, algorithm));
    enum tutti_status status = TUTTI_OK;
    if (!plan->is_proven) status = loaded_prove(*algorithm, &budget, &plan->proof);
    if (status == TUTTI_OK) {
        plan->is_proven = true;
        loaded_set_proof(*algorithm, &plan->proof);
        return TUTTI_OK;
    }
    loaded_free(*algorithm);
    *algorithm = NULL;
    return status;
}

enum tutti_status tutti_plan_verify(struct tutti_plan *plan)
{
    struct algorithm *algorithm;
    const struct plan_budget limits = plan_budget_default();
    TRY(make_algorithm("plan_verify", &limits, plan, "in memory", &algorithm));
    loaded_free(algorithm);
    return TUTTI_OK;
}

static enum tutti_status check_rank_count(const struct tutti_plan *plan,
                                          const struct tutti_comm *comm)
{
    if (plan->shape.rank_count == comm->team.size) return TUTTI_OK;
    return error_set(TUTTI_INVALID_ALGORITHM, "the plan is for %d ranks, and there are %d",
                     plan->shape.rank_count, comm->team.size);
}

static enum tutti_status predict(const struct tune_site *site, const struct tune_question *question,
                                 size_t count, const struct algorithm *algorithm, uint64_t *time_ns)
{
    struct model_machine machine;
    struct tune_room room;
    struct prediction prediction;
    TRY(tune_machine(site, question, &machine, &room));
    const struct predict_job job = {.collective = question->collective,
                                    .count = count,
                                    .element_bytes = dtype_size(question->dtype),
                                    .levels = site->levels,
                                    .machine = &machine};
    const enum tutti_status status = estimate_one(&job, algorithm, false, &prediction);
    tune_room_release(&room);
    if (status == TUTTI_OK) *time_ns = prediction.result.time_ps / 1000;
    return status;
}

enum tutti_status tutti_plan_cost(struct tutti_plan *plan, const struct tutti_comm *comm,
                                  size_t count, enum tutti_dtype dtype, uint64_t *time_ns)
{
    struct algorithm *algorithm;
    TRY(communicator_check_handle(comm, "plan_cost"));
    if (!dtype_is_valid(dtype))
        return error_set(TUTTI_INVALID_DTYPE, "tutti_plan_cost: dtype %d is none", (int)dtype);
    if (time_ns == NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_plan_cost: time_ns is NULL");
    const size_t count_max = SIZE_MAX / 2 / dtype_size(dtype) / (size_t)comm->team.size;
    if (count > count_max)
        return error_set(TUTTI_INVALID_COUNT,
                         "tutti_plan_cost: count must be at most %zu elements of %zu bytes with %d "
                         "ranks, is %zu",
                         count_max, dtype_size(dtype), comm->team.size, count);
    const struct plan_budget limits = plan_budget_default();
    TRY(complete("plan_cost", &limits, plan));
    TRY(check_rank_count(plan, comm));
    TRY(make_algorithm("plan_cost", &limits, plan, "in memory", &algorithm));
    const struct tune_question question = {
        .collective = plan->shape.collective, .dtype = dtype, .bytes = count * dtype_size(dtype)};
    const enum tutti_status status =
        predict(&comm->team.members.site, &question, count, algorithm, time_ns);
    loaded_free(algorithm);
    return status;
}

/* --------------------------------------------------------------------------------- registration */

/* The words that a rank tells the others about its plan. */
struct plan_registration {
    int32_t status;
    uint32_t plan[2], name[2];
};

enum {
    REGISTRATION_WORDS = sizeof(struct plan_registration) / sizeof(int32_t),
    NAME_LENGTH_MAX = 31
};

static uint64_t hash_of(const char *name)
{
    uint64_t hash = 0x6e616d65u;
    for (; *name != '\0'; name++) hash = hash_take(hash, (unsigned char)*name);
    return hash;
}

static enum tutti_status check_name(const struct tutti_comm *comm, enum collective collective,
                                    const char *name)
{
    const struct algorithm *algorithm;
    const size_t length = name != NULL ? strnlen(name, NAME_LENGTH_MAX + 1) : 0;
    bool is_good = length > 0 && length <= NAME_LENGTH_MAX;
    for (size_t i = 0; is_good && i < length; i++)
        is_good = isalnum((unsigned char)name[i]) || name[i] == '_' || name[i] == '-';
    if (!is_good)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_plan_register: a name has 1 to %d letters, digits, '_' and '-', is "
                         "\"%.40s\"",
                         NAME_LENGTH_MAX, name != NULL ? name : "NULL");
    if (algo_find(collective, name) != NULL || plans_find_own(comm, collective, name, &algorithm))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_plan_register: %s has an algorithm \"%s\" already",
                         collective_name(collective), name);
    return TUTTI_OK;
}

static enum tutti_status prepare(struct tutti_plan *plan, const struct tutti_comm *comm,
                                 const char *name, struct algorithm **algorithm)
{
    const struct plan_budget limits = plans_limits(comm, comm->team.settings.timeout_ns);
    *algorithm = NULL;
    TRY(complete("plan_register", &limits, plan));
    TRY(check_rank_count(plan, comm));
    TRY(check_name(comm, plan->shape.collective, name));
    return make_algorithm("plan_register", &limits, plan, name, algorithm);
}

/* All ranks see the same words, so all judge alike; a rank with an error of its own returns
 * that. */
static enum tutti_status judge(const struct plan_registration *all, int rank, int size,
                               const char *own)
{
    if (all[rank].status != TUTTI_OK)
        return error_set((enum tutti_status)all[rank].status, "%s", own);
    for (int r = 0; r < size; r++) {
        if (all[r].status != TUTTI_OK)
            return error_set(TUTTI_MISMATCH,
                             "tutti_plan_register: rank %d cannot use the plan; its own error says "
                             "why",
                             r);
        if (memcmp(&all[r], &all[0], sizeof all[0]) != 0)
            return error_set(
                TUTTI_MISMATCH, "tutti_plan_register: ranks 0 and %d register different %s", r,
                memcmp(all[r].plan, all[0].plan, sizeof all[0].plan) != 0 ? "plans" : "names");
    }
    return TUTTI_OK;
}

enum tutti_status tutti_plan_register(struct tutti_plan *plan, struct tutti_comm *comm,
                                      const char *name)
{
    TRY(communicator_check_handle(comm, "plan_register"));
    struct plan_registration *const all = calloc((size_t)comm->team.size, sizeof *all);
    struct algorithm *algorithm = NULL;
    if (all == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_plan_register: out of memory");
    const int rank = comm->team.rank;
    const enum tutti_status prepared = prepare(plan, comm, name, &algorithm);
    char why[ERROR_TEXT_MAX];
    error_copy(why, sizeof why);
    all[rank].status = (int32_t)prepared;
    if (prepared == TUTTI_OK) {
        const uint64_t of_plan = algorithm->plan_fingerprint, of_name = hash_of(name);
        memcpy(all[rank].plan, &of_plan, sizeof of_plan);
        memcpy(all[rank].name, &of_name, sizeof of_name);
    }
    enum tutti_status status = own_allgather(comm, CALL_FOR_REGISTER, all, REGISTRATION_WORDS,
                                             TUTTI_INT32, comm->team.settings.timeout_ns);
    if (status == TUTTI_OK) status = judge(all, rank, comm->team.size, why);
    free(all);
    if (status == TUTTI_OK) return plans_add_own(comm, algorithm);
    loaded_free(algorithm);
    return status;
}
