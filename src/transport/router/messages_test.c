/* Point to point between ranks on several hosts, in one thread: each rank sends messages of every
 * size to each other rank, and they come in order and as they were sent, over every kind of link.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/worlds/message_game.h"
#include "tests/worlds/router_world.h"

/* Some ranks receive before they send, others the other way round. */
static void add_messages(struct message_game *game, int rank, int size)
{
    enum { SIZES = 6, TAG = 2 };
    static const size_t sizes[SIZES] = {70000, 0, 9, 300000, 5000, 40};
    for (int distance = 1; distance < size; distance++)
        for (int number = 0; number < SIZES; number++) {
            const int to = (rank + distance) % size, from = (rank + size - distance) % size;
            if (rank % 2 == 0) message_game_receive(game, rank, from, TAG, sizes[number]);
            message_game_send(game, rank, to, TAG, sizes[number]);
            if (rank % 2 != 0) message_game_receive(game, rank, from, TAG, sizes[number]);
        }
}

static void play(const struct host_shape *shape, enum numbering numbering, bool same_process)
{
    struct router_world *world = router_world_open(shape, numbering, same_process);
    const struct link_world links = router_world_links(world, 1);
    struct message_game *game = message_game_create(world->size);
    for (int r = 0; r < world->size; r++) add_messages(game, r, world->size);
    message_game_play(game, &links, 0);
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
