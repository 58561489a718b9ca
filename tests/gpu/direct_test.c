/* Memory of devices between processes: it is read where it lies once both have agreed on that, and
 * goes through the host's memory otherwise. Either way results are right.
 *
 * The driver is what TUTTI_CUDA_DRIVER names: in the suites the stand-in, which ends a process that
 * reads what its owner has freed. With another one each process tells (TUTTI_LOG=info) why it does
 * not export or map memory, and tests that need the stand-in, another device or more rights say so
 * and are skipped.
 *
 * ctest: label=once label=notsan timeout=240
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "call/communicator.h"
#include "os/process.h"
#include "path/path.h"
#include "tests/gpu/cuda_standin.h"
#include "tests/gpu/device_driver.h"
#include "tests/worlds/ranks.h"

enum { COUNT = 70003, BYTES = COUNT * sizeof(float), TURNS = 12 };

/* What a rank has: one buffer is read where it lies, and the result goes to the other. */
struct buffers {
    float *send, *recv;
    float *image; /* of the host */
};

/* Enough for a process that is one rank. */
static void have_one_queue(void)
{
    setenv("TUTTI_STANDIN_QUEUES", "1", 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
}

struct scenario {
    int devices;
    unsigned direct;    /* whose messages are read where they lie in the end, a bit for each rank */
    bool bare;          /* memory that has no handle */
    bool by_hand;       /* memory that is mapped by hand */
    bool in_two;        /* such memory, in two mappings side by side */
    bool secret;        /* such memory, which may not be exported */
    bool fails;         /* rank 1's driver opens no handle */
    bool has_no_driver; /* rank 1 */
    bool frees;         /* all memory, a few times */
    bool dies;          /* rank 1, in the end */
    bool derives;       /* another communicator of the same processes */
    struct tutti_id id; /* of has_no_driver */
};

static bool is_standin; /* else some of this cannot be asked of the driver */

static float value_of(int rank, int turn, size_t i)
{
    return (float)((i + (size_t)turn * 7 + (size_t)rank * 3) % 1024);
}

static bool is_sum(const float *image, int size, int turn)
{
    for (size_t i = 0; i < COUNT; i++) {
        float sum = 0;
        for (int r = 0; r < size; r++) sum += value_of(r, turn, i);
        if (image[i] != sum) return false;
    }
    return true;
}

static bool went_directly(const struct tutti_comm *comm)
{
    struct record record = {.paths = 0};
    const struct recorder *const recorder = &comm->health.recorder;
    return recorder_read(recorder, recorder_latest(recorder), &record) &&
           (record.paths & path_bit(PATH_READ)) != 0;
}

static bool has_opened_driver(void)
{
    const char *reason;
    const bool is_open = device_driver_open(&reason);
    if (!is_open) fprintf(stderr, "%s\n", reason);
    return is_open;
}

static float *take(const struct scenario *s, int rank)
{
    uint64_t address = 0;
    if (s->has_no_driver && rank == 1) return malloc(BYTES);
    if (s->by_hand || s->secret) return device_driver_map(BYTES, !s->secret);
    if (s->in_two) return device_driver_map_two(BYTES);
    if (!s->bare) return device_driver_allocate(BYTES);
    return cuda_standin_use()->allocate(rank % s->devices, BYTES, STANDIN_BARE, &address) == CUDA_OK
               ? (float *)(uintptr_t)address
               : NULL;
}

static void give(const struct scenario *s, int rank, float *memory)
{
    if (s->has_no_driver && rank == 1)
        free(memory);
    else if (s->by_hand || s->secret)
        device_driver_unmap(memory, BYTES);
    else if (s->in_two)
        device_driver_unmap_two(memory, BYTES);
    else
        device_driver_free(memory);
}

static void put(const struct scenario *s, int rank, float *memory, const float *image)
{
    if (s->has_no_driver && rank == 1)
        memcpy(memory, image, BYTES);
    else
        device_driver_put(memory, image, BYTES);
}

static void get(const struct scenario *s, int rank, float *image, const float *memory)
{
    if (s->has_no_driver && rank == 1)
        memcpy(image, memory, BYTES);
    else
        device_driver_get(image, memory, BYTES);
}

/* One allreduce, checked. */
static int reduce(const struct scenario *s, struct tutti_comm *comm, const struct buffers *b,
                  int rank, int size, int turn)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.algorithm = "ring";
    for (size_t i = 0; i < COUNT; i++) b->image[i] = value_of(rank, turn, i);
    put(s, rank, b->send, b->image);
    RANKS_EXPECT(tutti_allreduce_with(b->send, b->recv, COUNT, TUTTI_FLOAT32, TUTTI_SUM, &options,
                                      comm) == TUTTI_OK);
    get(s, rank, b->image, b->recv);
    RANKS_EXPECT(is_sum(b->image, size, turn));
    return 0;
}

