/* ctest: label=once waits */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "bootstrap/rendezvous.h"
#include "os/clock.h"
#include "os/local_socket.h"
#include "os/process.h"
#include "tests/kit/cases.h"
#include "tests/kit/kept_log.h"

enum { RANKS_MAX = 150 };

struct participant {
    struct rendezvous_options options;
    struct rendezvous_result result;
    enum tutti_status status;
    char message[512];
    pthread_t thread;
    long delay_ms;
};

/* An inode tells whether two descriptors are of the same object. */
static ino_t inode_of(int fd)
{
    struct stat stat;
    assert_int_equal(fstat(fd, &stat), 0);
    return stat.st_ino;
}

static struct rendezvous_key fresh_key(void)
{
    struct rendezvous_key key;
    assert_int_equal(getrandom(&key, sizeof key, 0), sizeof key);
    return key;
}

static void *meet(void *argument)
{
    struct participant *participant = argument;
    nanosleep(&(struct timespec){0, participant->delay_ms * 1000000}, NULL);
    participant->status = rendezvous_meet(&participant->options, &participant->result);
    if (participant->status != TUTTI_OK)
        strncpy(participant->message, tutti_error_message(), sizeof participant->message - 1);
    return NULL;
}

/* Ranks in pairs pretend to be one process. */
static void prepare(struct participant *participants, int count, int size, uint64_t timeout_ns)
{
    const struct rendezvous_key key = fresh_key();
    const uint64_t deadline = clock_now_ns() + timeout_ns;
    for (int r = 0; r < count; r++) {
        participants[r] =
            (struct participant){.options = {.key = key,
                                             .rank = r,
                                             .size = size,
                                             .deadline_ns = deadline,
                                             .self = {.process_key = 1000 - (uint64_t)r / 2,
                                                      .heap_inode = 5 + (uint64_t)r,
                                                      .heap_bytes = 4096 * (1 + (uint64_t)r),
                                                      .heap_fd = 70 + r},
                                             .segment_fd = -1}};
    }
    participants[0].options.segment_fd = memfd_create("segment", MFD_CLOEXEC);
    assert_true(participants[0].options.segment_fd >= 0);
}

static void run(struct participant *participants, int count)
{
    for (int r = 0; r < count; r++)
        assert_int_equal(pthread_create(&participants[r].thread, NULL, meet, &participants[r]), 0);
    for (int r = 0; r < count; r++) pthread_join(participants[r].thread, NULL);
}

static void release(struct participant *participants, int count)
{
    for (int r = 0; r < count; r++)
        if (participants[r].status == TUTTI_OK) rendezvous_result_release(&participants[r].result);
    close(participants[0].options.segment_fd);
}

static int descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) count += fcntl(fd, F_GETFD) != -1;
    return count;
}

static bool is_same(const struct rendezvous_key *a, const struct rendezvous_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static void expect_result(const struct participant *participants, int rank, int size)
{
    const struct rendezvous_result *result = &participants[rank].result;
    if (participants[rank].status != TUTTI_OK)
        fail_msg("rank %d: %s", rank, participants[rank].message);
    assert_true(is_same(&result->identity, &participants[0].result.identity));
    assert_false(is_same(&result->identity, &participants[0].options.key));
    for (int r = 0; r < size; r++) {
        const struct rendezvous_member *member = &result->members[r];
        assert_int_equal(member->rank, r);
        assert_int_equal(member->first, r / 2 * 2);
        assert_int_equal(member->pid, getpid());
        assert_int_equal(member->pid_namespace, process_pid_namespace());
        assert_int_equal(member->process_key, 1000 - r / 2);
        assert_int_equal(member->heap_inode, 5 + r);
        assert_int_equal(member->heap_bytes, 4096 * (1 + r));
        assert_int_equal(member->heap_fd, 70 + r);
    }
    /* A hello, the reports of the subtrees, and the answers, a few packets each. */
    unsigned rounds = 0;
    while (1 << rounds < size) rounds++;
    assert_in_range(result->message_count, 1, 6 * (rounds + 1));
    if (rank == 0)
        assert_int_equal(result->segment_fd, -1);
    else
        assert_int_equal(inode_of(result->segment_fd), inode_of(participants[0].options.segment_fd));
}

static void all_ranks_get_everything(void **state)
{
    (void)state;
    static const int sizes[] = {2, 3, 8, RANKS_MAX};
    const int before = descriptors();
    struct participant *participants = calloc(RANKS_MAX, sizeof *participants);
    assert_non_null(participants);
    for (int i = 0; i < 4; i++) {
        prepare(participants, sizes[i], sizes[i], 10000000000u);
        participants[0].delay_ms = i == 1 ? 50 : 0; /* rank 0 may be late */
        run(participants, sizes[i]);
        for (int r = 0; r < sizes[i]; r += r < 8 ? 1 : 29) expect_result(participants, r, sizes[i]);
        for (int r = 0; r < sizes[i]; r++) assert_int_equal(participants[r].status, TUTTI_OK);
        release(participants, sizes[i]);
        assert_int_equal(descriptors(), before);
    }
    free(participants);
}

static void missing_ranks_are_listed_to_everybody(void **state)
{
    (void)state;
    const int before = descriptors();
    struct participant participants[4];
    prepare(participants, 3, 60, 300000000);
    run(participants, 3);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(participants[r].status, TUTTI_INIT_TIMEOUT);
        assert_non_null(strstr(participants[r].message, "57 of 60 ranks are missing: 3 4 5"));
        assert_non_null(strstr(participants[r].message, "..."));
        assert_null(participants[r].result.members);
        assert_int_equal(participants[r].result.segment_fd, -1);
    }
    release(participants, 3);
    assert_int_equal(descriptors(), before);
}

