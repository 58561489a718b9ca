/* A simulated network card: writes land where the target has registered memory, and nowhere else;
 * messages find receives; completions come late, in any order, and are true. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/virtual_card/device.h"
#include "tests/virtual_card/packet.h"
#include "tests/virtual_card/socket_wire.h"

enum { RANKS = 2, LOOKS_MAX = 200000, MEMORY_BYTES = 100000, GUARD_BYTES = 4096, POISON = 0x5a };

/* Two devices in one thread; the memory of each lies between guards that nothing may touch. */
struct world {
    uint64_t key;
    struct card_device *devices[RANKS];
    unsigned char *memory[RANKS];
    uint64_t keys[RANKS]; /* of MEMORY_BYTES behind the first guard */
};

static unsigned char *inner(struct world *world, int rank)
{
    return world->memory[rank] + GUARD_BYTES;
}

static struct card_device *open_device(uint64_t key, int rank, uint64_t seed)
{
    const struct virtual_card_options options = {
        .rank = rank, .size = RANKS, .nonce = 100 + (uint64_t)rank, .seed = seed};
    struct card_wire *wire;
    struct card_device *device;
    assert_int_equal(card_socket_wire_open(key, rank, RANKS, &wire), TUTTI_OK);
    assert_int_equal(virtual_card_create(&options, wire, &device), TUTTI_OK);
    return device;
}

static void look(struct world *world)
{
    for (int r = 0; r < RANKS; r++) world->devices[r]->ops->progress(world->devices[r]);
}

static void connect_both(struct world *world)
{
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(world->devices[r]->ops->prepare(world->devices[r], 1 - r), TUTTI_OK);
        world->devices[r]->ops->connect(world->devices[r], 1 - r);
    }
    for (int looks = 0; world->devices[0]->ops->state(world->devices[0], 1) != CARD_PEER_UP ||
                        world->devices[1]->ops->state(world->devices[1], 0) != CARD_PEER_UP;
         looks++) {
        assert_true(looks < LOOKS_MAX);
        look(world);
    }
}

static void open_world(struct world *world, uint64_t seed)
{
    const size_t bytes = MEMORY_BYTES + 2 * GUARD_BYTES;
    *world = (struct world){.key = (uint64_t)getpid() << 32 ^ seed};
    for (int r = 0; r < RANKS; r++) {
        world->devices[r] = open_device(world->key, r, seed + (uint64_t)r);
        world->memory[r] = malloc(bytes);
        assert_non_null(world->memory[r]);
        memset(world->memory[r], POISON, bytes);
        assert_int_equal(world->devices[r]->ops->make_room(world->devices[r], 4), TUTTI_OK);
        world->keys[r] = world->devices[r]->ops->enroll(world->devices[r], inner(world, r),
                                                        MEMORY_BYTES, CARD_ACCESS_WRITTEN);
        assert_true(world->keys[r] != 0);
    }
    connect_both(world);
}

static void close_world(struct world *world)
{
    for (int r = 0; r < RANKS; r++) {
        for (size_t i = 0; i < GUARD_BYTES; i++) {
            assert_int_equal(world->memory[r][i], POISON);
            assert_int_equal(inner(world, r)[MEMORY_BYTES + i], POISON);
        }
        world->devices[r]->ops->free(world->devices[r]);
        free(world->memory[r]);
    }
}

static void fill(unsigned char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) memory[i] = (unsigned char)(i * 7 + (i >> 8) * 13);
}

/* Writes from the beginning of rank 0's memory. */
static void write_there(struct world *world, uint64_t key, uint64_t offset, size_t bytes,
                        uint64_t id)
{
    const struct card_memory memory = {world->keys[0], inner(world, 0), bytes};
    const struct card_target target = {.key = key};
    assert_true(world->devices[0]->ops->write(world->devices[0], 1, &target, offset, &memory, id));
}