static int reduce_often(const struct scenario *s, struct tutti_comm *comm, const struct buffers *b,
                        int rank, int size)
{
    const bool is_direct = (s->direct >> rank & 1) != 0;
    bool ever = false;
    for (int turn = 0; turn < TURNS; turn++) {
        if (reduce(s, comm, b, rank, size, turn) != 0) return 1;
        ever |= went_directly(comm);
    }
    if (s->has_no_driver && rank == 1)
        return 0; /* it has memory of the host, which is read as ever */
    RANKS_EXPECT(ever == is_direct);
    RANKS_EXPECT(went_directly(comm) == is_direct);
    return 0;
}

static int reduce_anew(const struct scenario *s, struct tutti_comm *comm, struct buffers *b,
                       int rank, int size)
{
    for (int time = 0; time < 3; time++) {
        float *const before[] = {b->send, b->recv};
        if (time > 0) {
            give(s, rank, b->send);
            give(s, rank, b->recv);
            b->send = take(s, rank);
            b->recv = take(s, rank);
            if (is_standin) /* otherwise it tests little */
                RANKS_EXPECT(b->send == before[0] && b->recv == before[1]);
        }
        if (reduce_often(s, comm, b, rank, size) != 0) return 1;
    }
    return 0;
}

/* All of a buffer to the next rank. */
static int pass_on(const struct scenario *s, struct tutti_comm *comm, const struct buffers *b,
                   int rank, int size)
{
    const int from = (rank + size - 1) % size;
    for (size_t i = 0; i < COUNT; i++) b->image[i] = value_of(rank, 0, i);
    put(s, rank, b->send, b->image);
    RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
    RANKS_EXPECT(tutti_send(b->send, COUNT, TUTTI_FLOAT32, (rank + 1) % size, 0, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_recv(b->recv, COUNT, TUTTI_FLOAT32, from, 0, NULL, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
    get(s, rank, b->image, b->recv);
    for (size_t i = 0; i < COUNT; i++) RANKS_EXPECT(b->image[i] == value_of(from, 0, i));
    return 0;
}

static _Atomic int *met; /* see ranks_meet */

static int run(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct scenario *const s = context;
    const bool has_driver = !(s->has_no_driver && rank == 1);
    (void)seed;
    if (has_driver) {
        RANKS_EXPECT(has_opened_driver());
        device_driver_use(rank % s->devices % device_driver_count());
    }
    if (s->fails && rank == 1)
        (cuda_standin_use()->fail)(/* not cmocka's macro */ "cuIpcOpenMemHandle_v2",
                                   CUDA_OUT_OF_MEMORY, 0, 1000000);
    struct buffers b = {take(s, rank), take(s, rank), malloc(BYTES)};
    RANKS_EXPECT(b.send != NULL && b.recv != NULL && b.image != NULL);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    int result =
        s->frees ? reduce_anew(s, comm, &b, rank, size) : reduce_often(s, comm, &b, rank, size);
    if (result == 0 && s->in_two) result = pass_on(s, comm, &b, rank, size);
    if (result == 0 && s->derives) {
        struct tutti_comm *derived;
        RANKS_EXPECT(tutti_comm_split(comm, 0, -rank, NULL, &derived) == TUTTI_OK);
        result = reduce_often(s, derived, &b, size - 1 - rank, size);
        tutti_comm_free(derived);
    }
    if (result == 0 && s->dies) {
        ranks_meet(met, size);
        if (rank == 1) raise(SIGKILL);
        const enum tutti_status status =
            tutti_allreduce(b.send, b.recv, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm);
        RANKS_EXPECT(status == TUTTI_PROC_FAILED);
    }
    if (result == 0 && !s->dies) RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    give(s, rank, b.send);
    give(s, rank, b.recv);
    free(b.image);
    return result;
}

/* Without a driver in rank 1 from the beginning. */
static int run_without_driver(struct tutti_comm *none, int rank, int size, uint64_t seed,
                              void *context)
{
    const struct scenario *const s = context;
    const struct tutti_comm_options options = {.size_bytes = sizeof options,
                                               .rank = rank,
                                               .size = size,
                                               .id = &s->id,
                                               .timeout_ns = 30000000000u};
    struct tutti_comm *comm = none;
    if (rank == 1) unsetenv("TUTTI_CUDA_DRIVER");
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    const int result = run(comm, rank, size, seed, context);
    tutti_comm_free(comm);
    return result;
}

static void run_scenario(int size, struct scenario s, int lost)
{
    const struct tutti_comm_options comm_options = {
        .size_bytes = sizeof comm_options, .rank = -1, .size = -1, .timeout_ns = 30000000000u};
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .comm_options = &comm_options};
    assert_int_equal(ranks_run(size, &options, run, &s), lost);
}

/* One of several ranks of a process, each a thread. */
enum { THREADS_EACH = 2, PROCESSES = 2, TURNS_TOGETHER = 5 };
struct member {
    const struct scenario *scenario;
    pthread_barrier_t *together;
    int rank, result;
};

/* Drivers may wait for all that is on the device to allocate and to free: so that is done while no
 * rank of the process has a call. */
static int run_member(const struct member *member)
{
    const struct scenario *const s = member->scenario;
    const int rank = member->rank;
    const struct tutti_comm_options options = {.size_bytes = sizeof options,
                                               .rank = rank,
                                               .size = THREADS_EACH * PROCESSES,
                                               .id = &s->id,
                                               .timeout_ns = 20000000000u};
    struct tutti_comm *comm = NULL, *apart = NULL;
    device_driver_use(0);
    const struct buffers b = {take(s, rank), take(s, rank), malloc(BYTES)};
    pthread_barrier_wait(member->together);
    RANKS_EXPECT(b.send != NULL && b.recv != NULL && b.image != NULL);
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_split(comm, rank % THREADS_EACH, rank, NULL, &apart) == TUTTI_OK);
    /* The worker of one rank of each process waits for the other rank, whose calls find out what
     * can be mapped. */
    int result = 0;
    for (int turn = 0; turn < TURNS_TOGETHER && result == 0; turn++) {
        for (int time = 0; time < 4 && rank % THREADS_EACH == turn % THREADS_EACH && result == 0;
             time++)
            result = reduce(s, apart, &b, rank / THREADS_EACH, PROCESSES, turn + time);
        if (result == 0) result = reduce(s, comm, &b, rank, options.size, turn);
    }
    if (result == 0) RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    pthread_barrier_wait(member->together);
    tutti_comm_free(apart);
    tutti_comm_free(comm);
    give(s, rank, b.send);
    give(s, rank, b.recv);
    free(b.image);
    return result;
}

static void *run_member_thread(void *context)
{
    struct member *const member = context;
    member->result = run_member(member);
    if (member->result != 0) _exit(1); /* others wait for this one */
    return NULL;
}

static int run_members(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    pthread_barrier_t together;
    pthread_t threads[THREADS_EACH];
    struct member members[THREADS_EACH];
    int result = 0;
    (void)none, (void)size, (void)seed;
    RANKS_EXPECT(has_opened_driver());
    pthread_barrier_init(&together, NULL, THREADS_EACH);
    for (int t = 0; t < THREADS_EACH; t++) {
        members[t] = (struct member){context, &together, rank * THREADS_EACH + t, 0};
        RANKS_EXPECT(pthread_create(&threads[t], NULL, run_member_thread, &members[t]) == 0);
    }
    for (int t = 0; t < THREADS_EACH; t++) {
        pthread_join(threads[t], NULL);
        result |= members[t].result;
    }
    return result;
}

static void say_skipped(const char *why)
{
    printf("skipped: %s\n", why);
    fflush(stdout);
}

/* In a process of its own: a child of one that has used a driver cannot use it. The reason, or
 * "". */
static const char *ask_apart(void (*ask)(int output, const void *context), const void *context)
{
    static char reason[200];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        ask(ends[1], context);
        _exit(0);
    }
    close(ends[1]);
    const ssize_t length = read(ends[0], reason, sizeof reason - 1);
    reason[length > 0 ? length : 0] = '\0';
    close(ends[0]);
    waitpid(pid, NULL, 0);
    return reason;
}

