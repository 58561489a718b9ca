/* Messages from and to memory of devices: in every form, of every size, from one kind of memory to
 * another; what was received is in the buffer when the request ends, nothing beside it is written,
 * and nothing at all by what was cancelled, truncated or failed.
 *
 * The driver is what TUTTI_CUDA_DRIVER names: in the suites the stand-in (cuda_standin.h), whose
 * device memory faults when anything but copies touches it, and whose copies fail when a test wants
 * them to.
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/gpu/cuda_standin.h"
#include "tests/gpu/device_driver.h"
#include "tests/worlds/ranks.h"

enum { GUARD_BYTES = 64, GUARD = 0xa7, POISON = 0x5b };
enum { LARGE = 300001 }; /* waits for its receive with its sender */
static const uint64_t SECOND = 1000000000u;

/* ---------------------------------------------------------------------------------------- notes */

/* What did not hold, in which case and after how long: told at once, and all of it once more at the
 * end, because the last lines may be all that is kept of a run on a machine far away. In memory of
 * all ranks. */
enum { NOTES_MAX = 48, NOTE_BYTES = 1000 };
static struct notes {
    _Atomic unsigned count;
    char text[NOTES_MAX][NOTE_BYTES];
} * notes;
static char case_now[96];
static uint64_t case_began_ns;
static _Thread_local char difference[128]; /* that `holds` found last; of this rank's */

static int note(int rank, int line, const char *condition)
{
    const unsigned number = atomic_fetch_add(&notes->count, 1);
    char *const text = notes->text[number % NOTES_MAX];
    snprintf(text, NOTE_BYTES,
             "%s: rank %d: line %d: after %.1f s: does not hold: %.120s (%.160s)%s", case_now, rank,
             line, (double)(clock_now_ns() - case_began_ns) * 1e-9, condition,
             tutti_error_message(), difference);
    fprintf(stderr, "%s\n", text);
    return 1;
}

