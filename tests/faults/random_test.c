/* Faults at random: schedules of faults and operations on real processes, and a judge of what all
 * ranks saw. Without arguments it tests its own parts and some seeds that never change, with
 * TUTTI_LONG many that do; docs/develop/faults.md tells what else it can do.
 *
 * ctest: label=notsan label=once timeout=300 */
#include <getopt.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/faults/fault_campaign.h"
#include "tests/faults/fault_judge.h"
#include "tests/faults/fault_minimise.h"
#include "tests/faults/fault_strike.h"

/* --------------------------------------------------------------------------------- flipped bits */

enum {
    FLIP_BYTES_MIN = 64
}; /* of a part: heads of frames are shorter, and have a check of their own */

static bool is_tcp(int fd)
{
    int domain = 0;
    socklen_t bytes = sizeof domain;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_INET;
}

/* The part in which a bit flips; msg_iovlen: none. */
static size_t part_to_flip(int fd, const struct msghdr *message)
{
    for (size_t i = 0; i < message->msg_iovlen; i++)
        if (message->msg_iov[i].iov_len >= FLIP_BYTES_MIN && is_tcp(fd) && fault_takes_flip())
            return i;
    return message->msg_iovlen;
}

/* Takes the place of the C library's: all that is sent by this program comes here. Of a part with a
 * flipped bit goes a copy, and nothing behind it: who called sends the rest afterwards. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct iovec parts[256];
    char copy[4096];
    struct msghdr changed = *message;
    const size_t flipped = part_to_flip(fd, message);
    if (flipped < message->msg_iovlen && flipped < sizeof parts / sizeof *parts) {
        memcpy(parts, message->msg_iov, (flipped + 1) * sizeof *parts);
        if (parts[flipped].iov_len > sizeof copy) parts[flipped].iov_len = sizeof copy;
        memcpy(copy, parts[flipped].iov_base, parts[flipped].iov_len);
        copy[parts[flipped].iov_len / 2] ^= 4;
        parts[flipped].iov_base = copy;
        changed.msg_iov = parts;
        changed.msg_iovlen = flipped + 1;
    }
    return (ssize_t)syscall(SYS_sendmsg, fd, &changed, flags);
}

/* ------------------------------------------------------------------------------------ schedules */

static void schedules_are_valid_and_can_be_read_back(void **state)
{
    (void)state;
    static const char *const fabrics[] = {"", "tcp;ofi_rxm"};
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct fault_schedule schedule, again;
        char text[FAULT_TEXT_BYTES], text_again[FAULT_TEXT_BYTES];
        int line;
        fault_schedule_init(&schedule, seed, seed % 2 == 0 ? 0 : 8, fabrics[seed / 2 % 2]);
        assert_true(fault_schedule_is_valid(&schedule));
        fault_schedule_print(&schedule, text);
        assert_true(fault_schedule_parse(&again, text, &line));
        fault_schedule_print(&again, text_again);
        assert_string_equal(text, text_again);
    }
}