/* 13 and 15 would meet at 12 and 14, these at 8, and all of those are missing. */
static void who_misses_its_parent_is_not_missing_itself(void **state)
{
    (void)state;
    enum { SIZE = 16 };
    static const int present[] = {0, 1, 13, 15};
    const int before = descriptors();
    struct participant participants[SIZE];
    prepare(participants, SIZE, SIZE, 800000000);
    for (int i = 0; i < 4; i++)
        assert_int_equal(
            pthread_create(&participants[present[i]].thread, NULL, meet, &participants[present[i]]),
            0);
    for (int i = 0; i < 4; i++) {
        const struct participant *participant = &participants[present[i]];
        pthread_join(participant->thread, NULL);
        assert_int_equal(participant->status, TUTTI_INIT_TIMEOUT);
        if (strstr(participant->message,
                   "12 of 16 ranks are missing: 2 3 4 5 6 7 8 9 10 11 12 14") == NULL)
            fail_msg("rank %d: %s", present[i], participant->message);
    }
    for (int r = 0; r < SIZE; r++) participants[r].status = TUTTI_INIT_TIMEOUT;
    release(participants, SIZE);
    assert_int_equal(descriptors(), before);
}

static enum tutti_status gives_up(void *unused)
{
    (void)unused;
    return error_set(TUTTI_ABORTED, "rank 6 gives up");
}

/* With rank 7 missing. */
static void who_gives_up_in_the_middle_is_heard_by_all(void **state)
{
    (void)state;
    struct participant participants[8];
    prepare(participants, 7, 8, 20000000000u);
    participants[6].options.look = gives_up;
    participants[6].delay_ms = 300; /* the others are there by then */
    const uint64_t begin_ns = clock_now_ns();
    run(participants, 7);
    assert_true(clock_now_ns() - begin_ns < 10000000000u);
    for (int r = 0; r < 7; r++) {
        assert_int_equal(participants[r].status, TUTTI_ABORTED);
        assert_string_equal(participants[r].message, "rank 6 gives up");
    }
    release(participants, 7);
}

static enum tutti_status lacks_memory(void *unused)
{
    (void)unused;
    return error_set(TUTTI_NO_MEMORY, "out of memory");
}

/* The users know the ranks of this host by other numbers: 11, 12, ... */
static void a_rank_that_fails_alone_is_named_as_users_call_it(void **state)
{
    (void)state;
    static const int names[] = {11, 12, 13, 14};
    char who[160];
    struct participant participants[4];
    prepare(participants, 4, 5, 20000000000u);
    for (int r = 0; r < 4; r++) participants[r].options.names = names;
    participants[2].options.look = lacks_memory;
    participants[2].delay_ms = 100; /* the others are there by then */
    run(participants, 4);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(participants[r].status, TUTTI_NO_MEMORY);
        assert_non_null(strstr(participants[r].message, "out of memory"));
        snprintf(who, sizeof who, "pid %d) could not join", (int)getpid());
        const bool is_named = strncmp(participants[r].message, "rank 13 (host ", 14) == 0 &&
                              strstr(participants[r].message, who) != NULL;
        if (is_named != (r != 2)) fail_msg("rank %d: %s", r, participants[r].message);
    }
    release(participants, 4);
}