static struct card_completion next_completion(struct world *world, int rank)
{
    struct card_completion completion;
    for (int looks = 0; !world->devices[rank]->ops->poll(world->devices[rank], &completion);
         looks++) {
        assert_true(looks < LOOKS_MAX);
        look(world);
    }
    return completion;
}

static void expect_result(struct world *world, uint64_t id, enum card_result result)
{
    const struct card_completion completion = next_completion(world, 0);
    assert_int_equal(completion.work, CARD_WRITTEN);
    assert_int_equal(completion.id, id);
    assert_int_equal(completion.result, result);
}

static struct virtual_card_counts counts_of(const struct world *world, int rank)
{
    struct virtual_card_counts counts;
    virtual_card_count(world->devices[rank], &counts);
    return counts;
}

static void expect_poison(const unsigned char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) assert_int_equal(memory[i], POISON);
}

/* -------------------------------------------------------------------------------------- writing */

static void what_is_written_is_there_when_that_completes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct world world;
        open_world(&world, seed);
        fill(inner(&world, 0), 50000);
        write_there(&world, world.keys[1], 777, 50000, 5);
        expect_result(&world, 5, CARD_DONE);
        assert_memory_equal(inner(&world, 1) + 777, inner(&world, 0), 50000);
        expect_poison(inner(&world, 1), 777);
        expect_poison(inner(&world, 1) + 50777, MEMORY_BYTES - 50777);
        close_world(&world);
    }
}

/* Also one of which only the last byte is. */
static void a_write_outside_of_a_region_is_refused_and_both_sides_know(void **state)
{
    (void)state;
    static const struct {
        uint64_t offset;
        size_t bytes;
    } outside[] = {{MEMORY_BYTES, 1}, {MEMORY_BYTES - 9, 10}, {UINT64_MAX, 2}, {UINT64_MAX - 1, 100}};
    struct world world;
    open_world(&world, 1);
    for (unsigned i = 0; i < sizeof outside / sizeof *outside; i++) {
        write_there(&world, world.keys[1], outside[i].offset, outside[i].bytes, i);
        expect_result(&world, i, CARD_REFUSED);
        assert_int_equal(counts_of(&world, 1).refused, i + 1);
        assert_int_equal(counts_of(&world, 0).refused_by_peers, i + 1);
    }
    write_there(&world, world.keys[1] + 1, 0, 8, 9); /* no such key */
    expect_result(&world, 9, CARD_REFUSED);
    expect_poison(inner(&world, 1), MEMORY_BYTES);
    write_there(&world, world.keys[1], MEMORY_BYTES - 10, 10, 10);
    expect_result(&world, 10, CARD_DONE);
    close_world(&world);
}

static void nothing_lands_after_deregistering(void **state)
{
    (void)state;
    unsigned refused = 0, in_the_middle = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct world world;
        unsigned char *const memory = malloc(MEMORY_BYTES);
        assert_non_null(memory);
        open_world(&world, seed);
        fill(inner(&world, 0), MEMORY_BYTES);
        write_there(&world, world.keys[1], 0, MEMORY_BYTES, 1);
        for (uint64_t looks = 0; looks < seed % 40; looks++) look(&world);
        world.devices[1]->ops->deregister(world.devices[1], world.keys[1]);
        in_the_middle += counts_of(&world, 1).writes > 0;
        memcpy(memory, inner(&world, 1), MEMORY_BYTES);
        const struct card_completion completion = next_completion(&world, 0);
        assert_memory_equal(inner(&world, 1), memory, MEMORY_BYTES);
        assert_true((completion.result == CARD_REFUSED) == (counts_of(&world, 1).refused > 0));
        refused += completion.result == CARD_REFUSED;
        close_world(&world);
        free(memory);
    }
    assert_true(refused > 50 && in_the_middle > 50);
}