static void what_is_no_schedule_is_refused_with_its_line(void **state)
{
    (void)state;
#define JOB "seed 1\njob ranks 2 hosts 1 tcp 0 integrity 0\n"
#define BARRIER "operation barrier blocking separate private float32 sum count 0 root 0\n"
    static const struct {
        const char *text;
        int line;
    } cases[] = {
        {"nonsense\n", 1},
        {JOB "operation dance blocking separate private float32 sum count 0 root 0\n", 3},
        {JOB BARRIER "fault kill rank 0 operation 0 never delay 0 detail 0\n", 4},
        {JOB BARRIER "fault kill rank 2 operation 0 before delay 0 detail 0\n", 0},
        {JOB BARRIER "fault kill rank 0 operation 1 before delay 0 detail 0\n", 0},
        {JOB BARRIER "fault reset rank 0 operation 0 before delay 0 detail 0\n", 0},
        {JOB BARRIER "fault kill rank 0 operation 0 before delay 0 detail 0\n"
                     "fault exit rank 1 operation 0 before delay 0 detail 0\n",
         0},
        {JOB "fabric tcp;ofi_rxm\n" BARRIER, 0},
        {JOB, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fault_schedule schedule;
        int line;
        assert_false(fault_schedule_parse(&schedule, cases[i].text, &line));
        assert_int_equal(line, cases[i].line);
    }
}

/* ---------------------------------------------------------------------------------------- judge */

/* Four ranks and three barriers; rank 2 is killed in the second one, and the others go on. */
enum { KILLED = 2, WITH_IT = 1, BEHIND_IT = 2 };

static struct fault_schedule killing;
static struct fault_record *good;

static void write_epoch(int rank, int epoch, int number, int size, enum tutti_status status)
{
    struct fault_history *h = &good->ranks[rank];
    h->epoch_count = epoch + 1;
    h->epochs[epoch] = (struct fault_epoch_history){
        .rank = number,
        .size = size,
        .first_operation = epoch == 0 ? 0 : BEHIND_IT,
        .failed = status != TUTTI_OK,
        .agrees = true,
        .agreed = true,
        .shrinks = status != TUTTI_OK,
        .shrunk = status != TUTTI_OK,
        .agree_status = status,
        .word = fault_word(status != TUTTI_OK, epoch == 0 ? BEHIND_IT : 3),
        .recovery_ns = 1000,
        .agreed_ns = 1500,
        .recovered_ns = 2000,
        .again = status,
        .failure = {.status = status, .culprit = status == TUTTI_OK ? -1 : KILLED}};
}

static void write_call(int rank, int operation, int epoch, enum tutti_status status)
{
    good->ranks[rank].calls[operation] =
        (struct fault_call_history){true, true, false, epoch, status, 500, 900};
}

static int write_good_record(void **state)
{
    (void)state;
    int line;
    static const char text[] = "job ranks 4 hosts 1 tcp 0 integrity 0\n" BARRIER BARRIER BARRIER
                               "fault kill rank 2 operation 1 middle delay 10 detail 0\n";
    good = calloc(1, sizeof *good);
    if (good == NULL || !fault_schedule_parse(&killing, text, &line)) return -1;
    for (int rank = 0; rank < 4; rank++) {
        write_epoch(rank, 0, rank, 4, TUTTI_PROC_FAILED);
        write_call(rank, 0, 0, TUTTI_OK);
        write_call(rank, WITH_IT, 0, TUTTI_PROC_FAILED);
        good->ranks[rank].finished = true;
        good->ranks[rank].frees_ns = 1000000000;
        if (rank == KILLED) continue;
        write_epoch(rank, 1, rank < KILLED ? rank : rank - 1, 3, TUTTI_OK);
        write_call(rank, BEHIND_IT, 1, TUTTI_OK);
    }
    struct fault_history *killed = &good->ranks[KILLED];
    *killed = (struct fault_history){.fate = FAULT_SIGNALLED, .value = SIGKILL, .epoch_count = 1};
    killed->epochs[0].rank = KILLED;
    killed->epochs[0].size = 4;
    write_call(KILLED, 0, 0, TUTTI_OK);
    killed->calls[WITH_IT] = (struct fault_call_history){.called = true, .begin_ns = 500};
    atomic_store(&good->struck_ns[0], 600);
    return 0;
}

static int forget_good_record(void **state)
{
    (void)state;
    free(good);
    return 0;
}

static void what_may_happen_is_not_complained_of(void **state)
{
    (void)state;
    struct fault_verdict verdict;
    fault_judge(&killing, good, &verdict);
    if (verdict.complaint_count != 0) fail_msg("%s", verdict.text);
    assert_int_equal(verdict.detection_count, 3);
    assert_int_equal(verdict.detections[0].took_ns, 300);
}

/* The same over a network card, whose provider keeps what it has of a connection to the dead
 * rank. */
static void descriptors_of_a_provider_are_not_complained_of(void **state)
{
    (void)state;
    struct fault_schedule schedule = killing;
    struct fault_verdict verdict;
    good->ranks[3].after.descriptors++;
    strcpy(schedule.fabric, "tcp;ofi_rxm");
    fault_judge(&schedule, good, &verdict);
    const int over_tcp = verdict.complaint_count;
    schedule.fabric[0] = '\0';
    fault_judge(&schedule, good, &verdict);
    good->ranks[3].after.descriptors--;
    assert_int_equal(over_tcp, 0);
    assert_int_equal(verdict.complaint_count, 1);
}

/* Nobody died: a connection to a rank that revoked the communicator was in the making. */
static void descriptors_of_a_provider_may_stay_where_a_communicator_failed(void **state)
{
    (void)state;
    struct fault_schedule schedule = killing;
    struct fault_verdict verdict;
    struct fault_record *const r = malloc(sizeof *r);
    assert_non_null(r);
    memcpy(r, good, sizeof *r);
    r->ranks[3].after.descriptors++;
    schedule.faults[0].kind = FAULT_REVOKE;
    strcpy(schedule.fabric, "tcp;ofi_rxm");
    fault_judge(&schedule, r, &verdict);
    assert_null(strstr(verdict.text, "descriptors"));
    for (int rank = 0; rank < 4; rank++) r->ranks[rank].epochs[0].failed = false;
    fault_judge(&schedule, r, &verdict);
    assert_non_null(strstr(verdict.text, "descriptors"));
    free(r);
}

/* Each breaks one rule, mostly for rank 3: X(name, what it does to the record r). */
#define BROKEN_RULES(X)                                                                         \
    X(wrong_result, r->ranks[3].calls[0].is_wrong = true)                                       \
    X(wrong_result_of_the_dead, r->ranks[KILLED].calls[0].is_wrong = true)                      \
    X(hang, r->ranks[3].fate = FAULT_HUNG)                                                      \
    X(crash, r->ranks[3].fate = FAULT_SIGNALLED, r->ranks[3].value = SIGSEGV)                   \
    X(early_end, r->ranks[3].finished = false)                                                  \
    X(no_beginning, r->ranks[3].created = TUTTI_SYSTEM)                                         \
    X(wrong_status, r->ranks[3].calls[WITH_IT].status = TUTTI_TIMEOUT)                          \
    X(wrong_culprit_everywhere, on_all(r, TUTTI_PROC_FAILED, 1))                                \
    X(unexplained_status_everywhere, on_all(r, TUTTI_MISMATCH, KILLED))                         \
    X(another_culprit, r->ranks[3].epochs[0].failure.culprit = 0)                               \
    X(nothing_known, r->ranks[3].epochs[0].failure.status = TUTTI_OK)                           \
    X(call_that_works_again, r->ranks[3].epochs[0].again = TUTTI_OK)                            \
    X(another_word, r->ranks[3].epochs[0].word ^= 64)                                           \
    X(no_agreement, r->ranks[3].epochs[0].agree_status = TUTTI_TIMEOUT)                         \
    X(agreement_with_the_dead, r->ranks[0].epochs[0].agree_status =                             \
                                   r->ranks[1].epochs[0].agree_status =                         \
                                       r->ranks[3].epochs[0].agree_status = TUTTI_OK)           \
    X(late_detection, r->ranks[3].calls[WITH_IT].end_ns = UINT64_C(6000000000))                 \
    X(late_recovery, r->ranks[3].epochs[0].recovered_ns = UINT64_C(30000000000))                \
    X(no_shrinking, r->ranks[3].epochs[0].shrink_status = TUTTI_MINORITY)                       \
    X(left_out, r->ranks[3].epoch_count = 1, r->ranks[0].epochs[1].size = 2,                    \
      r->ranks[1].epochs[1].size = 2)                                                           \
    X(another_size, r->ranks[3].epochs[1].size = 4)                                             \
    X(another_order, r->ranks[3].epochs[1].rank = 1, r->ranks[1].epochs[1].rank = 2)            \
    X(number_taken_twice, r->ranks[3].epochs[1].rank = 1)                                       \
    X(dead_member,                                                                              \
      r->ranks[0].epochs[1].size = r->ranks[1].epochs[1].size = r->ranks[3].epochs[1].size = 4, \
      r->ranks[3].epochs[1].rank = 3)                                                           \
    X(operation_left_out, r->ranks[3].calls[BEHIND_IT].returned = false)                        \
    X(descriptor_left, r->ranks[3].after.descriptors++)                                         \
    X(mapping_left, r->ranks[3].after.mappings++)                                               \
    X(thread_left, r->ranks[3].after.threads++)                                                 \
    X(process_left, r->orphans = 1)                                                             \
    X(bad_child, r->ranks[3].child_status = 256)                                                \
    X(fault_that_did_not_strike, atomic_store(&r->struck_ns[0], 0))

static void on_all(struct fault_record *r, enum tutti_status status, int culprit)
{
    for (int rank = 0; rank < 4; rank++) {
        struct fault_epoch_history *epoch = &r->ranks[rank].epochs[0];
        epoch->failure.status = epoch->again = r->ranks[rank].calls[WITH_IT].status = status;
        epoch->failure.culprit = culprit;
    }
}

/* The connections of a rank were reset instead: the others go on without it. */
static void write_reset(struct fault_schedule *schedule, struct fault_record *r)
{
    int line;
    static const char text[] =
        "job ranks 4 hosts 2 tcp 0 integrity 0\nfabric tcp;ofi_rxm\n" BARRIER BARRIER BARRIER
        "fault reset rank 2 operation 1 middle delay 10 detail 0\n";
    assert_true(fault_schedule_parse(schedule, text, &line));
    memcpy(r, good, sizeof *r);
    r->ranks[KILLED] = good->ranks[1];
    struct fault_epoch_history *epoch = &r->ranks[KILLED].epochs[0];
    r->ranks[KILLED].epoch_count = 1;
    epoch->rank = KILLED;
    epoch->agree_status = TUTTI_MINORITY;
    epoch->shrinks = epoch->shrunk = false;
    epoch->failure.culprit = 1;
    epoch->failure.reporter = KILLED;
    memset(&r->ranks[KILLED].calls[BEHIND_IT], 0, sizeof r->ranks[KILLED].calls[BEHIND_IT]);
}

static void fail_to_shrink(struct fault_record *r)
{
    for (int rank = 0; rank < 4; rank++) {
        if (rank == KILLED) continue;
        r->ranks[rank].epoch_count = 1;
        r->ranks[rank].epochs[0].shrink_status = TUTTI_PROC_FAILED;
    }
}

static void who_cannot_reach_the_others_may_be_left_out(void **state)
{
    (void)state;
    struct fault_schedule schedule;
    struct fault_verdict verdict;
    struct fault_record *const r = malloc(sizeof *r);
    assert_non_null(r);
    write_reset(&schedule, r);
    fault_judge(&schedule, r, &verdict);
    if (verdict.complaint_count != 0) fail_msg("%s", verdict.text);
    free(r);
}

/* Rank 2, whose connections were reset, goes on alone, having agreed to at that time; rank 0 exits
 * after its last operation. */
static void write_two_sides(struct fault_schedule *schedule, struct fault_record *r,
                            uint64_t agreed_ns)
{
    write_reset(schedule, r);
    schedule->faults[schedule->fault_count++] =
        (struct fault){.kind = FAULT_EXIT, .rank = 0, .operation = BEHIND_IT, .phase = FAULT_AFTER};
    atomic_store(&r->struck_ns[1], 3000);
    r->ranks[0].finished = false;
    r->ranks[0].frees_ns = 0;
    struct fault_epoch_history *const epochs = r->ranks[KILLED].epochs;
    r->ranks[KILLED].epoch_count = 2;
    epochs[0].shrinks = epochs[0].shrunk = true;
    epochs[0].agree_status = TUTTI_PROC_FAILED;
    epochs[0].shrink_status = TUTTI_OK;
    epochs[0].agreed_ns = agreed_ns;
    epochs[0].recovered_ns = agreed_ns + 100;
    epochs[1] = good->ranks[1].epochs[1];
    epochs[1].rank = 0;
    epochs[1].size = 1;
    r->ranks[KILLED].calls[BEHIND_IT] = good->ranks[1].calls[BEHIND_IT];
}

static void a_rank_that_was_left_out_may_go_on_when_the_others_have_ended(void **state)
{
    (void)state;
    struct fault_schedule schedule;
    struct fault_verdict verdict;
    struct fault_record *const r = malloc(sizeof *r);
    assert_non_null(r);
    write_two_sides(&schedule, r, 4000);
    fault_judge(&schedule, r, &verdict);
    if (verdict.complaint_count != 0) fail_msg("%s", verdict.text);
    write_two_sides(&schedule, r, 2000); /* before rank 0 has ended */
    fault_judge(&schedule, r, &verdict);
    assert_int_not_equal(verdict.complaint_count, 0);
    free(r);
}

/* As above, of that record. */
#define BROKEN_RULES_OF_RESETS(X)                                                       \
    X(two_sides, r->ranks[KILLED].epoch_count = 2, r->ranks[KILLED].epochs[1].size = 1) \
    X(no_end_of_a_cut_way, r->ranks[3].epochs[0].failure.culprit = 1)                   \
    X(unexplained_status, r->ranks[3].epochs[0].failure.status = TUTTI_TIMEOUT,         \
      r->ranks[3].epochs[0].again = r->ranks[3].calls[WITH_IT].status = TUTTI_TIMEOUT)  \
    X(another_word_after_a_reset, r->ranks[3].epochs[0].word ^= 64)                     \
    X(no_end_of_an_agreement, r->ranks[3].epochs[0].agree_status = TUTTI_TIMEOUT)       \
    X(no_end_of_a_shrink, r->ranks[3].epochs[0].shrink_status = TUTTI_INIT_TIMEOUT)     \
    X(no_communicator_after_a_reset, fail_to_shrink(r))                                 \
    X(late_recovery_of_a_reset, r->ranks[3].epochs[0].recovered_ns = UINT64_C(30000000000))

static void each_broken_rule_is_found(void **state)
{
    (void)state;
    struct fault_verdict verdict;
    struct fault_record *const r = malloc(sizeof *r);
    assert_non_null(r);
#define X(name, ...)                    \
    memcpy(r, good, sizeof *r);         \
    __VA_ARGS__;                        \
    fault_judge(&killing, r, &verdict); \
    if (verdict.complaint_count == 0) fail_msg("%s is not found", #name);
    BROKEN_RULES(X)
#undef X
    struct fault_schedule schedule;
#define X(name, ...)                     \
    write_reset(&schedule, r);           \
    __VA_ARGS__;                         \
    fault_judge(&schedule, r, &verdict); \
    if (verdict.complaint_count == 0) fail_msg("%s is not found", #name);
    BROKEN_RULES_OF_RESETS(X)
#undef X
    free(r);
}

/* ------------------------------------------------------------------------------------ minimiser */

/* As if a stop of some rank together with a gather of more than 100 elements before it broke
 * something. */
static bool stops_behind_a_gather(const struct fault_schedule *s, void *runs)
{
    ++*(int *)runs;
    for (int f = 0; f < s->fault_count; f++)
        for (int i = 0; i < s->faults[f].operation; i++)
            if (s->faults[f].kind == FAULT_STOP && s->operations[i].call == COLLECTIVE_GATHER &&
                s->operations[i].count > 100)
                return true;
    return false;
}

static void what_fails_becomes_as_small_as_it_can(void **state)
{
    (void)state;
    int found = 0;
    for (uint64_t seed = 0; found < 20; seed++) {
        struct fault_schedule schedule;
        int runs = 0;
        fault_schedule_init(&schedule, seed, 0, "");
        if (!stops_behind_a_gather(&schedule, &runs)) continue;
        fault_minimise(&schedule, stops_behind_a_gather, &runs);
        found++;
        assert_true(stops_behind_a_gather(&schedule, &runs) && runs < 200);
        assert_int_equal(schedule.fault_count, 1);
        assert_int_equal(schedule.operation_count, 2);
        assert_int_equal(schedule.rank_count, 1);
        assert_true(schedule.operations[0].count < 100 * 16 + 16);
    }
}

/* ---------------------------------------------------------------------------------- real faults */

enum { RUNS_OF_KNOWN_SEEDS = 15, RUNS_OF_FRESH_SEEDS = 100 };

static const struct fault_campaign known = {
    .seed = 1, .runs = RUNS_OF_KNOWN_SEEDS, .program = "tests_faults_random_test"};

static void known_seeds_are_survived(void **state)
{
    (void)state;
    assert_int_equal(fault_campaign_run(&known, stdout), 0);
}

/* Those that found something once. 60094: after an agreement of which no call had failed, whoever
 * freed the communicator waited for one that had left. 328201342517: a rank whose words arrived
 * changed while a communicator was made counted as missing, after the whole start-up deadline. */
static void seeds_that_found_bugs_are_survived(void **state)
{
    (void)state;
    static const uint64_t seeds[] = {60094, UINT64_C(328201342517)};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        struct fault_campaign campaign = known;
        campaign.seed = seeds[i];
        campaign.runs = 1;
        assert_int_equal(fault_campaign_run(&campaign, stdout), 0);
    }
}

static uint64_t fresh_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) exit(EXIT_FAILURE);
    return seed >> 24; /* so that people can write it down */
}