#undef RANKS_EXPECT
#define RANKS_EXPECT(condition)                                    \
    do {                                                           \
        if (!(condition)) return note(rank, __LINE__, #condition); \
    } while (0)

static void begin_case(const char *name, const char *kind)
{
    snprintf(case_now, sizeof case_now, "%s, %s", name, kind);
    case_began_ns = clock_now_ns();
}

/* -------------------------------------------------------------------------------------- buffers */

static const struct cuda_standin *standin; /* NULL: another driver */
static bool has_driver;
static bool is_standin; /* by the name of the file: known without loading it */

static void open_driver(void)
{
    const char *reason;
    has_driver = device_driver_open(&reason);
    if (!has_driver) fprintf(stderr, "%s\n", reason);
    void *const library = dlopen(getenv("TUTTI_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
    standin = library != NULL ? dlsym(library, "cuda_standin") : NULL;
}

/* Half of the ranks use another device. */
static bool use_device(int rank)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_driver);
    if (has_driver) device_driver_use(rank / 2 % 2 % device_driver_count());
    return has_driver;
}

/* A buffer between guards, poisoned. */
struct buffer {
    unsigned char *memory, *image; /* the image: what the test sees of it */
    size_t bytes;
    bool on_device;
};

static void put(const struct buffer *b)
{
    if (b->on_device)
        device_driver_put(b->memory, b->image, b->bytes + 2 * GUARD_BYTES);
    else
        memcpy(b->memory, b->image, b->bytes + 2 * GUARD_BYTES);
}

static struct buffer make(size_t bytes, bool on_device)
{
    const size_t all = bytes + 2 * GUARD_BYTES;
    struct buffer b = {.bytes = bytes, .on_device = on_device, .image = malloc(all)};
    b.memory = on_device ? device_driver_allocate(all) : malloc(all);
    if (b.memory == NULL || b.image == NULL) abort();
    memset(b.image, GUARD, all);
    memset(b.image + GUARD_BYTES, POISON, bytes);
    put(&b);
    return b;
}

static void unmake(const struct buffer *b)
{
    if (b->on_device)
        device_driver_free(b->memory);
    else
        free(b->memory);
    free(b->image);
}

static void *at(const struct buffer *b)
{
    return b->memory + GUARD_BYTES;
}

static unsigned char pattern(size_t i, int from, int number)
{
    return (unsigned char)(i * 7 + i / 251 + (size_t)(from * 31 + number * 17));
}

static void fill(const struct buffer *b, int from, int number)
{
    for (size_t i = 0; i < b->bytes; i++) b->image[GUARD_BYTES + i] = pattern(i, from, number);
    put(b);
}

static void poison(const struct buffer *b)
{
    memset(b->image + GUARD_BYTES, POISON, b->bytes);
    put(b);
}

/* Whether it begins with so many bytes of a message, and nothing else was written. */
static bool holds(const struct buffer *b, size_t bytes, int from, int number)
{
    const size_t all = b->bytes + 2 * GUARD_BYTES;
    if (b->on_device)
        device_driver_get(b->image, b->memory, all);
    else
        memcpy(b->image, b->memory, all);
    for (size_t i = 0; i < all; i++) {
        const bool is_guard = i < GUARD_BYTES || i >= GUARD_BYTES + b->bytes;
        const size_t place = i - GUARD_BYTES;
        const unsigned char expected = is_guard        ? GUARD
                                       : place < bytes ? pattern(place, from, number)
                                                       : POISON;
        if (b->image[i] == expected) continue;
        snprintf(difference, sizeof difference, "; byte %ld of %zu, %s, is %#x and not %#x",
                 (long)i - GUARD_BYTES, b->bytes,
                 b->on_device ? "on a device" : "in the host's memory", b->image[i], expected);
        return false;
    }
    difference[0] = '\0';
    return true;
}

static bool is_untouched(const struct buffer *b)
{
    return holds(b, 0, 0, 0);
}

static bool error_has(const char *words)
{
    return strstr(tutti_error_message(), words) != NULL;
}

/* ---------------------------------------------------------------------------------------- forms */

enum form { BLOCKING, WITH, STARTED, PREPARED, GROUPED, FORM_COUNT };

struct trade {
    enum form form;
    int next, before; /* where the message goes, where the other one comes from */
    bool is_first;    /* the one rank that sends before it receives */
    bool names_nobody;
    struct buffer send, recv;
    struct tutti_message message;
};

static enum tutti_status send_and_receive(struct trade *t, bool sends, struct tutti_comm *comm)
{
    const int from = t->names_nobody ? TUTTI_ANY_RANK : t->before,
              tag = t->names_nobody ? TUTTI_ANY_TAG : 3;
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.priority = 1;
    if (t->form == WITH)
        return sends ? tutti_send_with(at(&t->send), t->send.bytes, TUTTI_UINT8, t->next, 3,
                                       &options, comm)
                     : tutti_recv_with(at(&t->recv), t->recv.bytes, TUTTI_UINT8, from, tag,
                                       &t->message, &options, comm);
    return sends
               ? tutti_send(at(&t->send), t->send.bytes, TUTTI_UINT8, t->next, 3, comm)
               : tutti_recv(at(&t->recv), t->recv.bytes, TUTTI_UINT8, from, tag, &t->message, comm);
}

/* Blocking ones go around the ring, from the one rank that sends first. */
static int trade_once(struct trade *t, int rank, struct tutti_comm *comm)
{
    const bool groups = t->form == GROUPED, sends_first = groups || t->is_first;
    if (groups) RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
    RANKS_EXPECT(send_and_receive(t, sends_first, comm) == TUTTI_OK);
    RANKS_EXPECT(send_and_receive(t, !sends_first, comm) == TUTTI_OK);
    if (groups) RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
    return 0;
}

static int trade_started(struct trade *t, int rank, struct tutti_comm *comm)
{
    struct tutti_request *send, *recv;
    RANKS_EXPECT(tutti_recv_start(at(&t->recv), t->recv.bytes, TUTTI_UINT8, t->before, 3,
                                  &t->message, NULL, comm, &recv) == TUTTI_OK);
    RANKS_EXPECT(tutti_send_start(at(&t->send), t->send.bytes, TUTTI_UINT8, t->next, 3, NULL, comm,
                                  &send) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&recv) == TUTTI_OK && recv == NULL);
    RANKS_EXPECT(tutti_wait(&send) == TUTTI_OK && send == NULL);
    return 0;
}

/* The message is what lies in the buffer when it is started, each time anew. */
static int trade_prepared(struct trade *t, int rank, struct tutti_comm *comm)
{
    struct tutti_prepared *sends, *receives;
    RANKS_EXPECT(tutti_recv_prepare(at(&t->recv), t->recv.bytes, TUTTI_UINT8, t->before, 3,
                                    &t->message, NULL, comm, &receives) == TUTTI_OK);
    RANKS_EXPECT(tutti_send_prepare(at(&t->send), t->send.bytes, TUTTI_UINT8, t->next, 3, NULL,
                                    comm, &sends) == TUTTI_OK);
    for (int run = 2; run >= 0; run--) { /* the last one is checked by the caller */
        struct tutti_request *send, *recv;
        fill(&t->send, rank, run);
        poison(&t->recv);
        RANKS_EXPECT(tutti_start(receives, &recv) == TUTTI_OK);
        RANKS_EXPECT(tutti_start(sends, &send) == TUTTI_OK);
        RANKS_EXPECT(tutti_wait(&send) == TUTTI_OK && tutti_wait(&recv) == TUTTI_OK);
        RANKS_EXPECT(holds(&t->recv, t->send.bytes, t->before, run));
    }
    RANKS_EXPECT(tutti_prepared_free(receives) == TUTTI_OK);
    RANKS_EXPECT(tutti_prepared_free(sends) == TUTTI_OK);
    return 0;
}

