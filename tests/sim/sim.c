#include "tests/sim/sim.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { AGAIN_NS_MIN = 500000, AGAIN_NS_MAX = 20000000 };

struct node {
    bool is_down;
    unsigned sends_left; /* UINT_MAX: any number */
    uint64_t stalls_until_ns;
    bool is_cut[SIM_NODES_MAX];
    uint64_t extra_ns_max[SIM_NODES_MAX]; /* of what it sends to others */
    unsigned lost_permille[SIM_NODES_MAX];
};

struct sim {
    uint64_t random, now_ns, order, fingerprint;
    struct sim_weather weather;
    struct node nodes[SIM_NODES_MAX];
    struct sim_event *heap;
    size_t count, room;
    unsigned char *last_bytes;
};

struct sim *sim_create(uint64_t seed)
{
    struct sim *sim = calloc(1, sizeof *sim);
    assert(sim != NULL);
    sim->random = seed;
    for (int i = 0; i < SIM_NODES_MAX; i++) sim->nodes[i].sends_left = UINT_MAX;
    return sim;
}

void sim_free(struct sim *sim)
{
    for (size_t i = 0; i < sim->count; i++) free(sim->heap[i].bytes);
    free(sim->last_bytes);
    free(sim->heap);
    free(sim);
}

/* --------------------------------------------------------------------------------------- chance */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (OOPSLA 2014). */
uint64_t sim_random(struct sim *sim)
{
    sim->random += UINT64_C(0x9e3779b97f4a7c15);
    return mix(sim->random);
}

unsigned sim_below(struct sim *sim, unsigned bound)
{
    return (unsigned)((sim_random(sim) >> 32) * bound >> 32);
}

uint64_t sim_between(struct sim *sim, uint64_t from, uint64_t to)
{
    return from + sim_random(sim) % (to - from + 1);
}

bool sim_chance(struct sim *sim, unsigned permille)
{
    return sim_below(sim, 1000) < permille;
}

/* ---------------------------------------------------------------------------------------- queue */

static bool is_before(const struct sim_event *one, const struct sim_event *other)
{
    return one->at_ns != other->at_ns ? one->at_ns < other->at_ns : one->order < other->order;
}

static void push(struct sim *sim, struct sim_event event)
{
    if (sim->count == sim->room) {
        sim->room = sim->room == 0 ? 256 : 2 * sim->room;
        sim->heap = realloc(sim->heap, sim->room * sizeof *sim->heap);
        assert(sim->heap != NULL);
    }
    event.order = sim->order++;
    size_t at = sim->count++;
    for (; at > 0 && is_before(&event, &sim->heap[(at - 1) / 2]); at = (at - 1) / 2)
        sim->heap[at] = sim->heap[(at - 1) / 2];
    sim->heap[at] = event;
}

static struct sim_event pop(struct sim *sim)
{
    const struct sim_event first = sim->heap[0], last = sim->heap[--sim->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= sim->count) break;
        if (child + 1 < sim->count && is_before(&sim->heap[child + 1], &sim->heap[child])) child++;
        if (!is_before(&sim->heap[child], &last)) break;
        sim->heap[at] = sim->heap[child];
        at = child;
    }
    if (sim->count > 0) sim->heap[at] = last;
    return first;
}

void sim_at(struct sim *sim, uint64_t at_ns, int kind, int node, int number, int tag)
{
    assert(kind != SIM_MESSAGE);
    const uint64_t now_ns = sim->now_ns;
    push(sim, (struct sim_event){.at_ns = at_ns > now_ns ? at_ns : now_ns,
                                 .kind = kind,
                                 .node = node,
                                 .number = number,
                                 .tag = tag});
}

static bool is_lost(const struct sim *sim, const struct sim_event *event)
{
    if (event->node == SIM_NOBODY) return false;
    if (sim->nodes[event->node].is_down) return true;
    return event->kind == SIM_MESSAGE && sim_is_cut(sim, event->number, event->node);
}

static void note(struct sim *sim, const struct sim_event *event)
{
    const uint64_t parts[] = {event->at_ns, (uint64_t)event->kind << 32 | (uint32_t)event->node,
                              (uint64_t)event->number << 32 | (uint32_t)event->tag};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        sim->fingerprint = mix(sim->fingerprint + parts[i]);
    for (size_t i = 0; i < event->byte_count; i++)
        sim->fingerprint = sim->fingerprint * UINT64_C(0x100000001b3) + event->bytes[i];
}