static void fresh_seeds_are_survived(void **state)
{
    (void)state;
    if (getenv("TUTTI_LONG") == NULL) skip();
    struct fault_campaign campaign = known;
    campaign.seed = fresh_seed();
    campaign.runs = RUNS_OF_FRESH_SEEDS;
    assert_int_equal(fault_campaign_run(&campaign, stdout), 0);
}

static int test_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_are_valid_and_can_be_read_back),
        cmocka_unit_test(what_is_no_schedule_is_refused_with_its_line),
        cmocka_unit_test(what_may_happen_is_not_complained_of),
        cmocka_unit_test(descriptors_of_a_provider_are_not_complained_of),
        cmocka_unit_test(descriptors_of_a_provider_may_stay_where_a_communicator_failed),
        cmocka_unit_test(who_cannot_reach_the_others_may_be_left_out),
        cmocka_unit_test(a_rank_that_was_left_out_may_go_on_when_the_others_have_ended),
        cmocka_unit_test(each_broken_rule_is_found),
        cmocka_unit_test(what_fails_becomes_as_small_as_it_can),
        cmocka_unit_test(known_seeds_are_survived),
        cmocka_unit_test(seeds_that_found_bugs_are_survived),
        cmocka_unit_test(fresh_seeds_are_survived),
    };
    return cmocka_run_group_tests(tests, write_good_record, forget_good_record);
}