static void ask_for_devices(int output, const void *context)
{
    char text[100];
    const int wanted = *(const int *)context;
    const char *reason = text;
    if (device_driver_open(&reason)) {
        if (device_driver_count() >= wanted) return;
        snprintf(text, sizeof text, "the driver has %d device, and %d are needed",
                 device_driver_count(), wanted);
        reason = text;
    }
    if (write(output, reason, strlen(reason)) < 0) _exit(1);
}

static void ask_for_mappings(int output, const void *context)
{
    const char *reason;
    (void)context;
    if (device_driver_open(&reason)) {
        device_driver_use(0);
        if (device_driver_maps_by_hand(&reason)) return;
    }
    if (write(output, reason, strlen(reason)) < 0) _exit(1);
}

/* Of another child of this process, as ranks are. */
static void ask_for_descriptors(int output, const void *context)
{
    static const uint64_t proof = 4711;
    const int copy =
        process_copy_descriptor(*(const pid_t *)context, STDERR_FILENO, (uintptr_t)&proof, proof);
    const char *const reason = strerror(errno);
    if (copy < 0 && write(output, reason, strlen(reason)) < 0) _exit(1);
}

static bool has_devices(int wanted)
{
    const char *const reason = ask_apart(ask_for_devices, &wanted);
    if (*reason != '\0') say_skipped(reason);
    return *reason == '\0';
}

