/* Devices over libfabric's tcp;ofi_rxm, without links above them: what is kept after a stop, and
 * what becomes of writes whose peer ends, of errors, and of ranks that call.
 *
 * ctest: label=notsan */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/fabric/fabric_shim.h"
#include "tests/worlds/card_world.h"

#if __has_include(<rdma/fabric.h>)

#include <rdma/fi_errno.h>

#include "transport/ofi/ofi_device.h"

enum { RANKS = 3, STEPS_MAX = 1000000, BYTES = 20000, WRITES = 1000, RECEIVES = 4, LOOK_S = 20 };

static const char provider[] = "tcp;ofi_rxm";

/* Rank 0 is connected with each of the others, which it writes to. */
struct star {
    struct ofi_choice choice;
    struct end {
        struct star *star;
        int rank;
        struct card_device *device;
        char *memory; /* BYTES; of rank 0 the source of writes, of others their target */
        uint64_t key;
        struct card_target target;
        char *receives; /* RECEIVES for each peer */
        uint64_t receives_key;
    } ends[RANKS];
};

static bool greets(void *context, int peer, const struct ofi_greeting *greeting)
{
    const struct end *const end = context;
    struct card_device *const device = end->star->ends[peer].device;
    return device != NULL && ofi_device_greeted(device, end->rank, greeting);
}

static void open_end(struct star *star, int rank)
{
    struct end *const end = &star->ends[rank];
    const struct ofi_device_options options = {
        .rank = rank, .size = RANKS, .choice = &star->choice, .greets = greets, .context = end};
    struct card_device *device;
    end->star = star;
    end->rank = rank;
    assert_int_equal(ofi_device_create(&options, &device), TUTTI_OK);
    const size_t stride = device->head_room + device->message_bytes;
    end->memory = calloc(1, BYTES);
    end->receives = aligned_alloc(64, RANKS * RECEIVES * stride);
    assert_true(end->memory != NULL && end->receives != NULL);
    memset(end->memory, rank, BYTES);
    assert_int_equal(device->ops->make_room(device, 2), TUTTI_OK);
    end->key = device->ops->enroll(device, end->memory, BYTES,
                                   rank == 0 ? CARD_ACCESS_SOURCE : CARD_ACCESS_WRITTEN);
    end->receives_key =
        device->ops->enroll(device, end->receives, RANKS * RECEIVES * stride, CARD_ACCESS_OWN);
    assert_true(end->key != 0 && end->receives_key != 0);
    if (rank != 0) end->target = device->ops->target(device, end->key);
    end->device = device;
}

static void connect_end(struct end *end, int peer)
{
    struct card_device *const device = end->device;
    const size_t stride = device->head_room + device->message_bytes;
    assert_int_equal(device->ops->prepare(device, peer), TUTTI_OK);
    for (int r = 0; r < RECEIVES; r++)
        assert_true(device->ops->post_receive(
            device, peer, end->receives_key,
            end->receives + (size_t)(peer * RECEIVES + r) * stride + device->head_room, 0));
    device->ops->connect(device, peer);
}

static void step(struct star *star)
{
    for (int r = 0; r < RANKS; r++) (void)star->ends[r].device->ops->progress(star->ends[r].device);
}

static void open_star(struct star *star)
{
    *star = (struct star){0};
    assert_int_equal(ofi_choose_anew(provider, NULL, &star->choice), TUTTI_OK);
    for (int r = 0; r < RANKS; r++) open_end(star, r);
    struct card_device *const device = star->ends[0].device;
    for (int r = 1; r < RANKS; r++) {
        connect_end(&star->ends[0], r);
        connect_end(&star->ends[r], 0);
        for (int s = 0; device->ops->state(device, r) != CARD_PEER_UP; s++) {
            assert_true(s < STEPS_MAX);
            step(star);
        }
    }
}

static void close_star(struct star *star)
{
    for (int r = 0; r < RANKS; r++) {
        struct end *const end = &star->ends[r];
        end->device->ops->deregister(end->device, end->key);
        end->device->ops->deregister(end->device, end->receives_key);
        end->device->ops->free(end->device);
        free(end->memory);
        free(end->receives);
    }
    ofi_choice_release(&star->choice);
}

static bool write_to(struct star *star, int peer, uint64_t id)
{
    struct card_device *const device = star->ends[0].device;
    const struct card_memory memory = {star->ends[0].key, star->ends[0].memory, BYTES};
    return device->ops->write(device, peer, &star->ends[peer].target, 0, &memory, id);
}

/* ---------------------------------------------------------------------------------------- tests */

/* Gives rank 0's device writes to rank 1 until it takes no more, and ends rank 1. Each write
 * completes, and writes to rank 2 go on. */
