/* Links in virtual time: whatever the weather, every byte comes once and in order, and all room
 * comes back; one seed decides everything.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/contract.h"
#include "tests/sim/net.h"

enum { NET = SIM_MESSAGE + 1, RESET, CUT, MEND, LINKS = 3, MESSAGES = 60, BYTES_MAX = 1500 };

/* One direction of a link from node 0 to node 1, each in a slot of its own. */
struct line {
    struct link_tx *tx;
    struct link_rx *rx;
    unsigned char memory[MESSAGES][BYTES_MAX]; /* of what is posted */
    size_t sizes[MESSAGES];
    int sent, received; /* messages */
    size_t done;        /* bytes of the next one */
};

struct world {
    struct sim *sim;
    struct sim_net *net;
    struct line lines[LINKS];
};

static unsigned char value_at(int line, int message, size_t i)
{
    return (unsigned char)(line * 37 + message * 101 + (int)i * 7 + (int)(i >> 8));
}

static void open_lines(struct world *world)
{
    struct transport *const from = sim_net_transport(world->net, 0), *const to = sim_net_transport(
                                                                         world->net, 1);
    for (int l = 0; l < LINKS; l++) {
        struct line *line = &world->lines[l];
        assert_int_equal(from->ops->open_tx(from, l, 0, 1, BYTES_MAX, &line->tx), TUTTI_OK);
        assert_int_equal(to->ops->open_rx(to, l, 0, 0, &line->rx), TUTTI_OK);
        for (int m = 0; m < MESSAGES; m++) {
            line->sizes[m] = sim_below(world->sim, m % 2 == 0 ? 200 : BYTES_MAX);
            for (size_t i = 0; i < line->sizes[m]; i++) line->memory[m][i] = value_at(l, m, i);
        }
    }
}

static void open_world(struct world *world, uint64_t seed)
{
    static const int nodes[] = {0, 1};
    const struct sim_weather weather = {.lost_permille = 100,
                                        .late_permille = 100,
                                        .delay_ns_min = 1000,
                                        .delay_ns_max = 100000,
                                        .late_ns_max = 1000000};
    memset(world, 0, sizeof *world);
    world->sim = sim_create(seed);
    sim_set_weather(world->sim, &weather);
    const struct sim_net_options options = {.size = 2,
                                            .nodes = nodes,
                                            .kind = NET,
                                            .streams = 1 + (unsigned)(seed % SIM_STREAMS_MAX),
                                            .piece_bytes = 512,
                                            .piece_count = 1 + (unsigned)(seed % 4),
                                            .frame_count = 2 + (unsigned)(seed % 5)};
    world->net = sim_net_create(world->sim, &options);
    open_lines(world);
}

static void close_world(struct world *world)
{
    sim_net_free(world->net);
    sim_free(world->sim);
}

/* Sends a message posted as a whole, or in pieces as they fit. */
static bool send_some(struct world *world, struct line *line)
{
    if (line->sent == MESSAGES) return false;
    const size_t bytes = line->sizes[line->sent];
    if (bytes > 512 || sim_chance(world->sim, 300)) {
        if (!line->tx->ops->post(line->tx, line->memory[line->sent], bytes)) return false;
    } else {
        void *place = line->tx->ops->reserve(line->tx, bytes);
        if (place == NULL) return false;
        memcpy(place, line->memory[line->sent], bytes);
        line->tx->ops->commit(line->tx, bytes);
    }
    line->sent++;
    return true;
}

static bool receive_some(struct world *world, int l)
{
    struct line *line = &world->lines[l];
    struct link_view view;
    if (line->received == MESSAGES || line->rx->ops->peek(line->rx, &view) != LINK_READY)
        return false;
    const size_t bytes = view.bytes > 0 && sim_chance(world->sim, 300)
                             ? 1 + sim_below(world->sim, (unsigned)view.bytes)
                             : view.bytes;
    assert_true(bytes <= line->sizes[line->received] - line->done);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(((const unsigned char *)view.data)[i],
                         value_at(l, line->received, line->done + i));
    line->rx->ops->consume(line->rx, bytes);
    line->done += bytes;
    if (line->done < line->sizes[line->received]) return true;
    line->done = 0;
    line->received++;
    return true;
}