static int all_forms(struct tutti_comm *comm, int rank, int size)
{
    static const size_t sizes[] = {0, 1, 100, 8192, 16385, LARGE};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    for (int number = 0; number < SIZES * FORM_COUNT; number++) {
        const size_t bytes = sizes[number % SIZES];
        /* Of both ends, of neither, of one. */
        const int kinds = number % 5, own = number / SIZES % 2;
        struct trade t = {.form = (enum form)(number / SIZES),
                          .next = (rank + 1) % size,
                          .before = (rank + size - 1) % size,
                          .is_first = rank == 0,
                          .names_nobody = number % 2 == 1,
                          .send = make(bytes, kinds < 2 || kinds == 2 + (rank + own) % 2),
                          .recv = make(bytes + (size_t)(number % 3 * 40),
                                       kinds < 2 || kinds == 3 - (rank + own) % 2),
                          .message = {.size_bytes = sizeof t.message}};
        fill(&t.send, rank, 0);
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        int result;
        switch (t.form) {
        case STARTED: result = trade_started(&t, rank, comm); break;
        case PREPARED: result = trade_prepared(&t, rank, comm); break;
        default: result = trade_once(&t, rank, comm); break;
        }
        if (result != 0) return result;
        RANKS_EXPECT(holds(&t.recv, bytes, t.before, 0));
        RANKS_EXPECT(holds(&t.send, bytes, rank, 0));
        RANKS_EXPECT(t.message.source == t.before && t.message.tag == 3 && t.message.count == bytes);
        unmake(&t.send);
        unmake(&t.recv);
    }
    return 0;
}

static int to_oneself(struct tutti_comm *comm, int rank, int size)
{
    (void)size;
    static const size_t sizes[] = {0, 1, 5000, LARGE};
    for (int number = 0; number < 8; number++) {
        const size_t bytes = sizes[number / 2];
        const struct buffer send = make(bytes, true), recv = make(bytes, number % 2 == 0);
        struct tutti_request *request;
        fill(&send, rank, number);
        RANKS_EXPECT(tutti_recv_start(at(&recv), bytes, TUTTI_UINT8, rank, number, NULL, NULL, comm,
                                      &request) == TUTTI_OK);
        RANKS_EXPECT(tutti_test(&request) == TUTTI_IN_PROGRESS);
        RANKS_EXPECT(tutti_send(at(&send), bytes, TUTTI_UINT8, rank, number, comm) == TUTTI_OK);
        RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK && holds(&recv, bytes, rank, number));
        unmake(&send);
        unmake(&recv);
    }
    return 0;
}

/* A send's buffer is its own from its start on only until it was copied; a receive's is written
 * when its request ends, not before. */
static int many_in_flight(struct tutti_comm *comm, int rank, int size)
{
    enum { COUNT = 48 };
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    struct tutti_request *sends[COUNT], *receives[COUNT];
    struct buffer out[COUNT], in[COUNT];
    for (int i = 0; i < COUNT; i++) {
        const size_t bytes = i % 8 == 7 ? 70000 : (size_t)(i * 37);
        out[i] = make(bytes, i % 3 != 2);
        in[i] = make(bytes, i % 4 != 3);
        fill(&out[i], rank, i);
    }
    for (int i = 0; i < COUNT; i++) {
        RANKS_EXPECT(tutti_recv_start(at(&in[i]), in[i].bytes, TUTTI_UINT8, before, i, NULL, NULL,
                                      comm, &receives[i]) == TUTTI_OK);
        RANKS_EXPECT(tutti_send_start(at(&out[i]), out[i].bytes, TUTTI_UINT8, next, i, NULL, comm,
                                      &sends[i]) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    for (int i = COUNT - 1; i >= 0; i--) {
        enum tutti_status status;
        if (in[i].on_device && in[i].bytes > 0) RANKS_EXPECT(is_untouched(&in[i]));
        if (i % 2 == 0) { /* told by a descriptor */
            struct pollfd told = {.fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN};
            RANKS_EXPECT(tutti_notify(receives[i], told.fd) == TUTTI_OK);
            RANKS_EXPECT(poll(&told, 1, 20000) == 1);
            close(told.fd);
            while ((status = tutti_test(&receives[i])) == TUTTI_IN_PROGRESS) ranks_nap_ms(1);
        } else {
            status = tutti_wait(&receives[i]);
        }
        RANKS_EXPECT(status == TUTTI_OK && receives[i] == NULL);
        RANKS_EXPECT(holds(&in[i], in[i].bytes, before, i));
        RANKS_EXPECT(tutti_wait(&sends[i]) == TUTTI_OK && sends[i] == NULL);
    }
    for (int i = 0; i < COUNT; i++) {
        unmake(&out[i]);
        unmake(&in[i]);
    }
    return 0;
}

/* -------------------------------------------------------------------------------------- endings */

/* Nothing is copied by what was taken back. */
static int cancelled(struct tutti_comm *comm, int rank, int size)
{
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int number = 0; number < 2; number++) {
        const size_t bytes = number == 0 ? 50 : LARGE;
        const struct buffer send = make(bytes, true), recv = make(bytes, true);
        struct tutti_prepared *prepared;
        struct tutti_request *request;
        fill(&send, rank, number);
        RANKS_EXPECT(tutti_recv_start(at(&recv), bytes, TUTTI_UINT8, before, 1, NULL, NULL, comm,
                                      &request) == TUTTI_OK);
        RANKS_EXPECT(tutti_cancel(&request) == TUTTI_OK && request == NULL);
        RANKS_EXPECT(is_untouched(&recv));
        RANKS_EXPECT(tutti_recv_prepare(at(&recv), bytes, TUTTI_UINT8, before, 1, NULL, NULL, comm,
                                        &prepared) == TUTTI_OK);
        RANKS_EXPECT(tutti_start(prepared, &request) == TUTTI_OK);
        RANKS_EXPECT(tutti_cancel(&request) == TUTTI_OK && is_untouched(&recv));
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        RANKS_EXPECT(tutti_start(prepared, &request) == TUTTI_OK);
        RANKS_EXPECT(tutti_send(at(&send), bytes, TUTTI_UINT8, next, 1, comm) == TUTTI_OK);
        RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK && holds(&recv, bytes, before, number));
        /* It has held a message before: now it gets none. */
        poison(&recv);
        RANKS_EXPECT(tutti_start(prepared, &request) == TUTTI_OK);
        RANKS_EXPECT(tutti_cancel(&request) == TUTTI_OK && is_untouched(&recv));
        RANKS_EXPECT(tutti_prepared_free(prepared) == TUTTI_OK);
        unmake(&send);
        unmake(&recv);
    }
    return 0;
}

