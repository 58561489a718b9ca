#include "plan/wiring.h"

#include <stdlib.h>
#include <string.h>

#include "plan/fault.h"

/* ------------------------------------------------------------------------- a map of 64-bit keys */

struct entry {
    uint64_t key; /* 0: empty */
    uint32_t item;
};

struct map {
    struct entry *entries;
    size_t entry_count, size;
    struct plan_budget *budget; /* or NULL */
};

static size_t start_of(const struct map *map, uint64_t key)
{
    key *= UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(key ^ key >> 32) & (map->size - 1);
}

static bool map_grow(struct map *map)
{
    struct map grown = {.size = map->size == 0 ? 64 : 2 * map->size,
                        .entry_count = map->entry_count,
                        .budget = map->budget};
    if (!plan_budget_hold(map->budget, grown.size * sizeof *grown.entries)) return false;
    grown.entries = calloc(grown.size, sizeof *grown.entries);
    if (grown.entries == NULL) return false;
    for (size_t i = 0; i < map->size; i++) {
        if (map->entries[i].key == 0) continue;
        size_t at = start_of(&grown, map->entries[i].key);
        while (grown.entries[at].key != 0) at = (at + 1) & (grown.size - 1);
        grown.entries[at] = map->entries[i];
    }
    plan_budget_release(map->budget, map->size * sizeof *map->entries);
    free(map->entries);
    *map = grown;
    return true;
}

static void map_release(struct map *map)
{
    plan_budget_release(map->budget, map->size * sizeof *map->entries);
    free(map->entries);
}

/* The item of that key (not 0), WIRING_NONE when it is new; NULL when out of memory, or of the
 * budget. The pointer is good until the next call. */
static uint32_t *map_at(struct map *map, uint64_t key)
{
    if (2 * (map->entry_count + 1) > map->size && !map_grow(map)) return NULL;
    size_t at = start_of(map, key);
    uint64_t looks = 1;
    for (; map->entries[at].key != 0 && map->entries[at].key != key; looks++)
        at = (at + 1) & (map->size - 1);
    if (!plan_budget_work(map->budget, looks)) return NULL;
    if (map->entries[at].key == 0) {
        map->entries[at] = (struct entry){key, WIRING_NONE};
        map->entry_count++;
    }
    return &map->entries[at].item;
}

/* --------------------------------------------------------------------------------------- wiring */

struct group {
    const int *members;
    uint32_t member_count;
};

struct builder {
    struct wiring *wiring;
    const struct plan *plan;
    struct verify_report *report;
    struct map links, groups, inboxes;
    struct group *group_list; /* each set of members once */
    uint32_t group_count;
    uint32_t **group_of; /* [rank][group of that rank] -> group_list */
    uint32_t link_capacity, port_capacity;
    struct plan_budget *budget; /* or NULL */
    bool no_memory;
};

static bool out_of_memory(struct builder *b)
{
    b->no_memory = true;
    return false;
}

/* An array of its own, all zero. */
static void *charged_array(struct builder *b, uint64_t count, size_t item_bytes)
{
    return plan_budget_hold(b->budget, count * item_bytes) ? calloc(count, item_bytes) : NULL;
}

static bool grow(struct builder *b, void *items, size_t item_bytes, uint32_t count, uint32_t more,
                 uint32_t *capacity)
{
    if (more <= *capacity - count) return true;
    const uint64_t wanted = 2 * ((uint64_t)count + more) + 32;
    void *old, *grown = NULL;
    memcpy(&old, items, sizeof old);
    if (wanted < WIRING_NONE && plan_budget_hold(b->budget, (wanted - *capacity) * item_bytes))
        grown = realloc(old, wanted * item_bytes);
    if (grown == NULL) return out_of_memory(b);
    memcpy(items, &grown, sizeof grown);
    *capacity = (uint32_t)wanted;
    return true;
}

