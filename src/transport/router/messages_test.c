/* Point to point between ranks on several hosts, in one thread: each rank sends messages of every
 * size to each other rank, and they come in order and as they were sent, over every kind of link.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "p2p/p2p.h"
#include "tests/worlds/router_world.h"

enum { SIZES = 6, ROUNDS_MAX = 1000000 };
static const size_t sizes[SIZES] = {70000, 0, 9, 300000, 5000, 40};

struct own {
    struct p2p *p2p;
    struct p2p_request requests[2 * SIZES * ROUTER_RANKS_MAX];
    int count;
};

static unsigned char value_at(int source, int destination, int number, size_t i)
{
    return (unsigned char)(source * 50 + destination * 11 + number * 7 + (int)(i * 3 + i / 256));
}

static struct p2p_request *add(struct own *own, bool is_send, int peer, int number)
{
    struct p2p_request *request = &own->requests[own->count++];
    *request = (struct p2p_request){
        .is_send = is_send, .bytes = sizes[number], .dtype = TUTTI_UINT8, .peer = peer, .tag = 5};
    request->buffer = calloc(1, sizes[number] + 1);
    assert_non_null(request->buffer);
    return request;
}

/* Some ranks receive before they send, others the other way round. */
static void plan(struct own *own, int rank, int size)
{
    for (int distance = 1; distance < size; distance++)
        for (int number = 0; number < SIZES; number++) {
            const int to = (rank + distance) % size, from = (rank + size - distance) % size;
            if (rank % 2 == 0) add(own, false, from, number);
            unsigned char *buffer = add(own, true, to, number)->buffer;
            for (size_t i = 0; i < sizes[number]; i++) buffer[i] = value_at(rank, to, number, i);
            if (rank % 2 != 0) add(own, false, from, number);
        }
}

static void expect_right(const struct own *own, int rank)
{
    int received[ROUTER_RANKS_MAX] = {0};
    for (int i = 0; i < own->count; i++) {
        const struct p2p_request *request = &own->requests[i];
        assert_true(request->done);
        assert_int_equal(request->status, TUTTI_OK);
        if (request->is_send) continue;
        const int number = received[request->peer]++;
        assert_int_equal(request->received_bytes, sizes[number]);
        const unsigned char *buffer = request->buffer;
        for (size_t b = 0; b < sizes[number]; b++)
            if (buffer[b] != value_at(request->peer, rank, number, b))
                fail_msg("message %d from %d to %d is wrong at %zu", number, request->peer, rank, b);
    }
}

static void play(const struct host_shape *shape, enum numbering numbering, bool same_process)
{
    static const struct p2p_options options = {
        .eager_bytes_max = 4000, .unexpected_bytes_max = 100000, .unexpected_count_max = 50};
    struct router_world *world = router_world_open(shape, numbering, same_process);
    struct own *owns = calloc((size_t)world->size, sizeof *owns);
    assert_non_null(owns);
    for (int r = 0; r < world->size; r++) {
        plan(&owns[r], r, world->size);
        assert_int_equal(
            p2p_create(world->ranks[r], TRANSPORT_SLOT_MESSAGES, &options, &owns[r].p2p), TUTTI_OK);
        assert_int_equal(p2p_listen(owns[r].p2p), TUTTI_OK);
        for (int i = 0; i < owns[r].count; i++)
            assert_int_equal(p2p_start(owns[r].p2p, &owns[r].requests[i]), TUTTI_OK);
    }
    bool is_busy = true;
    for (int round = 0; is_busy; round++) {
        if (round == ROUNDS_MAX) fail_msg("stuck");
        is_busy = false;
        for (int r = 0; r < world->size; r++) {
            world->ranks[r]->ops->progress(world->ranks[r]);
            p2p_progress(owns[r].p2p);
            assert_int_equal(p2p_fault(owns[r].p2p), -1);
            is_busy |= p2p_is_busy(owns[r].p2p);
        }
    }
    for (int r = 0; r < world->size; r++) {
        expect_right(&owns[r], r);
        p2p_free(owns[r].p2p);
        for (int i = 0; i < owns[r].count; i++) free(owns[r].requests[i].buffer);
    }
    free(owns);
    router_world_close(world);
}

static void messages_come_over_both_kinds_of_links(void **state)
{
    (void)state;
    static const struct host_shape shapes[] = {{.hosts = {2, 3, 1}}, {.hosts = {4, 4}}};
    for (int numbering = 0; numbering < NUMBERING_COUNT; numbering++) {
        play(&shapes[0], (enum numbering)numbering, numbering % 2 == 0);
        play(&shapes[1], (enum numbering)numbering, numbering % 2 != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_over_both_kinds_of_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
