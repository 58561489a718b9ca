#include "membership/growth.h"

#include <string.h>

#include "membership/rank_set.h"

static enum growth_step after_survivors(const struct growth_event *event)
{
    if (!event->is_decided) return GROWTH_REFUSED;
    if (!event->has_self) return GROWTH_LEFT_OUT;
    return event->is_useless ? GROWTH_REFUSED : GROWTH_WORD;
}

static enum growth_step after_word(const struct growth_event *event)
{
    if (!event->is_decided) return GROWTH_REFUSED;
    if (!event->has_all) return GROWTH_SURVIVORS;
    return event->is_useless ? GROWTH_REFUSED : GROWTH_MEETING;
}

/* A rank that has no decision must not go back: the others may have the team. */
static enum growth_step after_team(const struct growth_event *event)
{
    if (!event->is_decided) return GROWTH_UNDECIDED;
    return event->has_all ? GROWTH_MADE : GROWTH_SURVIVORS;
}

enum growth_step growth_next(enum growth_step step, const struct growth_event *event)
{
    switch (step) {
    case GROWTH_SURVIVORS: return after_survivors(event);
    case GROWTH_WORD: return after_word(event);
    case GROWTH_MEETING: return event->is_decided ? GROWTH_TEAM : GROWTH_SURVIVORS;
    case GROWTH_TEAM: return after_team(event);
    default: return step;
    }
}

static int survivor_count(const struct growth_team *team)
{
    return rank_set_count(team->survivors, team->old_size);
}

int growth_gap_count(const struct growth_team *team)
{
    return team->old_size - survivor_count(team);
}

int growth_size(const struct growth_team *team)
{
    return survivor_count(team) + team->joiner_count;
}

bool growth_is_sound(const struct growth_team *team, int rank_max)
{
    if (team->joiner_count < 0 || team->joiner_count > rank_max) return false;
    if (survivor_count(team) < 1 || growth_size(team) > rank_max) return false;
    return !team->keeps_ranks || team->joiner_count >= growth_gap_count(team);
}

int growth_number_of(const struct growth_team *team, int old_rank)
{
    int number = 0;
    for (int rank = 0; rank < old_rank; rank++) number += rank_set_has(team->survivors, rank);
    return number;
}

/* The next rank from `rank` on that no survivor keeps. */
static int next_free(const struct growth_team *team, int rank)
{
    while (team->keeps_ranks && rank < team->old_size && rank_set_has(team->survivors, rank))
        rank++;
    return rank;
}

void growth_place(const struct growth_team *team, int *places, uint64_t *voters)
{
    const int size = growth_size(team);
    int number = 0;
    memset(voters, 0, rank_set_words(size) * sizeof *voters);
    for (int rank = 0; rank < team->old_size; rank++) {
        if (!rank_set_has(team->survivors, rank)) continue;
        places[number] = team->keeps_ranks ? rank : number;
        rank_set_add(voters, places[number]);
        number++;
    }
    for (int rank = team->keeps_ranks ? 0 : number; number < size; number++) {
        rank = next_free(team, rank);
        places[number] = rank++;
    }
}

bool growth_is_made(const struct growth_team *team, const uint64_t *decided)
{
    const int size = growth_size(team);
    return rank_set_count(decided, size) == size;
}