/* -------------------------------------------------------------------------------------- by hand */

static const char usage[] =
    "usage: tests_faults_random_test [OPTION...]\n"
    "  runs operations on several processes, strikes some of them with faults, and judges what the "
    "others saw;\n"
    "  without options it tests itself and runs a few seeds\n"
    "  --seed S        of the first run; the others follow (one that nobody used before)\n"
    "  --runs N        so many runs at least (1)\n"
    "  --faults N      so many faults at least (0)\n"
    "  --minutes M     so long at least (0)\n"
    "  --ranks R       2 to 8 (each run its own)\n"
    "  --fabric NAME   data goes over network cards, by that provider of libfabric; most faults "
    "are "
    "deaths and lost\n"
    "                  connections\n"
    "  --minimise      makes smaller what fails\n"
    "  --replay FILE   runs the schedule of a file, as it is printed for runs that fail; with "
    "--runs so often\n"
    "  --help          this text\n"
    "exit status: 0 all was as it has to be, 1 something was not, 2 wrong usage\n";

static int replay(const char *path, const struct fault_campaign *campaign)
{
    static char text[FAULT_TEXT_BYTES];
    struct fault_schedule schedule;
    int line;
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        return 2;
    }
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    if (!fault_schedule_parse(&schedule, text, &line)) {
        fprintf(stderr, "%s:%d: no schedule that can be\n", path, line);
        return 2;
    }
    const int failures = fault_try(&schedule, campaign->runs);
    printf("%d of %d runs failed\n", failures, campaign->runs);
    if (failures > 0 && campaign->minimise) fault_explain(&schedule);
    return failures > 0;
}

