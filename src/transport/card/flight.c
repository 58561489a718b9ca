#include "transport/card/flight.h"

#include <assert.h>

enum {
    LIMIT_AT_FIRST = 1 << 20,
    SAMPLES_FREE = 8, /* the first messages of a program say little about a path */
    IDLE_NS = 10 * CARD_FLIGHT_APART_NS,
    QUEUE_NS = 1000000,
    WRITES_A_LIMIT = 4, /* so that one comes while another one goes */
    WRITE_STEP = 4096,
    WRITE_BYTES_MAX =
        256 << 10 /* messages wait behind a write, and a peer that is not heard for seconds counts as lost */
};
/* The shortest round trip is forgotten after so long, since a path may change. */
static const uint64_t SHORTEST_NS = 10000000000u;
static const uint64_t RATE_MAX = UINT64_C(1) << 40;

void card_flight_init(struct card_flight *flight, size_t bytes)
{
    *flight = (struct card_flight){.adapts = bytes == CARD_FLIGHT_ADAPTS};
    flight->limit = flight->adapts ? LIMIT_AT_FIRST : bytes;
}

bool card_flight_has_room(const struct card_flight *flight, size_t bytes)
{
    const uint64_t under_way = flight->given - flight->come;
    return flight->limit == 0 || under_way == 0 || under_way + bytes <= flight->limit;
}

size_t card_flight_write_bytes(const struct card_flight *flight)
{
    const size_t part = flight->limit / WRITES_A_LIMIT / WRITE_STEP * WRITE_STEP;
    if (flight->limit == 0 || part > WRITE_BYTES_MAX) return WRITE_BYTES_MAX;
    return part > CARD_FLIGHT_WRITE_BYTES_MIN ? part : CARD_FLIGHT_WRITE_BYTES_MIN;
}

void card_flight_give(struct card_flight *flight, size_t bytes)
{
    flight->given += bytes;
}

void card_flight_mark(struct card_flight *flight, uint64_t number, uint64_t now_ns)
{
    assert(number - flight->took < CARD_RECEIVES_MAX);
    flight->marks[number % CARD_RECEIVES_MAX].given = flight->given;
    const bool is_alone = flight->given - flight->come <= CARD_FLIGHT_SMALL_BYTES;
    flight->marks[number % CARD_RECEIVES_MAX].sent_ns = is_alone ? now_ns : 0;
}

static void add_round_trip(struct card_flight *flight, uint64_t ns, uint64_t now_ns)
{
    if (now_ns - flight->shortest_since_ns > SHORTEST_NS) {
        flight->shortest_ns[1] = flight->shortest_ns[0];
        flight->shortest_ns[0] = 0;
        flight->shortest_since_ns = now_ns;
    }
    if (flight->shortest_ns[0] == 0 || ns < flight->shortest_ns[0]) flight->shortest_ns[0] = ns;
}

static uint64_t shortest_round_trip(const struct card_flight *flight)
{
    const uint64_t lately = flight->shortest_ns[0], before = flight->shortest_ns[1];
    return before != 0 && before < lately ? before : lately;
}

static uint64_t highest_rate(const struct card_flight *flight)
{
    uint64_t highest = 0;
    for (int i = 0; i < CARD_FLIGHT_SAMPLES; i++)
        if (flight->rates[i] > highest) highest = flight->rates[i];
    return highest;
}

/* Bytes a second since the sample before. */
static uint64_t rate_of(const struct card_flight *flight, uint64_t now_ns)
{
    const double bytes = (double)(flight->come - flight->sampled_bytes),
                 rate = bytes * 1e9 / (double)(now_ns - flight->sampled_ns);
    return rate < (double)RATE_MAX ? (uint64_t)rate : RATE_MAX;
}

/* A time in which there was nothing to send says nothing about the path. */
static void add_sample(struct card_flight *flight, uint64_t now_ns)
{
    const bool was_idle = flight->sampled_ns == 0 || now_ns - flight->sampled_ns > IDLE_NS;
    if (!was_idle)
        flight->rates[flight->sample_count++ % CARD_FLIGHT_SAMPLES] = rate_of(flight, now_ns);
    flight->sampled_ns = now_ns;
    flight->sampled_bytes = flight->come;
}

static void adapt(struct card_flight *flight)
{
    if (flight->sample_count < SAMPLES_FREE) return;
    const double ns = 2.0 * (double)shortest_round_trip(flight) + QUEUE_NS;
    const size_t limit = (size_t)((double)highest_rate(flight) * ns * 1e-9);
    flight->limit = limit > CARD_FLIGHT_BYTES_MIN ? limit : CARD_FLIGHT_BYTES_MIN;
}

void card_flight_take(struct card_flight *flight, uint64_t messages, uint64_t now_ns)
{
    if (messages <= flight->took) return;
    const uint64_t last = (messages - 1) % CARD_RECEIVES_MAX;
    flight->took = messages;
    flight->come = flight->marks[last].given;
    if (!flight->adapts) return;
    if (flight->marks[last].sent_ns != 0)
        add_round_trip(flight, now_ns - flight->marks[last].sent_ns, now_ns);
    if (now_ns - flight->sampled_ns < CARD_FLIGHT_APART_NS) return;
    add_sample(flight, now_ns);
    adapt(flight);
}