static bool count_steps(struct builder *b)
{
    struct wiring *w = b->wiring;
    const size_t rank_count = (size_t)b->plan->shape.rank_count;
    uint64_t lane_count = 0, step_count = 0;
    size_t link_source_count = 0, target_count = 0;
    w->first_lanes = charged_array(b, rank_count + 1, sizeof *w->first_lanes);
    w->first_steps = charged_array(b, rank_count + 1, sizeof *w->first_steps);
    if (w->first_lanes == NULL || w->first_steps == NULL) return out_of_memory(b);
    for (size_t rank = 0; rank < rank_count; rank++) {
        const struct rank_plan *rank_plan = b->plan->ranks[rank];
        w->first_lanes[rank] = (uint32_t)lane_count;
        w->first_steps[rank] = (uint32_t)step_count;
        lane_count += rank_plan->lane_count;
        step_count += rank_plan->step_count;
        if (step_count > UINT32_MAX / 8) return out_of_memory(b);
        for (uint32_t i = 0; i < rank_plan->step_count; i++) {
            const struct plan_step *step = &rank_plan->steps[i];
            for (uint32_t k = 0; k < step->source_count; k++)
                link_source_count += rank_plan->sources[step->first_source + k].is_link;
            target_count += step->target_count + (step->target_group != PLAN_NO_GROUP);
        }
    }
    w->first_lanes[rank_count] = w->lane_count = (uint32_t)lane_count;
    w->first_steps[rank_count] = w->step_count = (uint32_t)step_count;
    w->lanes = charged_array(b, lane_count + 1, sizeof *w->lanes);
    w->first_sends = charged_array(b, step_count + 1, sizeof *w->first_sends);
    w->first_receives = charged_array(b, step_count + 1, sizeof *w->first_receives);
    w->sends = charged_array(b, target_count + 1, sizeof *w->sends);
    w->receives = charged_array(b, link_source_count + 1, sizeof *w->receives);
    if (!w->lanes || !w->first_sends || !w->first_receives || !w->sends || !w->receives)
        return out_of_memory(b);
    for (size_t rank = 0; rank < rank_count; rank++) {
        const struct rank_plan *rank_plan = b->plan->ranks[rank];
        for (uint32_t lane = 0; lane < rank_plan->lane_count; lane++)
            w->lanes[w->first_lanes[rank] + lane] = (struct wiring_lane){
                (int)rank, w->first_steps[rank] + rank_plan->lanes[lane].first_step,
                rank_plan->lanes[lane].step_count};
    }
    return true;
}

static bool same_members(const struct group *a, const struct group *b)
{
    return a->member_count == b->member_count &&
           memcmp(a->members, b->members, a->member_count * sizeof *a->members) == 0;
}

/* Each rank numbers its groups itself; here, groups of the same members are one. */
static bool find_groups(struct builder *b)
{
    const int rank_count = b->plan->shape.rank_count;
    uint32_t capacity = 0;
    b->group_of = charged_array(b, (uint64_t)rank_count, sizeof(uint32_t *));
    if (b->group_of == NULL) return out_of_memory(b);
    for (int rank = 0; rank < rank_count; rank++) {
        const struct rank_plan *rank_plan = b->plan->ranks[rank];
        b->group_of[rank] = charged_array(b, (uint64_t)rank_plan->group_count + 1, sizeof(uint32_t));
        if (b->group_of[rank] == NULL) return out_of_memory(b);
        for (uint32_t i = 0; i < rank_plan->group_count; i++) {
            const struct plan_group *from = &rank_plan->groups[i];
            const struct group group = {rank_plan->members + from->first_member, from->member_count};
            uint64_t hash = UINT64_C(0xcbf29ce484222325);
            for (uint32_t k = 0; k < group.member_count; k++)
                hash = (hash ^ (uint64_t)group.members[k]) * UINT64_C(0x100000001b3);
            uint32_t *item;
            const uint64_t compared = 1 + group.member_count / 16;
            do { /* other members of the same hash: the next key */
                hash += hash + 1 == 0 ? 2 : 1;
                item = map_at(&b->groups, hash);
                if (item == NULL || !plan_budget_work(b->budget, compared)) return out_of_memory(b);
            } while (*item != WIRING_NONE && !same_members(&b->group_list[*item], &group));
            if (*item == WIRING_NONE) {
                if (!grow(b, &b->group_list, sizeof *b->group_list, b->group_count, 1, &capacity))
                    return false;
                *item = b->group_count;
                b->group_list[b->group_count++] = group;
            }
            b->group_of[rank][i] = *item;
        }
    }
    return true;
}

static void add_port(struct builder *b, uint32_t link, int receiver)
{
    struct wiring *w = b->wiring;
    w->ports[w->port_count++] = (struct wiring_port){
        .link = link, .receiver = receiver, .reader = WIRING_NONE, .last_step = WIRING_NONE};
}

