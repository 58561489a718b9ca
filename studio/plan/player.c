#include "studio/plan/player.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/collective.h"
#include "base/status.h"
#include "plan/text.h"
#include "studio/page/page.h"
#include "studio/plan/contents.h"
#include "studio/plan/player_page.h"

struct player {
    const struct plan *plan;
    const struct player_options *options;
    const char *title;
    struct rounds rounds;
    struct contents contents;
    uint64_t *sets; /* that chunks hold, ascending, each once */
    size_t set_count;
    FILE *file;
};

/* ------------------------------------------------------------------------------ how large it is */

static enum tutti_status refuse(uint64_t count, uint64_t count_max, const char *what, char *message,
                                size_t message_bytes)
{
    snprintf(message, message_bytes,
             "a page shows at most %" PRIu64 " %s, and this plan has %" PRIu64, count_max, what,
             count);
    return TUTTI_UNSUPPORTED;
}

enum tutti_status plan_check_player(const struct plan *plan, char *message, size_t message_bytes)
{
    const uint64_t rank_count = (uint64_t)plan->shape.rank_count;
    if (rank_count > PLAYER_RANKS_MAX)
        return refuse(rank_count, PLAYER_RANKS_MAX, "ranks", message, message_bytes);
    const uint64_t cell_count = rank_count * contents_cell_count(&plan->shape);
    if (cell_count > PLAYER_CELLS_MAX)
        return refuse(cell_count, PLAYER_CELLS_MAX, "chunks on all ranks together", message,
                      message_bytes);
    uint64_t step_count = 0;
    for (uint64_t rank = 0; rank < rank_count; rank++) step_count += plan->ranks[rank]->step_count;
    if (step_count > PLAYER_STEPS_MAX)
        return refuse(step_count, PLAYER_STEPS_MAX, "steps", message, message_bytes);
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------- sets of ranks */

static int compare_sets(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

static bool collect_sets(struct player *player)
{
    const struct rounds *rounds = &player->rounds;
    const size_t rank_count = (size_t)player->plan->shape.rank_count;
    size_t count = rank_count;
    for (uint32_t i = 0; i < rounds->result_count; i++) count += rounds->results[i].value_count;
    player->sets = calloc(count, sizeof *player->sets);
    if (player->sets == NULL) return false;
    count = 0;
    for (size_t rank = 0; rank < rank_count; rank++)
        player->sets[count++] = UINT64_C(1) << rank; /* inputs */
    for (uint32_t i = 0; i < rounds->result_count; i++) {
        const struct round_result *result = &rounds->results[i];
        for (uint32_t k = 0; k < result->value_count; k++)
            player->sets[count++] = rounds->values[result->first_value + k].ranks;
    }
    qsort(player->sets, count, sizeof *player->sets, compare_sets);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || player->sets[i] != player->sets[i - 1])
            player->sets[player->set_count++] = player->sets[i];
    return true;
}

static size_t set_number(const struct player *player, uint64_t ranks)
{
    const uint64_t *found =
        bsearch(&ranks, player->sets, player->set_count, sizeof *player->sets, compare_sets);
    return (size_t)(found - player->sets);
}

/* ---------------------------------------------------------------------------------- the optimum */

/* Blocks that the busiest rank sends or receives. */
static double busiest_blocks(const struct player *player)
{
    const struct rounds *rounds = &player->rounds;
    uint64_t sent[PLAYER_RANKS_MAX] = {0}, received[PLAYER_RANKS_MAX] = {0}, most = 0;
    for (uint32_t i = 0; i < rounds->message_count; i++) {
        const struct round_message *message = &rounds->messages[i];
        sent[message->from] += message->value_count;
        received[message->to] += message->value_count;
    }
    for (int rank = 0; rank < player->plan->shape.rank_count; rank++) {
        if (sent[rank] > most) most = sent[rank];
        if (received[rank] > most) most = received[rank];
    }
    return (double)most / player->plan->shape.parts;
}

/* The fewest blocks that the busiest rank can send or receive, whatever the plan. A rank must get
 * what it does not have, and give what only it has. In a reduction all but one contribution to an
 * element travel, and so does its result to all ranks but one, which on average is 2 (n-1)/n of a
 * block for each rank of an allreduce (Patarasuk, Yuan, JPDC 69(2), 2009). */
static double least_blocks(const struct plan_shape *shape)
{
    const double n = shape->rank_count;
    if (shape->rank_count == 1) return 0;
    switch (shape->collective) {
    case COLLECTIVE_ALLREDUCE: return 2 * (n - 1) / n;
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_BROADCAST: return 1;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: break;
    }
    return n - 1;
}

/* ------------------------------------------------------------------------------------- the data */

static void print_head(const struct player *player)
{
    const struct plan_shape *shape = &player->plan->shape;
    const struct player_options *options = player->options;
    FILE *file = player->file;
    fputs("{\"title\": ", file);
    page_print_json(file, player->title);
    fprintf(file, ",\n\"collective\": \"%s\", \"algorithm\": ", collective_name(shape->collective));
    if (options->algorithm != NULL)
        page_print_json(file, options->algorithm);
    else
        fputs("null", file);
    fprintf(file, ",\n\"ranks\": %d, \"root\": ", shape->rank_count);
    if (collective_is_rooted(shape->collective))
        fprintf(file, "%d", shape->root);
    else
        fputs("null", file);
    fprintf(file,
            ", \"parts\": %u, \"cells\": %u,\n\"reduces\": %s, \"in_place\": %s, \"ports\": %u, "
            "\"rounds\": %u,\n\"proof\": ",
            shape->parts, player->contents.cell_count,
            collective_reduces(shape->collective) ? "true" : "false",
            options->rounds.in_place ? "true" : "false", options->rounds.ports,
            player->rounds.round_count);
    if (options->proof != NULL) {
        fprintf(file, "{\"proven\": %s, \"text\": ", options->is_proven ? "true" : "false");
        page_print_json(file, options->proof);
        fputs("}", file);
    } else {
        fputs("null", file);
    }
    if (shape->collective == COLLECTIVE_BARRIER)
        fputs(",\n\"busiest\": null, \"least\": null", file);
    else
        fprintf(file, ",\n\"busiest\": %.6g, \"least\": %.6g", busiest_blocks(player),
                least_blocks(shape));
}

static void print_hosts(const struct player *player)
{
    const int *host_of = player->options->host_of;
    fputs(",\n\"hosts\": ", player->file);
    if (host_of == NULL) fputs("null", player->file);
    for (int rank = 0; host_of != NULL && rank < player->plan->shape.rank_count; rank++)
        fprintf(player->file, "%s%d", rank == 0 ? "[" : ", ", host_of[rank]);
    if (host_of != NULL) fputs("]", player->file);
}

static void print_classes(const struct player *player, const char *name, enum plan_buffer buffer)
{
    const struct plan *plan = player->plan;
    fprintf(player->file, ",\n\"%s\": [", name);
    for (int rank = 0; rank < plan->shape.rank_count; rank++) {
        const struct rank_plan *rank_plan = plan->ranks[rank];
        const uint32_t count = buffer == PLAN_SCRATCH ? rank_plan->scratch_count
                                                      : plan_chunk_count(&plan->shape, rank, buffer);
        fputs(rank == 0 ? "[" : ", [", player->file);
        for (uint32_t i = 0; i < count; i++)
            fprintf(player->file, "%s%u", i == 0 ? "" : ", ",
                    plan_location_class(rank_plan, buffer, i));
        fputs("]", player->file);
    }
    fputs("]", player->file);
}

/* As short as it can be and still be that number. */
static void print_number(double number, FILE *file)
{
    char text[40];
    snprintf(text, sizeof text, "%.15g", number);
    if (strtod(text, NULL) != number) snprintf(text, sizeof text, "%.17g", number);
    fputs(text, file);
}

static void print_values(const struct player *player)
{
    const struct rounds_options *how = &player->options->rounds;
    const struct plan *plan = player->plan;
    fputs(",\n\"values\": ", player->file);
    if (how->example_values == NULL) fputs("null", player->file);
    for (int rank = 0; how->example_values != NULL && rank < plan->shape.rank_count; rank++) {
        fputs(rank == 0 ? "[[" : ", [", player->file);
        const uint32_t count = plan_chunk_count(&plan->shape, rank, PLAN_INPUT);
        for (uint32_t i = 0; i < count; i++) {
            if (i > 0) fputs(", ", player->file);
            print_number(rounds_input(plan, rank, i, how).number, player->file);
        }
        fputs("]", player->file);
    }
    if (how->example_values != NULL) fputs("]", player->file);
}

static void print_sets(const struct player *player)
{
    fputs(",\n\"sets\": [", player->file);
    for (size_t i = 0; i < player->set_count; i++)
        fprintf(player->file, "%s\"%" PRIx64 "\"", i == 0 ? "" : ", ", player->sets[i]);
    fputs("]", player->file);
}

static void print_step(const struct player *player, const struct round_result *result)
{
    const struct rank_plan *rank_plan = player->plan->ranks[result->rank];
    const struct plan_step *step = &rank_plan->steps[result->step];
    FILE *file = player->file;
    fprintf(file, "[%u, %d, \"%s\", \"%u.%u: ", result->round, result->rank,
            plan_step_kind(rank_plan, step), step->lane,
            result->step - rank_plan->lanes[step->lane].first_step);
    plan_print_step(rank_plan, step, file); /* letters, digits, and none of "\< and & */
    fprintf(file, "\", %d, %u, [", step->has_destination ? (int)step->destination.buffer : -1,
            step->has_destination ? step->destination.first : 0);
    for (uint32_t k = 0; k < result->value_count; k++) {
        const struct round_value *value = &player->rounds.values[result->first_value + k];
        fprintf(file, "%s%u, %zu", k == 0 ? "" : ", ", value->chunk_class,
                set_number(player, value->ranks));
    }
    fputs("]]", file);
}

static void print_steps(const struct player *player)
{
    fputs(",\n\"steps\": [", player->file);
    for (uint32_t i = 0; i < player->rounds.result_count; i++) {
        fputs(i == 0 ? "\n" : ",\n", player->file);
        print_step(player, &player->rounds.results[i]);
    }
    fputs("]", player->file);
}

static void print_messages(const struct player *player)
{
    fputs(",\n\"messages\": [", player->file);
    for (uint32_t i = 0; i < player->rounds.message_count; i++) {
        const struct round_message *message = &player->rounds.messages[i];
        const bool is_taken = message->taken_by != ROUNDS_NEVER;
        fprintf(player->file, "%s[%u, %d, %d, %u, %d]", i == 0 ? "\n" : ",\n", message->round,
                message->from, message->to, message->sent_by,
                is_taken ? (int)message->taken_by : -1);
    }
    fputs("]", player->file);
}

/* Writes the cells that have changed since the last frame. */
static void print_frame(const struct player *player, const char *separator)
{
    const struct contents *contents = &player->contents;
    const char *comma = "";
    fprintf(player->file, "%s[", separator);
    for (int rank = 0; rank < player->plan->shape.rank_count; rank++)
        for (uint32_t i = 0; i < contents->cell_count; i++) {
            struct contents_cell *cell = contents_of(contents, rank) + i;
            if (!cell->changed) continue;
            cell->changed = false;
            fprintf(player->file, "%s%d, %u, %u, %zu", comma, rank, i, cell->value.chunk_class,
                    set_number(player, cell->value.ranks));
            comma = ", ";
        }
    fputs("]", player->file);
}

static void print_frames(struct player *player)
{
    fputs(",\n\"frames\": [", player->file);
    print_frame(player, "\n");
    contents_show_round(&player->contents, 0);
    if (player->rounds.round_count == 0) print_frame(player, ",\n");
    for (uint32_t round = 1; round <= player->rounds.round_count; round++) {
        contents_show_round(&player->contents, round);
        print_frame(player, ",\n");
    }
    fputs("]}", player->file);
}

static void print_data(struct player *player)
{
    print_head(player);
    print_hosts(player);
    print_classes(player, "inputs", PLAN_INPUT);
    print_classes(player, "outputs", PLAN_OUTPUT);
    print_classes(player, "scratch", PLAN_SCRATCH);
    print_values(player);
    print_sets(player);
    print_steps(player);
    print_messages(player);
    print_frames(player);
}

/* ------------------------------------------------------------------------------------- the page */

static char *data_of(struct player *player)
{
    FILE *const page = player->file;
    char *data = NULL;
    size_t size;
    player->file = open_memstream(&data, &size);
    bool is_whole = player->file != NULL;
    if (is_whole) {
        print_data(player);
        is_whole = !ferror(player->file);
        is_whole &= fclose(player->file) == 0;
    }
    player->file = page;
    if (is_whole) return data;
    free(data);
    return NULL;
}

static char *title_of(const struct player *player)
{
    char *title = NULL;
    size_t size;
    FILE *const file = open_memstream(&title, &size);
    if (file == NULL) return NULL;
    page_print(file, "%s", player->title);
    if (fclose(file) == 0) return title;
    free(title);
    return NULL;
}

/* False: out of memory. */
static bool print_page(struct player *player)
{
    char *const title = title_of(player), *const data = data_of(player);
    const bool is_whole = title != NULL && data != NULL;
    const struct page_part parts[] = {
        {"title", title}, {"style", player_css}, {"script", player_js}, {"plan", data}, {NULL, NULL}};
    if (is_whole) page_write(player_html, parts, player->file);
    free(title);
    free(data);
    return is_whole;
}

/* Of a plan that has been run. */
static enum tutti_status write_run(struct player *player, char *message, size_t message_bytes)
{
    const struct rounds *rounds = &player->rounds;
    if (rounds->message_count > PLAYER_MESSAGES_MAX)
        return refuse(rounds->message_count, PLAYER_MESSAGES_MAX, "messages", message,
                      message_bytes);
    const enum tutti_status status =
        contents_init(&player->contents, player->plan, rounds, &player->options->rounds);
    const bool is_written = status == TUTTI_OK && collect_sets(player) && print_page(player);
    free(player->sets);
    contents_release(&player->contents);
    if (is_written) return TUTTI_OK;
    snprintf(message, message_bytes, "out of memory");
    return TUTTI_NO_MEMORY;
}

enum tutti_status plan_write_player(const struct plan *plan, const struct player_options *options,
                                    FILE *file, char *message, size_t message_bytes)
{
    char title[96];
    const char *why;
    struct player player = {.plan = plan, .options = options, .title = options->title, .file = file};
    snprintf(title, sizeof title, "%s of %d ranks", collective_name(plan->shape.collective),
             plan->shape.rank_count);
    if (player.title == NULL) player.title = title;
    TRY(plan_check_player(plan, message, message_bytes));
    enum tutti_status status = rounds_init(&player.rounds, plan, &options->rounds, &why);
    if (status != TUTTI_OK) {
        snprintf(message, message_bytes, "%s", why);
        return status;
    }
    status = write_run(&player, message, message_bytes);
    rounds_release(&player.rounds);
    return status;
}