static void end_with_writes(struct fabric_shim *shim, unsigned again_permille,
                            void (*end)(struct card_device *device, int peer))
{
    struct star star;
    unsigned char seen[WRITES] = {0};
    unsigned given = 0, come = 0;
    fabric_shim_use(shim, 1);
    open_star(&star);
    struct card_device *const device = star.ends[0].device;
    shim->again_permille = again_permille;
    while (given < WRITES && write_to(&star, 1, given)) given++;
    assert_in_range(given, 1, WRITES - 1);
    assert_false(write_to(&star, 2, given));
    end(device, 1);
    for (int s = 0; come < given; s++) {
        struct card_completion completion;
        if (s == STEPS_MAX)
            fail_msg("%u of %u writes complete when their peer has ended", come, given);
        step(&star);
        while (device->ops->poll(device, &completion)) {
            assert_int_equal(completion.work, CARD_WRITTEN);
            assert_true(completion.peer == 1 && completion.id < given);
            assert_int_equal(seen[completion.id]++, 0);
            come++;
        }
    }
    shim->again_permille = 0;
    assert_true(write_to(&star, 2, given));
    for (int s = 0;; s++) {
        struct card_completion completion;
        assert_true(s < STEPS_MAX);
        step(&star);
        if (!device->ops->poll(device, &completion)) continue;
        assert_true(completion.peer == 2 && completion.result == CARD_DONE);
        break;
    }
    assert_memory_equal(star.ends[2].memory, star.ends[0].memory, BYTES);
    close_star(&star);
    fabric_shim_use(NULL, 0);
}

static void break_pair(struct card_device *device, int peer)
{
    device->ops->break_pair(device, peer);
}

static void forget(struct card_device *device, int peer)
{
    device->ops->forget(device, peer);
}

static void fail_and_forget(struct card_device *device, int peer)
{
    ofi_device_fail(device, peer, "this test", 1);
    device->ops->forget(device, peer);
}

/* libfabric has taken nothing of the writes, or some of their parts. */
static void writes_to_a_peer_that_ends_complete(void **state)
{
    (void)state;
    static struct fabric_shim whole = {.name = "nothing is taken"},
                              parts = {.name = "some parts are taken", .message_bytes = 4096};
    end_with_writes(&whole, 1000, break_pair);
    end_with_writes(&whole, 1000, forget);
    end_with_writes(&whole, 1000, fail_and_forget);
    end_with_writes(&parts, 900, break_pair);
    end_with_writes(&parts, 900, forget);
}

/* A look that goes on for ever ends the test. */
static void look_at_errors(struct fabric_shim *shim, int errors)
{
    struct star star;
    fabric_shim_use(shim, 1);
    open_star(&star);
    struct card_device *const device = star.ends[0].device;
    shim->errors = errors;
    alarm(LOOK_S);
    for (int i = 0; i < 10; i++) {
        const bool moved = device->ops->progress(device);
        assert_true(moved == (errors == 1));
    }
    alarm(0);
    shim->errors = 0;
    assert_true(write_to(&star, 2, 7));
    struct card_completion completion;
    for (int s = 0; !device->ops->poll(device, &completion); s++) {
        assert_true(s < STEPS_MAX);
        step(&star);
    }
    assert_true(completion.id == 7 && completion.result == CARD_DONE);
    close_star(&star);
    fabric_shim_use(NULL, 0);
}

static void a_look_ends_whatever_errors_there_are(void **state)
{
    (void)state;
    static struct fabric_shim shim = {.name = "errors without end"};
    look_at_errors(&shim, -FI_EAGAIN); /* as if another thread had taken it */
    look_at_errors(&shim, -FI_EIO);
    look_at_errors(&shim, 1);
}

static const struct fabric_shim like_cxi = {.name = "like cxi",
                                            .makes_keys = true,
                                            .binds_to_endpoint = true,
                                            .has_no_inject = true,
                                            .keeps_no_order = true};

/* Memory that a peer may write to is bound to the endpoint, which cannot be closed before it is
 * unbound. */
static void nothing_is_written_after_a_stop(void **state)
{
    (void)state;
    static const char untouched[BYTES] = {0};
    struct star star;
    fabric_shim_use(&like_cxi, 1);
    open_star(&star);
    struct end *const stopped = &star.ends[2];
    struct card_completion completion;
    const unsigned registered = fabric_shim_count().registered;
    assert_true(write_to(&star, 2, 0));
    for (int s = 0; !star.ends[0].device->ops->poll(star.ends[0].device, &completion); s++) {
        assert_true(s < STEPS_MAX);
        step(&star);
    }
    assert_memory_equal(stopped->memory, star.ends[0].memory, BYTES);
    memset(star.ends[0].memory, 1, BYTES);
    memset(stopped->memory, 0, BYTES);
    stopped->device->ops->stop(stopped->device);
    assert_true(fabric_shim_count().registered < registered);
    (void)write_to(&star, 2, 1);
    for (int s = 0; s < 2000; s++) {
        step(&star);
        fabric_shim_move();
    }
    assert_memory_equal(stopped->memory, untouched, BYTES);
    close_star(&star);
    assert_int_equal(fabric_shim_count().registered, 0);
    fabric_shim_use(NULL, 0);
}