static int truncated(struct tutti_comm *comm, int rank, int size)
{
    static const size_t sizes[] = {10, LARGE};
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int number = 0; number < 4; number++) {
        const size_t bytes = sizes[number % 2];
        const bool other_dtype = number >= 2;
        const struct buffer send = make(bytes, true), recv = make(bytes, true);
        struct tutti_message message = {.size_bytes = sizeof message};
        struct tutti_request *request;
        fill(&send, rank, number);
        RANKS_EXPECT(tutti_send_start(at(&send), bytes, TUTTI_UINT8, next, 1, NULL, comm,
                                      &request) == TUTTI_OK);
        RANKS_EXPECT(tutti_recv(at(&recv), other_dtype ? bytes : bytes - 1,
                                other_dtype ? TUTTI_INT8 : TUTTI_UINT8, before, 1, &message,
                                comm) == TUTTI_TRUNCATED);
        RANKS_EXPECT(error_has("elements of uint8 with tag 1"));
        RANKS_EXPECT(message.source == before && message.count == 0 && is_untouched(&recv));
        RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
        unmake(&send);
        unmake(&recv);
    }
    return tutti_barrier(comm) != TUTTI_OK; /* the communicator lives on */
}

/* A copy that the device refuses ends that request and nothing else. */
static int a_copy_fails(struct tutti_comm *comm, int rank, int size)
{
    (void)size;
    enum { UNKNOWN_ERROR = 999, BYTES = 20000 };
    if (standin == NULL) return 0;
    const struct buffer ours = make(BYTES, rank == 0);
    struct tutti_request *request;
    struct tutti_prepared *prepared;
    fill(&ours, rank, 1);
    /* In brackets, for cmocka has a macro of that name. */
    if (rank == 0) { /* what was to be sent is not; the next one is */
        (standin->fail)("cuMemcpyAsync", UNKNOWN_ERROR, 0, 3);
        RANKS_EXPECT(tutti_send(at(&ours), BYTES, TUTTI_UINT8, 1, 1, comm) == TUTTI_SYSTEM);
        RANKS_EXPECT(
            error_has("tutti_send: 20000 bytes could not be copied from memory of a device"));
        RANKS_EXPECT(tutti_send_start(at(&ours), BYTES, TUTTI_UINT8, 1, 1, NULL, comm, &request) ==
                         TUTTI_SYSTEM &&
                     request == NULL);
        RANKS_EXPECT(tutti_send_prepare(at(&ours), BYTES, TUTTI_UINT8, 1, 1, NULL, comm,
                                        &prepared) == TUTTI_OK);
        RANKS_EXPECT(tutti_start(prepared, &request) == TUTTI_SYSTEM && request == NULL);
        RANKS_EXPECT(tutti_start(prepared, &request) == TUTTI_OK && tutti_wait(&request) == TUTTI_OK);
        RANKS_EXPECT(tutti_prepared_free(prepared) == TUTTI_OK);
    } else if (rank == 1) {
        poison(&ours);
        RANKS_EXPECT(tutti_recv(at(&ours), BYTES, TUTTI_UINT8, 0, 1, NULL, comm) == TUTTI_OK);
        RANKS_EXPECT(holds(&ours, BYTES, 0, 1));
        fill(&ours, rank, 2);
    }
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    for (int turn = 0; turn < 2; turn++) {
        if (rank == 1)
            RANKS_EXPECT(tutti_send(at(&ours), BYTES, TUTTI_UINT8, 0, turn, comm) == TUTTI_OK);
        if (rank != 0) continue;
        poison(&ours);
        if (turn == 0) (standin->fail)("cuMemcpyAsync", UNKNOWN_ERROR, 0, 1);
        const enum tutti_status status =
            tutti_recv(at(&ours), BYTES, TUTTI_UINT8, 1, turn, NULL, comm);
        RANKS_EXPECT(status == (turn == 0 ? TUTTI_SYSTEM : TUTTI_OK));
        RANKS_EXPECT(turn > 0 || error_has("could not be copied to memory of a device"));
        RANKS_EXPECT(turn == 0 || holds(&ours, BYTES, 1, 2));
    }
    unmake(&ours);
    return tutti_barrier(comm) != TUTTI_OK;
}

