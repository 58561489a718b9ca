/* In each pass over its card a rank looks at the peers that it uses, and not at all ranks.
 *
 * ctest: label=nosan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "transport/card/card.h"

/* So many ranks that a table of them has pages that nobody has touched yet: even where pages are of
 * 2 MiB, some 32. */
enum { SIZE = 1 << 23, FAULTS_MAX = 8 };

/* A device on which nothing happens. */
static int looks; /* at the states of peers */

static enum tutti_status make_room(struct card_device *device, unsigned regions)
{
    (void)device, (void)regions;
    return TUTTI_OK;
}

static uint64_t enroll(struct card_device *device, void *address, size_t bytes,
                       enum card_access access)
{
    (void)device, (void)address, (void)bytes, (void)access;
    return 1;
}

static enum tutti_status prepare(struct card_device *device, int peer)
{
    (void)device, (void)peer;
    return TUTTI_OK;
}

static void connect_peer(struct card_device *device, int peer)
{
    (void)device, (void)peer;
}

static enum card_peer_state state(const struct card_device *device, int peer)
{
    (void)device, (void)peer;
    looks++;
    return CARD_PEER_WANTED;
}

static void break_pair(struct card_device *device, int peer)
{
    (void)device, (void)peer;
}

static int caller(const struct card_device *device)
{
    (void)device;
    return -1;
}

static bool post_receive(struct card_device *device, int peer, uint64_t key, void *address,
                         uint64_t id)
{
    (void)device, (void)peer, (void)key, (void)address, (void)id;
    return true;
}

static bool progress(struct card_device *device)
{
    (void)device;
    return false;
}

static bool poll_completion(struct card_device *device, struct card_completion *completion)
{
    (void)device, (void)completion;
    return false;
}

static bool is_busy(const struct card_device *device)
{
    (void)device;
    return false;
}

static void nothing(struct card_device *device)
{
    (void)device;
}

static bool stop(struct card_device *device)
{
    (void)device;
    return true;
}

static const struct card_device_ops ops = {.make_room = make_room,
                                           .enroll = enroll,
                                           .prepare = prepare,
                                           .connect = connect_peer,
                                           .state = state,
                                           .break_pair = break_pair,
                                           .caller = caller,
                                           .post_receive = post_receive,
                                           .progress = progress,
                                           .poll = poll_completion,
                                           .is_busy = is_busy,
                                           .look_again = nothing,
                                           .stop = stop,
                                           .free = nothing};

static long count_faults(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_minflt;
}

/* Memory that a pass reads is there afterwards. So the pages that it needs tell how much of a table
 * it has read. */
static void a_pass_looks_at_peers_that_are_used_and_not_at_all_ranks(void **unused)
{
    (void)unused;
    static const int peers[] = {SIZE - 1, 1, SIZE / 2};
    enum { PEERS = sizeof peers / sizeof *peers };
    struct card_device device = {.ops = &ops, .message_bytes = 4096};
    const struct card_options options = {.size = SIZE};
    struct transport *rank;
    struct link_rx *rx;
    assert_int_equal(card_create(&options, &device, &rank), TUTTI_OK);
    for (int p = 0; p < PEERS; p++)
        assert_int_equal(rank->ops->open_rx(rank, 0, 0, peers[p], &rx), TUTTI_OK);
    looks = 0;
    const long before = count_faults();
    rank->ops->progress(rank);
    rank->ops->flush(rank);
    (void)rank->ops->is_awaited(rank);
    rank->ops->sleep_begin(rank);
    rank->ops->sleep_cancel(rank);
    const long faults = count_faults() - before;
    assert_in_range(looks, PEERS, 3 * PEERS);
    card_close(rank);
    assert_in_range(faults, 0, FAULTS_MAX);
}

static bool breaks(struct transport *rank, int peer, uint64_t sent)
{
    struct link_report report;
    const bool is_told = card_told(rank, peer, sent);
    card_report(rank, peer, &report);
    return !is_told && report.is_broken;
}

/* As many as this rank has posted receives for. */
static void a_peer_that_overstates_what_it_sent_is_at_fault(void **unused)
{
    (void)unused;
    enum { RECEIVES = 8, PEER = 1, STRANGER = 2 };
    struct card_device device = {.ops = &ops, .message_bytes = 4096};
    const struct card_options options = {.size = 3, .receive_count = RECEIVES};
    struct transport *rank;
    struct link_rx *rx;
    struct link_view view;
    assert_int_equal(card_create(&options, &device, &rank), TUTTI_OK);
    assert_int_equal(rank->ops->open_rx(rank, 0, 0, PEER, &rx), TUTTI_OK);
    assert_false(breaks(rank, PEER, RECEIVES));
    assert_true(breaks(rank, PEER, RECEIVES + 1));
    assert_int_equal(rx->ops->peek(rx, &view), LINK_FAULT);
    assert_true(card_told(rank, STRANGER, RECEIVES));
    assert_false(card_told(rank, STRANGER, UINT64_MAX));
    card_close(rank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pass_looks_at_peers_that_are_used_and_not_at_all_ranks),
        cmocka_unit_test(a_peer_that_overstates_what_it_sent_is_at_fault)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