static void without_rank_0_that_is_said(void **state)
{
    (void)state;
    struct participant participants[2];
    prepare(participants, 2, 2, 200000000);
    meet(&participants[1]);
    assert_int_equal(participants[1].status, TUTTI_INIT_TIMEOUT);
    assert_non_null(strstr(participants[1].message, "rank 0 is missing"));
    release(participants, 2);
}

static void who_thinks_of_another_size_is_refused(void **state)
{
    (void)state;
    struct participant participants[4];
    prepare(participants, 4, 3, 5000000000u);
    participants[3].options.rank = 2;
    participants[3].options.size = 4;
    participants[2].delay_ms = 150; /* the meeting must still be open when the other one comes */
    run(participants, 4);
    for (int r = 0; r < 3; r++) assert_int_equal(participants[r].status, TUTTI_OK);
    assert_int_equal(participants[3].status, TUTTI_INVALID_RANK);
    assert_non_null(strstr(participants[3].message, "3 ranks"));
    assert_non_null(strstr(participants[3].message, "rank 2 of 4"));
    release(participants, 4);
}

static void of_many_that_are_refused_one_line_tells(void **state)
{
    (void)state;
    enum { REFUSED = 8 };
    struct participant participants[3 + REFUSED];
    struct kept_log log;
    prepare(participants, 3 + REFUSED, 3, 5000000000u);
    for (int r = 3; r < 3 + REFUSED; r++) {
        participants[r].options.rank = 2;
        participants[r].options.size = 4;
    }
    participants[2].delay_ms = 150; /* the meeting must still be open when the others come */
    kept_log_begin(&log);
    run(participants, 3 + REFUSED);
    const unsigned lines = kept_log_end(&log, "start-up: ", "as rank 2 of 4");
    for (int r = 0; r < 3; r++) assert_int_equal(participants[r].status, TUTTI_OK);
    for (int r = 3; r < 3 + REFUSED; r++)
        assert_int_equal(participants[r].status, TUTTI_INVALID_RANK);
    assert_int_equal(lines, 1);
    release(participants, 3 + REFUSED);
}

static void who_has_another_key_does_not_disturb(void **state)
{
    (void)state;
    struct participant participants[4];
    prepare(participants, 4, 3, 700000000);
    participants[3].options.rank = 1;
    participants[3].options.key.bytes[20] ^= 1; /* the name of the socket is the same */
    participants[2].delay_ms = 150;
    run(participants, 4);
    for (int r = 0; r < 3; r++) assert_int_equal(participants[r].status, TUTTI_OK);
    assert_int_equal(participants[3].status, TUTTI_PROC_FAILED);
    release(participants, 4);
}

static void two_ranks_0_cannot_meet_in_one_place(void **state)
{
    (void)state;
    struct participant participants[3];
    prepare(participants, 3, 3, 400000000);
    participants[1].options.rank = 0;
    participants[1].options.segment_fd = participants[0].options.segment_fd;
    participants[1].delay_ms = 100;
    run(participants, 3);
    assert_int_equal(participants[1].status, TUTTI_INVALID_RANK);
    assert_non_null(strstr(participants[1].message, "two ranks 0"));
    assert_int_equal(participants[0].status, TUTTI_INIT_TIMEOUT);
    release(participants, 3);
}

/* A descriptor that came with a message of the wrong size is closed and forgotten. To close it once
 * more would hit another descriptor that has its number by then. */
/* Each meeting gives its result an identity that does not follow from the key. */
static void each_meeting_has_an_identity_of_its_own(void **state)
{
    (void)state;
    struct participant participants[2];
    struct rendezvous_key first;
    prepare(participants, 2, 2, 5000000000u);
    for (int turn = 0; turn < 2; turn++) {
        run(participants, 2);
        for (int r = 0; r < 2; r++) expect_result(participants, r, 2);
        if (turn == 0) {
            first = participants[0].result.identity;
            for (int r = 0; r < 2; r++) rendezvous_result_release(&participants[r].result);
        }
    }
    assert_false(is_same(&first, &participants[0].result.identity));
    release(participants, 2);
}

static enum tutti_status nobody_comes(void *looks)
{
    if (++*(int *)looks < 3) return TUTTI_OK;
    return error_set(TUTTI_ABORTED, "nobody comes");
}

/* With rank 2 missing: rank 0 is told, and tells rank 1. With rank 0 missing: the participant is
 * told. */