/* The link from source to `to` (a rank, or a group of group_list); WIRING_NONE when out of
 * memory. */
static uint32_t link_between(struct builder *b, int source, uint32_t to, bool is_group, int channel)
{
    struct wiring *w = b->wiring;
    const uint64_t key =
        (((uint64_t)source << 32 | to) << 1 | is_group) * PLAN_CHANNELS_MAX + (uint64_t)channel + 1;
    uint32_t *item = map_at(&b->links, key);
    if (item == NULL) return (void)out_of_memory(b), WIRING_NONE;
    if (*item != WIRING_NONE) return *item;
    const uint32_t port_count = is_group ? b->group_list[to].member_count - 1 : 1;
    if (!plan_budget_work(b->budget, port_count)) return (void)out_of_memory(b), WIRING_NONE;
    if (!grow(b, &w->links, sizeof *w->links, w->link_count, 1, &b->link_capacity) ||
        !grow(b, &w->ports, sizeof *w->ports, w->port_count, port_count, &b->port_capacity))
        return WIRING_NONE;
    *item = w->link_count;
    w->links[w->link_count] = (struct wiring_link){.source = source,
                                                   .writer = WIRING_NONE,
                                                   .first_port = w->port_count,
                                                   .port_count = port_count,
                                                   .last_step = WIRING_NONE};
    if (!is_group) add_port(b, w->link_count, (int)to);
    for (uint32_t i = 0; is_group && i < b->group_list[to].member_count; i++)
        if (b->group_list[to].members[i] != source)
            add_port(b, w->link_count, b->group_list[to].members[i]);
    return w->link_count++;
}