static bool has_mappings(void)
{
    static char reason[200];
    static bool is_known;
    if (!is_known) snprintf(reason, sizeof reason, "%s", ask_apart(ask_for_mappings, NULL));
    is_known = true;
    if (*reason != '\0') say_skipped(reason);
    return *reason == '\0';
}

/* What messages of memory that is mapped by hand do here: 7, or 0 where processes may not copy
 * descriptors of each other. */
static unsigned direct_by_hand(void)
{
    static char reason[200];
    static bool is_known;
    if (!is_known) {
        const pid_t other = fork();
        if (other == 0) {
            pause();
            _exit(0);
        }
        snprintf(reason, sizeof reason, "%s", ask_apart(ask_for_descriptors, &other));
        kill(other, SIGKILL);
        waitpid(other, NULL, 0);
        is_known = true;
    }
    if (*reason == '\0') return 7;
    printf("processes may not copy descriptors of each other here (pidfd_getfd: %s): memory that "
           "is mapped "
           "by hand goes through the host's memory\n",
           reason);
    fflush(stdout);
    return 0;
}

static bool needs_standin(void)
{
    if (!is_standin) say_skipped("only the stand-in for a driver can be told to do this");
    return is_standin;
}

static void memory_of_one_device_is_read_where_it_lies(void **state)
{
    (void)state;
    run_scenario(2, (struct scenario){.devices = 1, .direct = 7}, 0);
}

static void memory_of_several_devices_is_read_where_it_lies(void **state)
{
    (void)state;
    if (!has_devices(2)) skip();
    run_scenario(3, (struct scenario){.devices = 2, .direct = 7}, 0);
}

static void another_communicator_reads_it_too(void **state)
{
    (void)state;
    run_scenario(2, (struct scenario){.devices = 1, .direct = 7, .derives = true}, 0);
}

static void memory_at_an_address_that_was_freed_is_not_mixed_up(void **state)
{
    (void)state;
    run_scenario(2, (struct scenario){.devices = 1, .direct = 7, .frees = true}, 0);
}

static void memory_that_was_mapped_by_hand_is_read_where_it_lies(void **state)
{
    (void)state;
    if (!has_mappings()) skip();
    run_scenario(2,
                 (struct scenario){
                     .devices = 1, .direct = direct_by_hand(), .by_hand = true, .derives = true},
                 0);
}

static void buffers_go_on_in_the_next_mapping(void **state)
{
    (void)state;
    if (!has_mappings()) skip();
    run_scenario(
        3,
        (struct scenario){.devices = 1, .direct = direct_by_hand(), .in_two = true, .frees = true},
        0);
}

static void memory_of_several_devices_that_was_mapped_by_hand_is_read_where_it_lies(void **state)
{
    (void)state;
    if (!has_devices(2) || !has_mappings()) skip();
    run_scenario(2,
                 (struct scenario){
                     .devices = 2, .direct = direct_by_hand(), .by_hand = true, .derives = true},
                 0);
}

/* Of mappings drivers may say this or that; how each of it is taken is tested in
 * src/gpu/gpu_test.c. */
static void what_a_driver_says_of_mappings_decides_how_they_are_read(void **state)
{
    (void)state;
    if (!needs_standin()) skip();
    for (int manner = MAPPED_NUMBER_OF_MEMORY; manner <= MAPPED_RANGE_OF_RESERVATION; manner++) {
        const bool is_known = manner != MAPPED_NO_NUMBER;
        char text[12];
        snprintf(text, sizeof text, "%d", manner);
        setenv("TUTTI_STANDIN_MAPPED", text, 1);
        run_scenario(2,
                     (struct scenario){.devices = 1,
                                       .direct = is_known ? direct_by_hand() : 0,
                                       .by_hand = true,
                                       .frees = manner % 2 == 1},
                     0);
    }
    unsetenv("TUTTI_STANDIN_MAPPED");
}