bool sim_next(struct sim *sim, struct sim_event *event)
{
    free(sim->last_bytes);
    sim->last_bytes = NULL;
    while (sim->count > 0) {
        *event = pop(sim);
        sim->now_ns = event->at_ns;
        if (is_lost(sim, event)) {
            free(event->bytes);
            continue;
        }
        if (event->node != SIM_NOBODY && sim->nodes[event->node].stalls_until_ns > sim->now_ns) {
            event->at_ns = sim->nodes[event->node].stalls_until_ns;
            push(sim, *event);
            continue;
        }
        sim->last_bytes = event->bytes;
        note(sim, event);
        return true;
    }
    return false;
}

/* -------------------------------------------------------------------------------------- network */

void sim_set_weather(struct sim *sim, const struct sim_weather *weather)
{
    sim->weather = *weather;
}

uint64_t sim_delay_ns(struct sim *sim, int from, int to)
{
    const struct sim_weather *weather = &sim->weather;
    uint64_t delay_ns = sim_between(sim, weather->delay_ns_min, weather->delay_ns_max) +
                        sim_between(sim, 0, sim->nodes[from].extra_ns_max[to]);
    if (sim_chance(sim, weather->late_permille))
        delay_ns += sim_between(sim, 0, weather->late_ns_max);
    return delay_ns;
}

bool sim_loses(struct sim *sim, int from, int to)
{
    return sim_chance(sim, sim->weather.lost_permille) ||
           sim_chance(sim, sim->nodes[from].lost_permille[to]);
}

bool sim_says(struct sim *sim, int node)
{
    struct node *const own = &sim->nodes[node];
    if (!own->is_down && own->sends_left == 0) sim_crash(sim, node);
    if (own->is_down) return false;
    if (own->sends_left != UINT_MAX) own->sends_left--;
    return true;
}

uint64_t sim_again_ns(struct sim *sim)
{
    return sim_between(sim, AGAIN_NS_MIN, AGAIN_NS_MAX);
}

static void carry(struct sim *sim, const struct sim_event *message, uint64_t later_ns)
{
    struct sim_event copy = *message;
    copy.at_ns = sim->now_ns + sim_delay_ns(sim, message->number, message->node) + later_ns;
    copy.bytes = malloc(message->byte_count);
    assert(copy.bytes != NULL);
    memcpy(copy.bytes, message->bytes, message->byte_count);
    push(sim, copy);
}

static struct sim_event message_of(int from, int to, int tag, const void *bytes, size_t byte_count)
{
    return (struct sim_event){.kind = SIM_MESSAGE,
                              .node = to,
                              .number = from,
                              .tag = tag,
                              .byte_count = byte_count,
                              .bytes = (unsigned char *)bytes};
}

void sim_send(struct sim *sim, int from, int to, int tag, const void *bytes, size_t byte_count)
{
    if (!sim_says(sim, from) || sim_is_cut(sim, from, to) || sim_loses(sim, from, to)) return;
    const struct sim_event message = message_of(from, to, tag, bytes, byte_count);
    carry(sim, &message, 0);
    if (sim_chance(sim, sim->weather.doubled_permille)) carry(sim, &message, 0);
}

void sim_tell(struct sim *sim, int from, int to, int tag, const void *bytes, size_t byte_count)
{
    if (!sim_says(sim, from) || sim_is_cut(sim, from, to)) return;
    const struct sim_event message = message_of(from, to, tag, bytes, byte_count);
    carry(sim, &message, sim_loses(sim, from, to) ? sim_again_ns(sim) : 0);
}

void sim_crash(struct sim *sim, int node)
{
    sim->nodes[node].is_down = true;
}

void sim_crash_after(struct sim *sim, int node, unsigned message_count)
{
    sim->nodes[node].sends_left = message_count;
}

bool sim_is_up(const struct sim *sim, int node)
{
    return !sim->nodes[node].is_down;
}

void sim_stall(struct sim *sim, int node, uint64_t until_ns)
{
    sim->nodes[node].stalls_until_ns = until_ns;
}

void sim_cut(struct sim *sim, int one, int other, bool is_cut)
{
    sim->nodes[one].is_cut[other] = sim->nodes[other].is_cut[one] = is_cut;
}

bool sim_is_cut(const struct sim *sim, int one, int other)
{
    return sim->nodes[one].is_cut[other];
}

void sim_spoil(struct sim *sim, int from, int to, uint64_t extra_ns_max, unsigned lost_permille)
{
    sim->nodes[from].lost_permille[to] = lost_permille;
    sim->nodes[from].extra_ns_max[to] = extra_ns_max;
}

uint64_t sim_now_ns(const struct sim *sim)
{
    return sim->now_ns;
}

uint64_t sim_fingerprint(const struct sim *sim)
{
    return sim->fingerprint;
}