/* Work in the only hardware queue waits, and the copy behind it: neither end waits for longer than
 * a deadline, and later copies go on. */
static int a_copy_is_late(struct tutti_comm *comm, int rank, int size)
{
    (void)size;
    enum { BYTES = 20000 };
    if (standin == NULL) return 0;
    const struct buffer ours = make(BYTES, rank == 0);
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    struct tutti_comm *other;
    options.timeout_ns = SECOND / 2;
    fill(&ours, rank, 1);
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &other) == TUTTI_OK);
    if (rank == 0) {
        void *const stream = device_driver_stream(), *const pinned = device_driver_pinned(BYTES);
        struct tutti_prepared *prepared; /* to use the device for the first time may wait, too */
        RANKS_EXPECT(tutti_send_prepare(at(&ours), BYTES, TUTTI_UINT8, 1, 1, NULL, comm,
                                        &prepared) == TUTTI_OK);
        RANKS_EXPECT(tutti_prepared_free(prepared) == TUTTI_OK);
        standin->hold(stream, true);
        device_driver_get_later(pinned, at(&ours), BYTES, stream);
        RANKS_EXPECT(tutti_send_with(at(&ours), BYTES, TUTTI_UINT8, 1, 1, &options, other) ==
                     TUTTI_TIMEOUT);
        RANKS_EXPECT(error_has("rank 0 still waits for its GPU to copy; deadline of 0.5 s"));
        standin->hold(stream, false);
        device_driver_finish(stream);
        RANKS_EXPECT(tutti_send(at(&ours), BYTES, TUTTI_UINT8, 1, 1, comm) == TUTTI_OK);
        device_driver_free_pinned(pinned);
        device_driver_free_stream(stream);
    } else {
        RANKS_EXPECT(tutti_recv(at(&ours), BYTES, TUTTI_UINT8, 0, 1, NULL, other) == TUTTI_TIMEOUT);
        RANKS_EXPECT(error_has("send(count 20000, uint8, to rank 1, tag 1): rank 0 still waits"));
        RANKS_EXPECT(tutti_recv(at(&ours), BYTES, TUTTI_UINT8, 0, 1, NULL, comm) == TUTTI_OK);
        RANKS_EXPECT(holds(&ours, BYTES, 0, 1));
    }
    unmake(&ours);
    return tutti_comm_free(other) != TUTTI_OK;
}