static void happen(struct world *world, const struct sim_event *event)
{
    switch (event->kind) {
    case NET: sim_net_happen(world->net, event); break;
    case RESET: sim_net_reset(world->net, 0, 1, (unsigned)event->number); break;
    case CUT: sim_cut(world->sim, 0, 1, true); break;
    case MEND:
        sim_cut(world->sim, 0, 1, false);
        sim_net_mend(world->net, 0, 1);
        break;
    default: fail();
    }
    assert_null(sim_net_wrong(world->net));
}

/* Runs until nothing is left to happen. */
static void play(struct world *world)
{
    struct sim_event event;
    do {
        for (int l = 0; l < LINKS; l++) {
            while (send_some(world, &world->lines[l])) {
            }
            while (receive_some(world, l)) {
            }
        }
    } while (sim_next(world->sim, &event) && (happen(world, &event), true));
    for (int l = 0; l < LINKS; l++) assert_int_equal(world->lines[l].received, MESSAGES);
    assert_true(sim_net_is_settled(world->net));
}

static void no_function_is_missing(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 1);
    contract_expect_whole(sim_net_transport(world.net, 0), world.lines[0].tx, world.lines[0].rx);
    close_world(&world);
}

static void every_byte_comes_once_and_in_order(void **state)
{
    (void)state;
    struct sim_net_counts counts, all = {0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct world world;
        open_world(&world, seed);
        for (int i = 0; i < 40; i++)
            sim_at(world.sim, sim_between(world.sim, 0, 200000000), RESET, SIM_NOBODY, i % 3, 0);
        play(&world);
        sim_net_count(world.net, &counts);
        all.again += counts.again;
        all.halves_lost += counts.halves_lost;
        all.by_reference += counts.by_reference;
        close_world(&world);
    }
    assert_true(all.again > 100 && all.halves_lost > 10 && all.by_reference > 1000);
}

static void nothing_passes_a_cut_and_nothing_is_lost_there(void **state)
{
    (void)state;
    struct sim_net_counts counts;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world world;
        open_world(&world, seed);
        sim_at(world.sim, seed * 1000000, CUT, SIM_NOBODY, 0, 0);
        sim_at(world.sim, 10000000000, MEND, SIM_NOBODY, 0, 0);
        play(&world);
        assert_true(sim_now_ns(world.sim) > 10000000000);
        sim_net_count(world.net, &counts);
        assert_true(counts.held_up > 0);
        close_world(&world);
    }
}

static void who_stopped_neither_hears_nor_says_anything(void **state)
{
    (void)state;
    struct world world;
    struct link_view view;
    struct sim_event event;
    open_world(&world, 1);
    for (int l = 0; l < LINKS; l++) assert_true(send_some(&world, &world.lines[l]));
    sim_net_stop(world.net, 0);
    while (sim_next(world.sim, &event)) happen(&world, &event);
    assert_int_equal(world.lines[1].rx->ops->peek(world.lines[1].rx, &view), LINK_EMPTY);
    close_world(&world);
}

static void a_seed_says_everything(void **state)
{
    (void)state;
    uint64_t fingerprints[2];
    for (int i = 0; i < 2; i++) {
        struct world world;
        open_world(&world, 7);
        play(&world);
        fingerprints[i] = sim_fingerprint(world.sim);
        close_world(&world);
    }
    assert_true(fingerprints[0] == fingerprints[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_function_is_missing),
        cmocka_unit_test(every_byte_comes_once_and_in_order),
        cmocka_unit_test(nothing_passes_a_cut_and_nothing_is_lost_there),
        cmocka_unit_test(who_stopped_neither_hears_nor_says_anything),
        cmocka_unit_test(a_seed_says_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
