/* The kernel, or a sandbox, has no membarrier(2): publishers fence for themselves; sleepers sleep
 * as long as with it, and are woken as surely.
 *
 * ctest: label=nosan
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "os/futex.h"
#include "tests/worlds/local_world.h"
#include "tests/worlds/ranks.h"
#include "transport/local/local.h"

enum { ROUNDS = 20000, CALLS = 300 };
static const uint64_t SECOND = 1000000000u;

/* For this program and all that it starts. False: that is not allowed here. */
static bool forbid_membarrier(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0 &&
           syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) == -1 && errno == ENOSYS;
}

static struct local_net open_net(void)
{
    return local_net_open(2, (struct host_peer){false, 0, NULL}, NULL, false);
}

static void a_sleep_is_as_long_as_elsewhere(void **state)
{
    (void)state;
    struct local_net net = open_net();
    struct transport *const sleeper = net.ranks[0];
    assert_false(fence_register());
    assert_true(local_publishers_fence(sleeper));
    const uint64_t begin_ns = clock_now_ns();
    sleeper->ops->sleep_begin(sleeper);
    sleeper->ops->sleep(sleeper, SECOND / 20);
    const uint64_t slept_ns = clock_now_ns() - begin_ns;
    const int fd = sleeper->ops->descriptor(sleeper); /* and one can sleep on it besides others */
    local_net_close(&net);
    assert_true(slept_ns >= SECOND / 25);
    assert_true(fd >= 0);
}

/* Each waits for the other's message, asleep as soon as there is none. */
struct player {
    struct transport *transport;
    struct link_tx *tx;
    struct link_rx *rx;
    bool begins;
    unsigned late; /* sleeps that ended without the message that they were for */
};

static void send_one(struct player *player)
{
    void *const place = player->tx->ops->reserve(player->tx, 8);
    if (place == NULL) abort();
    memset(place, 1, 8);
    player->tx->ops->commit(player->tx, 8);
}

static void await_one(struct player *player)
{
    struct link_view view;
    struct transport *const transport = player->transport;
    while (player->rx->ops->peek(player->rx, &view) != LINK_READY) {
        transport->ops->sleep_begin(transport);
        if (player->rx->ops->peek(player->rx, &view) == LINK_READY) {
            transport->ops->sleep_cancel(transport);
            break;
        }
        const uint64_t begin_ns = clock_now_ns();
        transport->ops->sleep(transport, 5 * SECOND);
        player->late += clock_now_ns() - begin_ns >= 4 * SECOND;
    }
    player->rx->ops->consume(player->rx, view.bytes);
}

static void *play(void *context)
{
    struct player *const player = context;
    for (int round = 0; round < ROUNDS && player->late == 0; round++) {
        if (player->begins) send_one(player);
        await_one(player);
        if (!player->begins) send_one(player);
    }
    return NULL;
}

static void no_message_is_slept_through(void **state)
{
    (void)state;
    struct local_net net = open_net();
    struct player players[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        players[i] = (struct player){.transport = net.ranks[i],
                                     .tx = local_net_tx(&net, i, 1 - i),
                                     .rx = local_net_rx(&net, i, 1 - i, false),
                                     .begins = i == 0};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, play, &players[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    local_net_close(&net);
    assert_int_equal(players[0].late + players[1].late, 0);
}

static int call(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    for (int i = 0; i < CALLS; i++) {
        int32_t one = 1;
        if (i % 50 == rank) nanosleep(&(struct timespec){0, 2000000}, NULL); /* the others sleep */
        RANKS_EXPECT(tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
        RANKS_EXPECT(one == size);
    }
    return 0;
}

static void calls_work(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(3, NULL, call, NULL), 0);
}

int main(void)
{
    if (!forbid_membarrier()) {
        print_message("seccomp filters are not allowed here\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sleep_is_as_long_as_elsewhere),
        cmocka_unit_test(no_message_is_slept_through),
        cmocka_unit_test(calls_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