static int refused(struct tutti_comm *comm, int rank, int size)
{
    (void)size;
    const struct buffer b = make(8, true);
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.on_stream = 1;
    RANKS_EXPECT(tutti_send_with(at(&b), 8, TUTTI_UINT8, rank, 0, &options, comm) ==
                 TUTTI_UNSUPPORTED);
    RANKS_EXPECT(error_has("messages are in no stream's order"));
    RANKS_EXPECT(tutti_recv_with(at(&b), 8, TUTTI_UINT8, rank, 0, NULL, &options, comm) ==
                 TUTTI_UNSUPPORTED);
    unmake(&b);
    if (standin == NULL) return 0;
    struct cuda_test_library cuda;
    uint64_t managed;
    cuda_test_load(getenv("TUTTI_CUDA_DRIVER"), &cuda);
    RANKS_EXPECT(cuda.allocate_managed(&managed, 8, 1) == CUDA_OK);
    RANKS_EXPECT(tutti_send((void *)(uintptr_t)managed, 8, TUTTI_UINT8, rank, 0, comm) ==
                 TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(error_has("managed memory") && cuda.driver.release(managed) == CUDA_OK);
    return 0;
}

/* Requests that outlive their communicator still give what they have received. */
static int outlived(struct tutti_comm *comm, int rank, int size)
{
    (void)size;
    enum { RECEIVES = 3 };
    struct tutti_comm *other;
    struct tutti_request *requests[RECEIVES];
    struct tutti_prepared *prepared, *never;
    struct buffer in[RECEIVES];
    const struct buffer out = make(3000, true);
    fill(&out, rank, 7);
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &other) == TUTTI_OK);
    for (int i = 0; i < RECEIVES; i++) in[i] = make(3000, true);
    RANKS_EXPECT(tutti_recv_start(at(&in[0]), 3000, TUTTI_UINT8, rank, 0, NULL, NULL, other,
                                  &requests[0]) == TUTTI_OK);
    RANKS_EXPECT(tutti_recv_prepare(at(&in[1]), 3000, TUTTI_UINT8, rank, 1, NULL, NULL, other,
                                    &prepared) == TUTTI_OK);
    RANKS_EXPECT(tutti_start(prepared, &requests[1]) == TUTTI_OK);
    RANKS_EXPECT(tutti_recv_start(at(&in[2]), 2999, TUTTI_UINT8, rank, 2, NULL, NULL, other,
                                  &requests[2]) == TUTTI_OK);
    RANKS_EXPECT(tutti_send_prepare(at(&out), 3000, TUTTI_UINT8, rank, 5, NULL, other, &never) ==
                 TUTTI_OK);
    for (int i = 0; i < RECEIVES; i++)
        RANKS_EXPECT(tutti_send(at(&out), 3000, TUTTI_UINT8, rank, i, other) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(other) == TUTTI_OK);
    for (int i = 0; i < 2; i++) {
        RANKS_EXPECT(is_untouched(&in[i]));
        RANKS_EXPECT(tutti_wait(&requests[i]) == TUTTI_OK && holds(&in[i], 3000, rank, 7));
    }
    RANKS_EXPECT(tutti_test(&requests[2]) == TUTTI_TRUNCATED && is_untouched(&in[2]));
    RANKS_EXPECT(tutti_prepared_free(prepared) == TUTTI_OK);
    RANKS_EXPECT(tutti_prepared_free(never) == TUTTI_OK);
    for (int i = 0; i < RECEIVES; i++) unmake(&in[i]);
    unmake(&out);
    return 0;
}

/* What this rank has started, one of each, when something ends it all. */
struct pending {
    struct buffer out, in;
    struct tutti_request *send, *recv, *again;
    struct tutti_prepared *prepared;
};

static int start_pending(struct pending *p, int rank, int peer, struct tutti_comm *comm)
{
    *p = (struct pending){.out = make(LARGE, true), .in = make(LARGE, true)};
    RANKS_EXPECT(tutti_send_start(at(&p->out), LARGE, TUTTI_UINT8, peer, 1, NULL, comm, &p->send) ==
                 TUTTI_OK);
    RANKS_EXPECT(tutti_recv_start(at(&p->in), LARGE, TUTTI_UINT8, peer, 2, NULL, NULL, comm,
                                  &p->recv) == TUTTI_OK);
    RANKS_EXPECT(tutti_recv_prepare(at(&p->in), LARGE, TUTTI_UINT8, peer, 3, NULL, NULL, comm,
                                    &p->prepared) == TUTTI_OK);
    RANKS_EXPECT(tutti_start(p->prepared, &p->again) == TUTTI_OK);
    return 0;
}

static int end_pending(struct pending *p, int rank, enum tutti_status status)
{
    RANKS_EXPECT(tutti_wait(&p->recv) == status && tutti_wait(&p->send) == status);
    RANKS_EXPECT(tutti_wait(&p->again) == status && is_untouched(&p->in));
    RANKS_EXPECT(tutti_prepared_free(p->prepared) == TUTTI_OK);
    unmake(&p->in);
    unmake(&p->out);
    return 0;
}

static int aborted(struct tutti_comm *comm, int rank, int size)
{
    struct tutti_comm *other;
    struct pending pending;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &other) == TUTTI_OK);
    if (start_pending(&pending, rank, (rank + 1) % size, other) != 0) return 1;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == size - 1) RANKS_EXPECT(tutti_comm_abort(other, "a test") == TUTTI_OK);
    if (end_pending(&pending, rank, TUTTI_ABORTED) != 0) return 1;
    return tutti_comm_free(other) != TUTTI_OK;
}

static int sender_dies(struct tutti_comm *comm, int rank, int size)
{
    struct pending pending;
    const int victim = size - 1;
    int32_t word = 1;
    if (rank == victim) { /* when all others have begun */
        for (int peer = 0; peer < victim; peer++)
            RANKS_EXPECT(tutti_recv(&word, 1, TUTTI_INT32, peer, 9, NULL, comm) == TUTTI_OK);
        kill(getpid(), SIGKILL);
    }
    if (start_pending(&pending, rank, victim, comm) != 0) return 1;
    RANKS_EXPECT(tutti_send(&word, 1, TUTTI_INT32, victim, 9, comm) == TUTTI_OK);
    return end_pending(&pending, rank, TUTTI_PROC_FAILED);
}