static void memory_of_devices_that_are_no_peers_goes_through_the_host(void **state)
{
    (void)state;
    if (!needs_standin()) skip();
    setenv("TUTTI_STANDIN_PEERS", "0", 1);
    run_scenario(2, (struct scenario){.devices = 2}, 0);
    run_scenario(2, (struct scenario){.devices = 2, .by_hand = true}, 0);
    unsetenv("TUTTI_STANDIN_PEERS");
}

static void what_is_mapped_anew_is_not_mixed_up(void **state)
{
    (void)state;
    if (!has_mappings()) skip();
    run_scenario(
        2,
        (struct scenario){.devices = 1, .direct = direct_by_hand(), .by_hand = true, .frees = true},
        0);
}

static void memory_that_may_not_be_exported_goes_through_the_host(void **state)
{
    (void)state;
    if (!has_mappings()) skip();
    run_scenario(2, (struct scenario){.devices = 1, .secret = true}, 0);
}

static void memory_without_a_handle_goes_through_the_host(void **state)
{
    (void)state;
    if (!needs_standin()) skip();
    run_scenario(2, (struct scenario){.devices = 1, .bare = true}, 0);
}

static void a_process_that_opens_no_handle_gets_its_data_through_the_host(void **state)
{
    (void)state;
    if (!needs_standin()) skip();
    run_scenario(2, (struct scenario){.devices = 1, .direct = 2, .fails = true}, 0);
}

static void a_process_without_a_driver_takes_part(void **state)
{
    (void)state;
    struct scenario s = {.devices = 1, .has_no_driver = true};
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .without_comm = true};
    assert_int_equal(tutti_id_create(&s.id), TUTTI_OK);
    assert_int_equal(ranks_run(2, &options, run_without_driver, &s), 0);
}

/* To map memory of another process a driver may wait for all that is on the device, and so for the
 * worker of a rank that waits for the one that maps. */
static void ranks_that_share_a_process_do_not_wait_for_each_other(void **state)
{
    (void)state;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .without_comm = true};
    setenv("TUTTI_STANDIN_QUEUES", "64", 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        if (by_hand && !has_mappings()) break;
        struct scenario s = {.devices = 1, .by_hand = by_hand != 0};
        assert_int_equal(tutti_id_create(&s.id), TUTTI_OK);
        assert_int_equal(ranks_run(PROCESSES, &options, run_members, &s), 0);
    }
    have_one_queue();
}

static void nothing_is_read_directly_where_it_is_not_wished_for(void **state)
{
    (void)state;
    setenv("TUTTI_CMA", "0", 1);
    run_scenario(2, (struct scenario){.devices = 1}, 0);
    unsetenv("TUTTI_CMA");
}

static void who_dies_is_missed_as_ever(void **state)
{
    (void)state;
    met = ranks_share(sizeof *met);
    run_scenario(2, (struct scenario){.devices = 1, .direct = 7, .dies = true}, 1);
}

int main(void)
{
    setenv("TUTTI_CUDA_DRIVER", cuda_standin_file(), 0);
    setenv("TUTTI_STANDIN_WAIT", "1", 0);
    is_standin = strstr(getenv("TUTTI_CUDA_DRIVER"), "standin") != NULL;
    if (!is_standin) setenv("TUTTI_LOG", "info", 0);
    have_one_queue();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_one_device_is_read_where_it_lies),
        cmocka_unit_test(memory_of_several_devices_is_read_where_it_lies),
        cmocka_unit_test(another_communicator_reads_it_too),
        cmocka_unit_test(memory_at_an_address_that_was_freed_is_not_mixed_up),
        cmocka_unit_test(memory_that_was_mapped_by_hand_is_read_where_it_lies),
        cmocka_unit_test(buffers_go_on_in_the_next_mapping),
        cmocka_unit_test(memory_of_several_devices_that_was_mapped_by_hand_is_read_where_it_lies),
        cmocka_unit_test(what_a_driver_says_of_mappings_decides_how_they_are_read),
        cmocka_unit_test(memory_of_devices_that_are_no_peers_goes_through_the_host),
        cmocka_unit_test(what_is_mapped_anew_is_not_mixed_up),
        cmocka_unit_test(memory_that_may_not_be_exported_goes_through_the_host),
        cmocka_unit_test(memory_without_a_handle_goes_through_the_host),
        cmocka_unit_test(a_process_that_opens_no_handle_gets_its_data_through_the_host),
        cmocka_unit_test(a_process_without_a_driver_takes_part),
        cmocka_unit_test(ranks_that_share_a_process_do_not_wait_for_each_other),
        cmocka_unit_test(nothing_is_read_directly_where_it_is_not_wished_for),
        cmocka_unit_test(who_dies_is_missed_as_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