static void a_look_ends_a_meeting_early(void **state)
{
    (void)state;
    const int before = descriptors();
    for (int without_host = 0; without_host < 2; without_host++) {
        struct participant participants[2];
        int looks = 0;
        prepare(participants, 2, 3, 20000000000u);
        struct participant *const asks = &participants[without_host];
        asks->options.look = nobody_comes;
        asks->options.look_context = &looks;
        const uint64_t begin_ns = clock_now_ns();
        run(participants + without_host, 2 - without_host);
        assert_true(clock_now_ns() - begin_ns < 10000000000u);
        assert_int_equal(looks, 3);
        for (int r = without_host; r < 2; r++) {
            assert_int_equal(participants[r].status, TUTTI_ABORTED);
            assert_string_equal(participants[r].message, "nobody comes");
        }
        if (without_host) participants[0].status = TUTTI_ABORTED;
        release(participants, 2);
    }
    assert_int_equal(descriptors(), before);
}

/* -------------------------------------------------------------------------- others on this host */

/* A crowd for which 64 places, each for 2 s, are too few: its wait at rank 0 would last longer than
 * the meeting. */
enum { CROWD_RANKS = 8, CROWD = 1600, NOBODY = 65534, DECOYS = 300 };
enum mischief {
    LISTENS,       /* has the names of all ranks */
    HAS_NAMES,     /* the same, without listening: nobody can tell whose they are */
    ADDS_DECOYS,   /* has them, and listens under many names like those that ranks look for then */
    IS_OTHER_TYPE, /* has them, for sockets of another type */
    CROWDS         /* comes in numbers, says nothing, and comes again */
};

/* As the ranks derive it. */
static socklen_t address_of(const struct rendezvous_key *key, int rank, const char *end,
                            struct sockaddr_un *address)
{
    char digits[33];
    for (int i = 0; i < 16; i++) snprintf(digits + 2 * i, 3, "%02x", key->bytes[i]);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int bytes = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "tutti-%s-%d%s",
                               digits, rank, end);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)bytes);
}

static void take_name(const struct rendezvous_key *key, int rank, const char *end, int type,
                      bool listens)
{
    struct sockaddr_un address;
    const socklen_t bytes = address_of(key, rank, end, &address);
    const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, bytes) != 0) _exit(3);
    if (listens && listen(fd, 1) != 0) _exit(4);
}

static void take_names(enum mischief mischief, const struct rendezvous_key *key)
{
    for (int r = 0; r < CROWD_RANKS; r++) {
        const int type = mischief == IS_OTHER_TYPE ? SOCK_STREAM : SOCK_SEQPACKET;
        take_name(key, r, "", type, mischief != HAS_NAMES);
        for (int i = 0; mischief == ADDS_DECOYS && i < DECOYS / CROWD_RANKS; i++) {
            char end[32];
            snprintf(end, sizeof end, "-%016x", (unsigned)i);
            take_name(key, r, end, SOCK_SEQPACKET, i % 2 == 0);
        }
    }
}