static void a_key_is_never_used_again(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 1);
    const uint64_t before = world.keys[1];
    world.devices[1]->ops->deregister(world.devices[1], before);
    world.keys[1] = world.devices[1]->ops->enroll(world.devices[1], inner(&world, 1), MEMORY_BYTES,
                                                  CARD_ACCESS_WRITTEN);
    assert_true(world.keys[1] != before);
    write_there(&world, before, 0, 100, 1);
    expect_result(&world, 1, CARD_REFUSED);
    close_world(&world);
}

/* Memory that was given back to its owner is not read any more, as it no longer belongs to the
 * operation. */
static void what_is_to_be_read_from_deregistered_memory_is_flushed(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 1);
    write_there(&world, world.keys[1], 0, MEMORY_BYTES, 1);
    world.devices[0]->ops->deregister(world.devices[0], world.keys[0]);
    const unsigned before = counts_of(&world, 1).writes;
    expect_result(&world, 1, CARD_FLUSHED);
    for (int looks = 0; looks < 1000; looks++) look(&world);
    assert_int_equal(counts_of(&world, 1).writes, before);
    expect_poison(inner(&world, 1), MEMORY_BYTES);
    close_world(&world);
}

static void regions_are_as_many_as_there_was_asked_room_for(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 1);
    uint64_t key = 0;
    for (int i = 0; i < 3; i++) {
        key = world.devices[0]->ops->enroll(world.devices[0], inner(&world, 0), 10,
                                            CARD_ACCESS_WRITTEN);
        assert_true(key != 0);
    }
    assert_true(world.devices[0]->ops->enroll(world.devices[0], inner(&world, 0), 10,
                                              CARD_ACCESS_WRITTEN) == 0);
    world.devices[0]->ops->deregister(world.devices[0], key);
    assert_int_equal(world.devices[0]->ops->regions(world.devices[0]), 3);
    assert_true(world.devices[0]->ops->enroll(world.devices[0], inner(&world, 0), 10,
                                              CARD_ACCESS_WRITTEN) != 0);
    close_world(&world);
}

/* ------------------------------------------------------------------------------------- messages */

static void post(struct world *world, int rank, unsigned number)
{
    assert_true(world->devices[rank]->ops->post_receive(
        world->devices[rank], 1 - rank, world->keys[rank],
        inner(world, rank) + (size_t)number * VIRTUAL_CARD_MESSAGE_BYTES, number));
}

static bool try_send(struct world *world, const void *head, size_t head_bytes, size_t bytes,
                     uint64_t id)
{
    const struct card_memory memory = {world->keys[0], inner(world, 0), bytes};
    return world->devices[0]->ops->send(world->devices[0], 1, head, head_bytes, &memory, id);
}

static void every_message_completes_once_in_any_order(void **state)
{
    (void)state;
    enum { MESSAGES = 20 };
    unsigned turned = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct world world;
        unsigned came = 0, sent = 0, count = 0;
        open_world(&world, seed);
        fill(inner(&world, 0), VIRTUAL_CARD_MESSAGE_BYTES);
        for (unsigned i = 0; i < MESSAGES; i++) post(&world, 1, i);
        for (unsigned char i = 0; i < MESSAGES; i++)
            assert_true(try_send(&world, &i, 1, i * 200U, i));
        while (count < 2 * MESSAGES) {
            const int rank = count < MESSAGES;
            const struct card_completion completion = next_completion(&world, rank);
            assert_int_equal(completion.result, CARD_DONE);
            count++;
            if (rank == 0) {
                assert_int_equal(completion.work, CARD_SENT);
                sent |= 1U << completion.id;
                continue;
            }
            const unsigned char *buffer =
                inner(&world, 1) + completion.id * (size_t)VIRTUAL_CARD_MESSAGE_BYTES;
            assert_int_equal(completion.work, CARD_RECEIVED);
            assert_int_equal(completion.bytes, 1 + buffer[0] * 200U);
            assert_memory_equal(buffer + 1, inner(&world, 0), buffer[0] * 200U);
            turned += buffer[0] != count - 1;
            came |= 1U << buffer[0];
        }
        assert_int_equal(came, (1U << MESSAGES) - 1);
        assert_int_equal(sent, (1U << MESSAGES) - 1);
        close_world(&world);
    }
    assert_true(turned > 100);
}