/* Ports of a link are in ascending order of receivers. */
static uint32_t port_of(const struct wiring *w, uint32_t link, int receiver)
{
    uint32_t low = w->links[link].first_port, high = low + w->links[link].port_count;
    while (low + 1 < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (w->ports[middle].receiver <= receiver)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool add_send(struct builder *b, const struct rank_plan *rank_plan, uint32_t index,
                     uint32_t to, bool is_group, size_t *send_count)
{
    struct wiring *w = b->wiring;
    const struct plan_step *step = &rank_plan->steps[index];
    const uint32_t lane = w->first_lanes[rank_plan->rank] + step->lane;
    const uint32_t all_step = w->first_steps[rank_plan->rank] + index;
    const uint32_t found = link_between(b, rank_plan->rank, to, is_group, step->target_channel);
    if (found == WIRING_NONE) return false;
    struct wiring_link *link = &w->links[found];
    if (link->writer != WIRING_NONE && link->writer != lane)
        return fault_at(b->report, rank_plan, index,
                        "sends on a link that lane %u writes (to rank %d, channel %d)",
                        link->writer - w->first_lanes[rank_plan->rank],
                        w->ports[link->first_port].receiver, step->target_channel);
    if (link->last_step == all_step)
        return fault_at(b->report, rank_plan, index, "sends to rank %u twice", to);
    link->writer = lane;
    link->last_step = all_step;
    w->sends[(*send_count)++] = (struct wiring_send){found, link->send_count++};
    return true;
}

static bool add_receive(struct builder *b, const struct rank_plan *rank_plan, uint32_t index,
                        const struct plan_source *source, size_t *receive_count)
{
    struct wiring *w = b->wiring;
    const bool is_group = source->group != PLAN_NO_GROUP;
    const uint32_t lane = w->first_lanes[rank_plan->rank] + rank_plan->steps[index].lane;
    const uint32_t all_step = w->first_steps[rank_plan->rank] + index;
    const uint32_t to =
        is_group ? b->group_of[rank_plan->rank][source->group] : (uint32_t)rank_plan->rank;
    const uint32_t link = link_between(b, source->peer, to, is_group, source->channel);
    if (link == WIRING_NONE) return false;
    const uint32_t found = port_of(w, link, rank_plan->rank);
    struct wiring_port *port = &w->ports[found];
    if (port->reader != WIRING_NONE && port->reader != lane)
        return fault_at(b->report, rank_plan, index,
                        "receives on a link that lane %u reads (from rank %d, channel %d)",
                        port->reader - w->first_lanes[rank_plan->rank], source->peer,
                        source->channel);
    if (port->last_step == all_step)
        return fault_at(b->report, rank_plan, index,
                        "receives two messages of one link, from rank %d", source->peer);
    port->reader = lane;
    port->last_step = all_step;
    w->receives[(*receive_count)++] = (struct wiring_receive){found, port->receive_count++};
    return true;
}

static bool walk_steps(struct builder *b)
{
    struct wiring *w = b->wiring;
    size_t send_count = 0, receive_count = 0;
    for (int rank = 0; rank < b->plan->shape.rank_count; rank++) {
        const struct rank_plan *rank_plan = b->plan->ranks[rank];
        for (uint32_t i = 0; i < rank_plan->step_count; i++) {
            const struct plan_step *step = &rank_plan->steps[i];
            w->first_sends[w->first_steps[rank] + i] = send_count;
            w->first_receives[w->first_steps[rank] + i] = receive_count;
            for (uint32_t k = 0; k < step->source_count; k++) {
                const struct plan_source *source = &rank_plan->sources[step->first_source + k];
                if (source->is_link && !add_receive(b, rank_plan, i, source, &receive_count))
                    return false;
            }
            for (uint32_t k = 0; k < step->target_count; k++)
                if (!add_send(b, rank_plan, i, (uint32_t)rank_plan->targets[step->first_target + k],
                              false, &send_count))
                    return false;
            if (step->target_group != PLAN_NO_GROUP &&
                !add_send(b, rank_plan, i, b->group_of[rank][step->target_group], true, &send_count))
                return false;
        }
    }
    w->first_sends[w->step_count] = send_count;
    w->first_receives[w->step_count] = receive_count;
    return true;
}

static int rank_of_step(const struct wiring *w, uint32_t step)
{
    int rank = 0;
    while (w->first_steps[rank + 1] <= step) rank++;
    return rank;
}

static bool fault_at_step(struct builder *b, uint32_t step, const char *what, int peer)
{
    const int rank = rank_of_step(b->wiring, step);
    return fault_at(b->report, b->plan->ranks[rank], step - b->wiring->first_steps[rank], what,
                    peer);
}

static bool check_count(struct builder *b, const struct wiring_link *link, uint32_t index)
{
    const struct wiring *w = b->wiring;
    const struct wiring_port *port = &w->ports[index];
    if (port->receive_count == link->send_count) return true;
    if (port->receive_count < link->send_count) {
        uint32_t step = w->lanes[link->writer].first_step;
        size_t i = w->first_sends[step];
        while (w->links + w->sends[i].link != link || w->sends[i].sequence != port->receive_count)
            i++;
        while (w->first_sends[step + 1] <= i) step++;
        return fault_at_step(b, step, "rank %d never receives what this step sends to it",
                             port->receiver);
    }
    uint32_t step = w->lanes[port->reader].first_step;
    size_t i = w->first_receives[step];
    while (w->receives[i].port != index || w->receives[i].sequence != link->send_count) i++;
    while (w->first_receives[step + 1] <= i) step++;
    return fault_at_step(b, step, "rank %d never sends what this step receives from it",
                         link->source);
}

/* All messages from one source on one channel must come to a rank through one link: channels have
 * no wildcards. */
static bool check_inboxes(struct builder *b, uint64_t channel_of_link, uint32_t index)
{
    const struct wiring *w = b->wiring;
    const struct wiring_link *link = &w->links[index];
    for (uint32_t i = 0; i < link->port_count; i++) {
        const struct wiring_port *port = &w->ports[link->first_port + i];
        const uint64_t key =
            ((uint64_t)port->receiver << 20 | (uint64_t)link->source) * PLAN_CHANNELS_MAX +
            channel_of_link + 1;
        uint32_t *item = map_at(&b->inboxes, key);
        if (item == NULL) return out_of_memory(b);
        if (*item != WIRING_NONE)
            return fault_at_step(b, link->last_step,
                                 "two links, to different groups, lead to rank %d on one channel",
                                 port->receiver);
        *item = index;
    }
    return true;
}

static bool check_links(struct builder *b)
{
    const struct wiring *w = b->wiring;
    for (uint32_t i = 0; i < w->link_count; i++)
        for (uint32_t k = 0; k < w->links[i].port_count; k++)
            if (!check_count(b, &w->links[i], w->links[i].first_port + k)) return false;
    if (b->group_count == 0) return true; /* then source and channel say all about a link */
    /* Every link has a sending step by now, which knows the channel. */
    for (uint32_t i = 0; i < w->link_count; i++) {
        const int rank = w->links[i].source;
        const uint32_t step = w->links[i].last_step - w->first_steps[rank];
        if (!check_inboxes(b, (uint64_t)b->plan->ranks[rank]->steps[step].target_channel, i))
            return false;
    }
    return true;
}

static bool find_takers(struct builder *b)
{
    struct wiring *w = b->wiring;
    size_t taker_count = 0;
    for (uint32_t i = 0; i < w->port_count; i++) {
        w->ports[i].first_taker = taker_count;
        taker_count += w->ports[i].receive_count;
    }
    w->takers = charged_array(b, taker_count + 1, sizeof *w->takers);
    if (w->takers == NULL) return out_of_memory(b);
    for (uint32_t lane = 0; lane < w->lane_count; lane++)
        for (uint32_t i = 0; i < w->lanes[lane].step_count; i++) {
            const uint32_t step = w->lanes[lane].first_step + i;
            for (size_t k = w->first_receives[step]; k < w->first_receives[step + 1]; k++)
                w->takers[w->ports[w->receives[k].port].first_taker + w->receives[k].sequence] =
                    (struct wiring_taker){lane, i};
        }
    return true;
}

static const struct plan_step *step_of(const struct builder *b, uint32_t lane, uint32_t step)
{
    const struct wiring *w = b->wiring;
    const int rank = w->lanes[lane].rank;
    return &b->plan->ranks[rank]->steps[w->lanes[lane].first_step + step - w->first_steps[rank]];
}

static bool check_lengths(struct builder *b)
{
    const struct wiring *w = b->wiring;
    for (uint32_t lane = 0; lane < w->lane_count; lane++)
        for (uint32_t i = 0; i < w->lanes[lane].step_count; i++) {
            const uint32_t all_step = w->lanes[lane].first_step + i;
            const uint32_t chunk_count = step_of(b, lane, i)->chunk_count;
            for (size_t k = w->first_sends[all_step]; k < w->first_sends[all_step + 1]; k++) {
                const struct wiring_link *link = &w->links[w->sends[k].link];
                if (!plan_budget_work(b->budget, link->port_count)) return out_of_memory(b);
                for (uint32_t port = link->first_port; port < link->first_port + link->port_count;
                     port++) {
                    const struct wiring_taker taker = wiring_taker(w, port, w->sends[k].sequence);
                    if (step_of(b, taker.lane, taker.step)->chunk_count != chunk_count)
                        return fault_at_step(b, w->lanes[taker.lane].first_step + taker.step,
                                             "expects another number of chunks than rank %d sends",
                                             link->source);
                }
            }
        }
    return true;
}

enum verify_verdict wiring_init(struct wiring *wiring, const struct plan *plan,
                                struct plan_budget *budget, struct verify_report *report)
{
    *wiring = (struct wiring){0};
    struct builder b = {.wiring = wiring,
                        .plan = plan,
                        .report = report,
                        .links.budget = budget,
                        .groups.budget = budget,
                        .inboxes.budget = budget,
                        .budget = budget};
    const bool right = count_steps(&b) && find_groups(&b) && walk_steps(&b) && check_links(&b) &&
                       find_takers(&b) && check_lengths(&b);
    for (int rank = 0; b.group_of != NULL && rank < plan->shape.rank_count; rank++)
        free(b.group_of[rank]);
    free(b.group_of);
    free(b.group_list);
    map_release(&b.links);
    map_release(&b.groups);
    map_release(&b.inboxes);
    if (right) return VERIFY_PROVEN;
    if (budget != NULL && budget->end != PLAN_BUDGET_LASTS) return VERIFY_TOO_COSTLY;
    return b.no_memory ? VERIFY_NO_MEMORY : VERIFY_WRONG;
}

void wiring_release(struct wiring *wiring)
{
    free(wiring->first_lanes);
    free(wiring->first_steps);
    free(wiring->lanes);
    free(wiring->links);
    free(wiring->ports);
    free(wiring->takers);
    free(wiring->first_sends);
    free(wiring->first_receives);
    free(wiring->sends);
    free(wiring->receives);
    *wiring = (struct wiring){0};
}