/* Each connection stays until it is closed over there, and is made again at once. */
static void crowd(const struct rendezvous_key *key)
{
    int fds[CROWD];
    for (int i = 0; i < CROWD; i++) fds[i] = -1;
    for (;;) {
        for (int i = 0; i < CROWD; i++) {
            struct sockaddr_un address;
            char byte;
            const socklen_t bytes = address_of(key, i % 2 * 4, "", &address); /* ranks 0 and 4 */
            if (fds[i] >= 0 && recv(fds[i], &byte, 1, MSG_DONTWAIT) == 0) {
                close(fds[i]);
                fds[i] = -1;
            }
            if (fds[i] < 0) fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
            if (fds[i] >= 0) (void)!connect(fds[i], (const struct sockaddr *)&address, bytes);
        }
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
}

/* A process of that user which does it, and goes on until it is killed. */
static pid_t start_mischief(enum mischief mischief, uid_t uid, const struct rendezvous_key *key)
{
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit room;
        if (getrlimit(RLIMIT_NOFILE, &room) != 0) _exit(6);
        room.rlim_cur = room.rlim_max < 2 * CROWD ? room.rlim_max : 2 * CROWD;
        if (setrlimit(RLIMIT_NOFILE, &room) != 0) _exit(7);
        if (setresuid(uid, uid, uid) != 0) _exit(2);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* another user would undo it */
        if (mischief != CROWDS) take_names(mischief, key);
        if (write(ends[1], "", 1) != 1) _exit(5);
        if (mischief == CROWDS) crowd(key);
        for (;;) pause();
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    return pid;
}

static void end_mischief(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void meet_in_spite_of(enum mischief mischief, uid_t uid)
{
    const int before = descriptors();
    struct participant participants[CROWD_RANKS];
    prepare(participants, CROWD_RANKS, CROWD_RANKS, 20000000000u);
    participants[CROWD_RANKS - 1].delay_ms = 700; /* there is time for trouble */
    participants[2].delay_ms = participants[5].delay_ms = 300;
    const pid_t pid = start_mischief(mischief, uid, &participants[0].options.key);
    const uint64_t begin_ns = clock_now_ns();
    run(participants, CROWD_RANKS);
    print_message("mischief %d of user %d: %.1f s\n", (int)mischief, (int)uid,
                  (double)(clock_now_ns() - begin_ns) * 1e-9);
    end_mischief(pid);
    for (int r = 0; r < CROWD_RANKS; r++) {
        if (participants[r].status != TUTTI_OK) fail_msg("rank %d: %s", r, participants[r].message);
        if (mischief != CROWDS) expect_result(participants, r, CROWD_RANKS);
    }
    release(participants, CROWD_RANKS);
    assert_int_equal(descriptors(), before);
}

static void need_root(void)
{
    if (geteuid() == 0) return;
    print_message("skipped: only root can start processes of another user\n");
    skip();
}

static void names_that_another_user_has_taken_are_passed_by(void **state)
{
    (void)state;
    need_root();
    for (int mischief = LISTENS; mischief < CROWDS; mischief++)
        meet_in_spite_of((enum mischief)mischief, NOBODY);
}

static void a_silent_crowd_of_another_user_does_not_get_in(void **state)
{
    (void)state;
    need_root();
    meet_in_spite_of(CROWDS, NOBODY);
}

static void a_silent_crowd_of_the_same_user_makes_room(void **state)
{
    (void)state;
    meet_in_spite_of(CROWDS, geteuid());
}

static void a_refused_message_leaves_no_descriptor(void **state)
{
    (void)state;
    int ends[2], received = -1, count = -1;
    char large[64] = {0}, small[16];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    const int before = descriptors();
    assert_int_equal(local_socket_send(ends[0], large, sizeof large, &ends[0], 1, 0), TUTTI_OK);
    assert_int_equal(local_socket_receive(ends[1], small, sizeof small, &received, 1, &count, 0),
                     TUTTI_AUTH_FAILED);
    assert_int_equal(count, 0);
    assert_int_equal(received, -1);
    assert_int_equal(descriptors(), before);
    close(ends[0]);
    close(ends[1]);
}

static void a_descriptor_that_has_no_place_is_missed_as_one(void **state)
{
    (void)state;
    int ends[2], received = -1, count = -1;
    char data[16] = {0};
    struct rlimit before;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(local_socket_send(ends[0], data, sizeof data, &ends[0], 1, 0), TUTTI_OK);
    const int first_free = dup(0);
    close(first_free);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {(rlim_t)first_free, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const enum tutti_status status =
        local_socket_receive(ends[1], data, sizeof data, &received, 1, &count, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, TUTTI_NO_DESCRIPTORS);
    assert_non_null(strstr(tutti_error_message(), "no descriptor is left"));
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_get_everything),
        cmocka_unit_test(missing_ranks_are_listed_to_everybody),
        cmocka_unit_test(who_misses_its_parent_is_not_missing_itself),
        cmocka_unit_test(who_gives_up_in_the_middle_is_heard_by_all),
        cmocka_unit_test(a_rank_that_fails_alone_is_named_as_users_call_it),
        cmocka_unit_test(without_rank_0_that_is_said),
        cmocka_unit_test(who_thinks_of_another_size_is_refused),
        cmocka_unit_test(of_many_that_are_refused_one_line_tells),
        cmocka_unit_test(who_has_another_key_does_not_disturb),
        cmocka_unit_test(two_ranks_0_cannot_meet_in_one_place),
        cmocka_unit_test(each_meeting_has_an_identity_of_its_own),
        cmocka_unit_test(a_look_ends_a_meeting_early),
        cmocka_unit_test(names_that_another_user_has_taken_are_passed_by),
        cmocka_unit_test(a_silent_crowd_of_another_user_does_not_get_in),
        cmocka_unit_test(a_silent_crowd_of_the_same_user_makes_room),
        cmocka_unit_test(a_refused_message_leaves_no_descriptor),
        cmocka_unit_test(a_descriptor_that_has_no_place_is_missed_as_one),
    };
    return CASES_RUN_AT_ONCE(tests, 4);
}