static void a_message_without_a_receive_is_an_overrun(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 1);
    post(&world, 1, 0);
    assert_true(try_send(&world, "x", 1, 10, 1));
    assert_int_equal(next_completion(&world, 1).work, CARD_RECEIVED);
    assert_int_equal(counts_of(&world, 1).overruns, 0);
    assert_true(try_send(&world, "x", 1, 10, 2));
    for (int looks = 0; counts_of(&world, 1).overruns == 0; looks++) {
        assert_true(looks < LOOKS_MAX);
        look(&world);
    }
    assert_int_equal(world.devices[1]->ops->state(world.devices[1], 0), CARD_PEER_BROKEN);
    assert_int_equal(world.devices[0]->ops->state(world.devices[0], 1),
                     CARD_PEER_UP); /* it does not hear of it */
    close_world(&world);
}

static void queues_are_bounded(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 1);
    unsigned posted = 0, sent = 0;
    while (world.devices[1]->ops->post_receive(world.devices[1], 0, world.keys[1], inner(&world, 1),
                                               0))
        posted++;
    assert_int_equal(posted, CARD_RECEIVES_MAX);
    while (try_send(&world, "x", 1, 0, sent)) sent++;
    assert_int_equal(sent, CARD_OPERATIONS_MAX);
    for (unsigned i = 0; i < sent; i++)
        assert_int_equal(next_completion(&world, 0).work, CARD_SENT);
    assert_true(try_send(&world, "x", 1, 0, 0) == true);
    close_world(&world);
}

/* ------------------------------------------------------------------------------------ strangers */

static void a_peer_that_is_gone_is_lost(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 1);
    world.devices[1]->ops->free(world.devices[1]);
    write_there(&world, 1, 0, 100, 3);
    struct card_completion completion;
    for (int looks = 0; !world.devices[0]->ops->poll(world.devices[0], &completion); looks++) {
        assert_true(looks < LOOKS_MAX);
        world.devices[0]->ops->progress(world.devices[0]);
    }
    assert_int_equal(completion.result, CARD_FLUSHED);
    assert_int_equal(world.devices[0]->ops->state(world.devices[0], 1), CARD_PEER_LOST);
    world.devices[1] = open_device(world.key, 1, 1);
    close_world(&world);
}

static void a_silent_peer_that_is_gone_is_found(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 1);
    for (int looks = 0; looks < 100; looks++) look(&world);
    world.devices[1]->ops->free(world.devices[1]);
    const uint64_t deadline_ns = clock_now_ns() + UINT64_C(30000000000);
    while (world.devices[0]->ops->state(world.devices[0], 1) != CARD_PEER_LOST) {
        assert_true(clock_now_ns() < deadline_ns);
        world.devices[0]->ops->progress(world.devices[0]);
    }
    world.devices[1] = open_device(world.key, 1, 1);
    close_world(&world);
}

static bool write_to(int fd, const struct world *world, const void *bytes, size_t count)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1,
                                "tutti-card-%016llx-0", (unsigned long long)world->key);
    const size_t size = offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length;
    return sendto(fd, bytes, count, 0, (struct sockaddr *)&address, (socklen_t)size) ==
           (ssize_t)count;
}

/* A socket that has no rank's name is dropped by the wire; the device counts nothing. */
static void what_comes_from_another_socket_is_dropped(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 1);
    const struct card_packet packet = {.magic = CARD_PACKET_MAGIC,
                                       .kind = CARD_PACKET_WRITE,
                                       .from = 1,
                                       .bytes = 0,
                                       .from_nonce = 101,
                                       .to_nonce = 100};
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_true(write_to(fd, &world, &packet, sizeof packet));
    assert_true(write_to(fd, &world, "short", 5));
    for (int looks = 0; looks < 100; looks++) look(&world);
    assert_int_equal(counts_of(&world, 0).strays, 0);
    assert_int_equal(world.devices[0]->ops->state(world.devices[0], 1), CARD_PEER_UP);
    close(fd);
    close_world(&world);
}