/* The child has what its parent had, but no device, and moves nothing. */
static int live_on_in_child(struct tutti_comm *comm, int rank, struct pending *pending,
                            struct tutti_request *arrived)
{
    RANKS_EXPECT(tutti_wait(&pending->recv) == TUTTI_INVALID_COMM);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&pending->recv) == TUTTI_INVALID_COMM && pending->recv == NULL);
    RANKS_EXPECT(tutti_wait(&pending->send) == TUTTI_INVALID_COMM);
    RANKS_EXPECT(tutti_wait(&pending->again) == TUTTI_INVALID_COMM);
    RANKS_EXPECT(tutti_prepared_free(pending->prepared) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&arrived) == TUTTI_SYSTEM && error_has("forked"));
    return 0;
}

static int forked(struct tutti_comm *comm, int rank, int size)
{
    (void)size;
    struct pending pending;
    struct tutti_request *arrived;
    const struct buffer in = make(100, true), out = make(100, true);
    const struct buffer word = make(LARGE, false);
    fill(&out, rank, 1);
    /* One has arrived, and the others wait for rank 0 itself. */
    RANKS_EXPECT(tutti_recv_start(at(&in), 100, TUTTI_UINT8, rank, 9, NULL, NULL, comm, &arrived) ==
                 TUTTI_OK);
    RANKS_EXPECT(tutti_send(at(&out), 100, TUTTI_UINT8, rank, 9, comm) == TUTTI_OK);
    if (start_pending(&pending, rank, rank, comm) != 0) return 1;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(live_on_in_child(comm, rank, &pending, arrived));
    }
    int status = -1;
    RANKS_EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    /* The parent goes on. */
    RANKS_EXPECT(tutti_wait(&arrived) == TUTTI_OK && holds(&in, 100, rank, 1));
    RANKS_EXPECT(tutti_recv(at(&word), LARGE, TUTTI_UINT8, rank, 1, NULL, comm) == TUTTI_OK);
    for (int tag = 2; tag <= 3; tag++)
        RANKS_EXPECT(tutti_send(at(&word), LARGE, TUTTI_UINT8, rank, tag, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&pending.send) == TUTTI_OK && tutti_wait(&pending.recv) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&pending.again) == TUTTI_OK);
    RANKS_EXPECT(tutti_prepared_free(pending.prepared) == TUTTI_OK);
    const struct buffer *const all[] = {&pending.in, &pending.out, &in, &out, &word};
    for (int i = 0; i < 5; i++) unmake(all[i]);
    return 0;
}

/* -------------------------------------------------------------------------------------- company */

struct talker {
    struct tutti_comm *comm;
    int rank, size, number, result;
};

static int talk(const struct talker *talker)
{
    const int rank = talker->rank, next = (rank + 1) % talker->size,
              before = (rank + talker->size - 1) % talker->size, tag = talker->number;
    use_device(rank);
    for (int round = 0; round < 8; round++) {
        const size_t bytes = round % 3 == 2 ? 40000 : (size_t)(1 + round * 37);
        const struct buffer out = make(bytes, true), in = make(bytes, true);
        struct tutti_request *send;
        fill(&out, rank, tag + round);
        RANKS_EXPECT(tutti_send_start(at(&out), bytes, TUTTI_UINT8, next, tag, NULL, talker->comm,
                                      &send) == TUTTI_OK);
        RANKS_EXPECT(tutti_recv(at(&in), bytes, TUTTI_UINT8, before, tag, NULL, talker->comm) ==
                     TUTTI_OK);
        RANKS_EXPECT(tutti_wait(&send) == TUTTI_OK && holds(&in, bytes, before, tag + round));
        unmake(&out);
        unmake(&in);
    }
    return 0;
}

static void *be_talker(void *argument)
{
    struct talker *const talker = argument;
    talker->result = talk(talker);
    return NULL;
}

static int threads_talk(struct tutti_comm *comm, int rank, int size)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    struct talker talkers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        talkers[i] = (struct talker){comm, rank, size, i, 1};
        RANKS_EXPECT(pthread_create(&threads[i], NULL, be_talker, &talkers[i]) == 0);
    }
    int result = 0;
    for (int i = 0; i < THREADS; i++) {
        RANKS_EXPECT(pthread_join(threads[i], NULL) == 0);
        result |= talkers[i].result;
    }
    return result;
}

/* A collective's worker runs on the device, and ends only after the message: a copy does not wait
 * for it. */
static int beside_a_collective(struct tutti_comm *comm, int rank, int size)
{
    enum { COUNT = 20000, BYTES = COUNT * 4 };
    const struct buffer sums = make(BYTES, true), message = make(BYTES, true);
    struct tutti_request *request;
    const int32_t zero[COUNT] = {0};
    device_driver_put(at(&sums), zero, BYTES);
    fill(&message, 0, 4);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank > 0) {
        poison(&message);
        RANKS_EXPECT(tutti_recv(at(&message), BYTES, TUTTI_UINT8, 0, 1, NULL, comm) == TUTTI_OK);
        RANKS_EXPECT(holds(&message, BYTES, 0, 4));
    }
    RANKS_EXPECT(tutti_allreduce_start(at(&sums), at(&sums), COUNT, TUTTI_INT32, TUTTI_SUM, NULL,
                                       comm, &request) == TUTTI_OK);
    for (int peer = 1; peer < size && rank == 0; peer++)
        RANKS_EXPECT(tutti_send(at(&message), BYTES, TUTTI_UINT8, peer, 1, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK); /* no worker is left, and memory may be freed */
    unmake(&sums);
    unmake(&message);
    return 0;
}