int main(int argument_count, char **arguments)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},   {"runs", required_argument, NULL, 'n'},
        {"faults", required_argument, NULL, 'f'}, {"minutes", required_argument, NULL, 'm'},
        {"ranks", required_argument, NULL, 'r'},  {"fabric", required_argument, NULL, 'b'},
        {"replay", required_argument, NULL, 'p'}, {"minimise", no_argument, NULL, 'x'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
    };
    if (argument_count == 1) return test_all();
    struct fault_campaign campaign = {.seed = fresh_seed(), .runs = 1, .program = arguments[0]};
    const char *file = NULL;
    for (int option; (option = getopt_long(argument_count, arguments, "", options, NULL)) != -1;) {
        switch (option) {
        case 's': campaign.seed = strtoull(optarg, NULL, 0); break;
        case 'n': campaign.runs = atoi(optarg); break;
        case 'f': campaign.faults = atoi(optarg); break;
        case 'm': campaign.minutes = atof(optarg); break;
        case 'r': campaign.rank_count = atoi(optarg); break;
        case 'b': campaign.fabric = optarg; break;
        case 'p': file = optarg; break;
        case 'x': campaign.minimise = true; break;
        case 'h': fputs(usage, stdout); return 0;
        default: fputs(usage, stderr); return 2;
        }
    }
    const bool ranks_fit = campaign.rank_count == 0 ||
                           (campaign.rank_count >= 2 && campaign.rank_count <= FAULT_RANKS_MAX);
    const bool fabric_fits = campaign.fabric == NULL || strlen(campaign.fabric) < FAULT_FABRIC_BYTES;
    if (optind != argument_count || !ranks_fit || !fabric_fits) {
        fputs(usage, stderr);
        return 2;
    }
    return file != NULL ? replay(file, &campaign) : fault_campaign_run(&campaign, stdout) > 0;
}