enum { STRANGER = 65534 };

/* Takes rank 1's name before that rank does, and says what rank 1 would. */
static int impersonate(const struct world *world)
{
    const struct card_packet packet = {
        .magic = CARD_PACKET_MAGIC, .kind = CARD_PACKET_CONNECT, .from = 1, .from_nonce = 101};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1,
                                "tutti-card-%016llx-1", (unsigned long long)world->key);
    const size_t size = offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (setresuid(STRANGER, STRANGER, STRANGER) != 0) return 2;
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, (socklen_t)size) != 0) return 3;
    return write_to(fd, world, &packet, sizeof packet) ? 0 : 4;
}

static void what_comes_from_another_user_is_dropped(void **state)
{
    (void)state;
    struct world world = {.key = (uint64_t)getpid() << 32 ^ 5};
    int status;
    if (geteuid() != 0) skip(); /* only root can become another user */
    world.devices[0] = open_device(world.key, 0, 1);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(impersonate(&world));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    for (int looks = 0; looks < 100; looks++) world.devices[0]->ops->progress(world.devices[0]);
    assert_int_equal(world.devices[0]->ops->state(world.devices[0], 1), CARD_PEER_UNUSED);
    assert_int_equal(world.devices[0]->ops->caller(world.devices[0]), -1);
    world.devices[0]->ops->free(world.devices[0]);
}

/* A device of the same name that is not the one met before: none of its packets is believed. */
static void packets_of_another_device_of_a_rank_are_strays(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 1);
    world.devices[1]->ops->free(world.devices[1]);
    const struct virtual_card_options options = {.rank = 1, .size = RANKS, .nonce = 999, .seed = 1};
    struct card_wire *wire;
    assert_int_equal(card_socket_wire_open(world.key, 1, RANKS, &wire), TUTTI_OK);
    assert_int_equal(virtual_card_create(&options, wire, &world.devices[1]), TUTTI_OK);
    assert_int_equal(world.devices[1]->ops->prepare(world.devices[1], 0), TUTTI_OK);
    world.devices[1]->ops->connect(world.devices[1], 0);
    for (int looks = 0; looks < 100; looks++) look(&world);
    assert_true(counts_of(&world, 0).strays > 0);
    assert_int_equal(world.devices[1]->ops->state(world.devices[1], 0), CARD_PEER_WANTED);
    close_world(&world);
}

static void a_rank_has_one_device(void **state)
{
    (void)state;
    struct world world;
    struct card_wire *wire;
    open_world(&world, 1);
    assert_int_equal(card_socket_wire_open(world.key, 1, RANKS, &wire), TUTTI_IN_PROGRESS);
    assert_null(wire);
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_there_when_that_completes),
        cmocka_unit_test(a_write_outside_of_a_region_is_refused_and_both_sides_know),
        cmocka_unit_test(nothing_lands_after_deregistering),
        cmocka_unit_test(a_key_is_never_used_again),
        cmocka_unit_test(what_is_to_be_read_from_deregistered_memory_is_flushed),
        cmocka_unit_test(regions_are_as_many_as_there_was_asked_room_for),
        cmocka_unit_test(every_message_completes_once_in_any_order),
        cmocka_unit_test(a_message_without_a_receive_is_an_overrun),
        cmocka_unit_test(queues_are_bounded),
        cmocka_unit_test(a_peer_that_is_gone_is_lost),
        cmocka_unit_test(a_silent_peer_that_is_gone_is_found),
        cmocka_unit_test(what_comes_from_another_socket_is_dropped),
        cmocka_unit_test(what_comes_from_another_user_is_dropped),
        cmocka_unit_test(packets_of_another_device_of_a_rank_are_strays),
        cmocka_unit_test(a_rank_has_one_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