/* In a process of its own, which says what it finds: the memory is never free again. */
static int close_what_stays_open(void)
{
    enum { BLOCKS = 16 };
    static const struct fabric_shim open = {.name = "stays open", .stays_open = true};
    char *blocks[BLOCKS];
    fabric_shim_use(&open, 1);
    struct card_world *world = card_world_create(2, (struct card_mood){.fabric = provider}, 1);
    struct transport *const *ranks = card_world_transports(world);
    const struct card_device *const device = card_device_of(ranks[0]);
    const size_t bytes = 32 * (device->head_room + device->message_bytes);
    struct link_tx *tx;
    struct link_rx *rx;
    if (ranks[0]->ops->open_tx(ranks[0], 0, 0, 1, 64, &tx) != TUTTI_OK) return 1;
    if (ranks[1]->ops->open_rx(ranks[1], 0, 0, 0, &rx) != TUTTI_OK) return 2;
    for (int s = 0; s < 10000; s++) card_world_step(world);
    for (int r = 0; r < 2; r++)
        if (ranks[r]->ops->stop(ranks[r])) return 3;
    card_world_free(world);
    for (int b = 0; b < BLOCKS; b++) {
        blocks[b] = aligned_alloc(64, bytes);
        if (blocks[b] == NULL) return 4;
        memset(blocks[b], 0x11, bytes);
    }
    fabric_shim_receive_late();
    for (int b = 0; b < BLOCKS; b++)
        for (size_t i = 0; i < bytes; i++)
            if (blocks[b][i] != 0x11) return 5;
    return 0;
}

/* A card may go on storing there; so this memory is not used for anything else. The user hears of
 * it. */
static void memory_of_a_card_that_does_not_close_is_kept(void **state)
{
    (void)state;
    char line[512];
    unsigned lines = 0;
    int status;
    FILE *const said = tmpfile();
    assert_non_null(said);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (dup2(fileno(said), STDERR_FILENO) < 0) _exit(99);
        _exit(close_what_stays_open());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    rewind(said);
    while (fgets(line, sizeof line, said) != NULL)
        lines += strstr(line, provider) != NULL && strstr(line, strerror(EBUSY)) != NULL &&
                 strstr(line, "is kept") != NULL;
    fclose(said);
    assert_int_equal(lines, 2); /* of two ranks, each once */
}

static bool keep_greeting(void *context, int peer, const struct ofi_greeting *greeting)
{
    (void)peer;
    *(struct ofi_greeting *)context = *greeting;
    return true;
}

static long count_faults(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_minflt;
}

/* It is asked in each pass. The pages of a table that nobody has touched yet tell how much of it is
 * read. */
static void who_calls_is_known_without_a_look_at_all_ranks(void **state)
{
    (void)state;
    enum { MANY = 1 << 22, FAULTS_MAX = 4, CALLER = MANY - 7, OTHER = 5 };
    struct ofi_choice choice;
    struct ofi_greeting greeting = {0};
    struct card_device *devices[2];
    assert_int_equal(ofi_choose_anew(provider, NULL, &choice), TUTTI_OK);
    for (int d = 0; d < 2; d++) {
        const struct ofi_device_options options = {.size = d == 0 ? MANY : 2,
                                                   .choice = &choice,
                                                   .greets = keep_greeting,
                                                   .context = &greeting};
        assert_int_equal(ofi_device_create(&options, &devices[d]), TUTTI_OK);
    }
    struct card_device *const device = devices[0];
    const long before = count_faults();
    assert_int_equal(device->ops->caller(device), -1);
    assert_in_range(count_faults() - before, 0, FAULTS_MAX);
    assert_int_equal(devices[1]->ops->prepare(devices[1], 1), TUTTI_OK);
    devices[1]->ops->connect(devices[1], 1);
    assert_true(ofi_device_greeted(device, CALLER, &greeting));
    assert_int_equal(device->ops->caller(device), CALLER);
    assert_true(ofi_device_greeted(device, OTHER, &greeting));
    assert_int_equal(device->ops->caller(device), OTHER);
    device->ops->forget(device, OTHER);
    assert_int_equal(device->ops->caller(device), CALLER);
    assert_int_equal(device->ops->prepare(device, CALLER), TUTTI_OK);
    assert_int_equal(device->ops->caller(device), -1);
    for (int d = 0; d < 2; d++) devices[d]->ops->free(devices[d]);
    ofi_choice_release(&choice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_calls_is_known_without_a_look_at_all_ranks),
        cmocka_unit_test(nothing_is_written_after_a_stop),
        cmocka_unit_test(memory_of_a_card_that_does_not_close_is_kept),
        cmocka_unit_test(writes_to_a_peer_that_ends_complete),
        cmocka_unit_test(a_look_ends_whatever_errors_there_are),
    };
    setenv("TUTTI_LOG", "warn", 1); /* is looked at */
    if (!card_world_has_fabric(provider)) {
        print_message("skipped: provider %s of libfabric is not here\n", provider);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 77;
}

#endif