/* ---------------------------------------------------------------------------------------- cases */

typedef int case_function(struct tutti_comm *comm, int rank, int size);

struct test_case {
    const char *name; /* what holds */
    case_function *run;
    int size;
    bool only_processes;
    bool last_dies;
};

static const struct test_case cases[] = {
    {"all_forms_carry_memory_of_devices", all_forms, 2, false, false},
    {"all_forms_go_around_a_ring_of_two_devices", all_forms, 3, false, false},
    {"a_rank_sends_to_itself", to_oneself, 2, false, false},
    {"a_rank_alone_sends_to_itself", to_oneself, 1, false, false},
    {"a_buffer_is_written_when_its_request_ends", many_in_flight, 2, false, false},
    {"a_receive_that_was_taken_back_writes_nothing", cancelled, 2, false, false},
    {"a_message_that_does_not_fit_writes_nothing", truncated, 2, false, false},
    {"a_copy_that_fails_ends_its_request_alone", a_copy_fails, 2, false, false},
    {"a_copy_that_is_late_ends_at_the_deadline", a_copy_is_late, 2, true, false},
    {"streams_and_managed_memory_are_refused", refused, 1, false, false},
    {"requests_outlive_their_communicator", outlived, 1, false, false},
    {"an_abort_ends_messages", aborted, 2, false, false},
    {"threads_talk_at_once", threads_talk, 2, false, false},
    {"a_copy_does_not_wait_for_a_collective", beside_a_collective, 2, false, false},
    {"a_senders_death_ends_messages", sender_dies, 3, true, true},
    {"a_child_of_fork_gives_all_back", forked, 1, true, false},
};
enum { CASES = sizeof cases / sizeof *cases };

static int run_case(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const struct test_case *const test_case = context;
    RANKS_EXPECT(use_device(rank));
    return test_case->run(comm, rank, size);
}

static void run(const struct test_case *test_case, enum ranks_kind kind)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    /* A device takes seconds until a process has it, and several processes take turns on it. */
    comm_options.timeout_ns = (is_standin ? 20 : 60) * SECOND;
    const struct ranks_options options = {
        .kind = kind, .deadline_ms = is_standin ? 40000 : 150000, .comm_options = &comm_options};
    begin_case(test_case->name, kind == RANKS_THREADS ? "threads" : "processes");
    const unsigned noted = atomic_load(&notes->count);
    const int failed = ranks_run(test_case->size, &options, run_case, (void *)(uintptr_t)test_case);
    if (failed != (test_case->last_dies ? 1 : 0) && atomic_load(&notes->count) == noted)
        note(-1, __LINE__, "some rank ended otherwise, or not at all");
    assert_int_equal(failed, test_case->last_dies ? 1 : 0);
}

/* Each process has hidden queues of its own, and one is enough. */
static void in_processes(void **state)
{
    const struct test_case *const test_case = *state;
    if (ranks_are_threads()) skip();
    setenv("TUTTI_STANDIN_QUEUES", "1", 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
    run(test_case, RANKS_PROCESSES);
}

/* After all cases with processes: a child of who has used a driver cannot use it. */
static void in_threads(void **state)
{
    const struct test_case *const test_case = *state;
    if (test_case->only_processes) skip();
    setenv("TUTTI_STANDIN_QUEUES", "64", 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    run(test_case, RANKS_THREADS);
}

int main(void)
{
    setenv("TUTTI_CUDA_DRIVER", cuda_standin_file(), 0);
    setenv("TUTTI_STANDIN_WAIT", "1", 0);
    is_standin = strstr(getenv("TUTTI_CUDA_DRIVER"), "standin") != NULL;
    struct CMUnitTest tests[2 * CASES];
    for (int i = 0; i < 2 * CASES; i++)
        tests[i] = (struct CMUnitTest){.name = cases[i % CASES].name,
                                       .test_func = i < CASES ? in_processes : in_threads,
                                       .initial_state = (void *)(uintptr_t)&cases[i % CASES]};
    notes = ranks_share(sizeof *notes);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    const unsigned count = atomic_load(&notes->count);
    if (count > 0)
        fprintf(stderr, "\n%u did not hold, with %s:\n", count, getenv("TUTTI_CUDA_DRIVER"));
    for (unsigned i = 0; i < count && i < NOTES_MAX; i++) fprintf(stderr, "%s\n", notes->text[i]);
    return failed;
}
