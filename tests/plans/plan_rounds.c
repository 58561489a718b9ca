#include "tests/plans/plan_rounds.h"

#include <stdio.h>
#include <stdlib.h>

static void give_up(const char *name, const char *message)
{
    fprintf(stderr, "%s: %s\n", name, message);
    abort();
}

struct plan *plan_named(const char *name, const struct algo_params *params)
{
    struct plan *plan;
    const char *message;
    const struct algorithm *algorithm = algo_find(params->collective, name);
    if (algorithm == NULL) give_up(name, "there is no such algorithm");
    if (algo_plan(algorithm, params, &plan, &message) != TUTTI_OK) give_up(name, message);
    return plan;
}

struct plan_rounds plan_rounds_of(const char *name, const struct algo_params *params, unsigned ports)
{
    struct plan_rounds result = {.plan = plan_named(name, params)};
    const char *message;
    const struct rounds_options options = {.ports = ports};
    if (rounds_init(&result.rounds, result.plan, &options, &message) != TUTTI_OK)
        give_up(name, message);
    return result;
}

void plan_rounds_release(struct plan_rounds *plan_rounds)
{
    rounds_release(&plan_rounds->rounds);
    plan_free(plan_rounds->plan);
}

/* Messages of every round from every rank to every other: [round][from][to], free it. */
static int *message_counts(const struct plan_rounds *plan_rounds)
{
    const struct rounds *rounds = &plan_rounds->rounds;
    const size_t ranks = (size_t)plan_rounds->plan->shape.rank_count;
    int *counts = calloc((rounds->round_count + 1) * ranks * ranks, sizeof *counts);
    if (counts == NULL) give_up("message_counts", "out of memory");
    for (uint32_t i = 0; i < rounds->message_count; i++) {
        const struct round_message *message = &rounds->messages[i];
        counts[(message->round * ranks + (size_t)message->from) * ranks + (size_t)message->to]++;
    }
    return counts;
}

int plan_rounds_peers_max(const struct plan_rounds *plan_rounds)
{
    const size_t ranks = (size_t)plan_rounds->plan->shape.rank_count;
    int *counts = message_counts(plan_rounds), most = 0;
    for (size_t round = 0; round <= plan_rounds->rounds.round_count; round++)
        for (size_t rank = 0; rank < ranks; rank++) {
            int sent_to = 0, heard_from = 0;
            for (size_t peer = 0; peer < ranks; peer++) {
                sent_to += counts[(round * ranks + rank) * ranks + peer] > 0;
                heard_from += counts[(round * ranks + peer) * ranks + rank] > 0;
            }
            if (sent_to > most) most = sent_to;
            if (heard_from > most) most = heard_from;
        }
    free(counts);
    return most;
}

int plan_rounds_messages_max(const struct plan_rounds *plan_rounds)
{
    const size_t ranks = (size_t)plan_rounds->plan->shape.rank_count;
    int *counts = message_counts(plan_rounds), most = 0;
    for (size_t i = 0; i < (plan_rounds->rounds.round_count + 1) * ranks * ranks; i++)
        if (counts[i] > most) most = counts[i];
    free(counts);
    return most;
}

uint32_t plan_rounds_chunks_sent(const struct plan_rounds *plan_rounds, int rank)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan_rounds->rounds.message_count; i++)
        if (plan_rounds->rounds.messages[i].from == rank)
            count += plan_rounds->rounds.messages[i].value_count;
    return count;
}

uint32_t log_up(int count, int base)
{
    uint32_t log = 0;
    for (long power = 1; power < count; power *= base) log++;
    return log;
}
