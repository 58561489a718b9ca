/* The choice of a card by TUTTI_FABRIC: from tables; and, if libfabric is installed, on this host
 * with its providers over sockets. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/chance.h"
#include "tests/kit/sanitized.h"
#include "transport/ofi/choice.h"

static void wishes_are_checked(void **state)
{
    (void)state;
    static const char *const valid[] = {
        "",           "auto",       "off",          "verbs",   "tcp;ofi_rxm",
        "^efa",       "^efa,p",     "verbs:mlx5_0", "tcp:a,b", "tcp:a,b,c,d",
        "tcp:a:1,aa", "tcp:eth0.7", "tcp:eth0:1",   "a",       "^^",
        "autonomous"};
    static const char *const invalid[] = {
        ":",        "^",       "^,",        "^a,",          "^,a",    "^a,,b",
        "tcp:",     ":lo",     "a b",       "tcp: ",        "a,b",    "verbs,efa",
        "auto\n",   "\x7f",    "\xc3\xa4",  "^a b",         "tcp:a,", "tcp:,a",
        "tcp:a,,b", "tcp:a,a", "tcp:a,b,a", "tcp:a,b,c,d,e"};
    for (size_t i = 0; i < sizeof valid / sizeof *valid; i++)
        if (!ofi_wish_is_valid(valid[i])) fail_msg("'%s' is refused", valid[i]);
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
        if (ofi_wish_is_valid(invalid[i])) fail_msg("'%s' is taken", invalid[i]);
    assert_true(ofi_wish_is_valid(NULL));
    char name[OFI_NAME_MAX + 1];
    memset(name, 'x', sizeof name);
    name[OFI_NAME_MAX] = '\0';
    assert_false(ofi_wish_is_valid(name));
    assert_true(ofi_wish_is_valid(name + 1));
}

#define RDM "endpoints"
#define LOCKS "locks"

/* The offers of some hosts. */
static const struct ofi_offer none[] = {{0}};
static const struct ofi_offer plain[] = {
    {"tcp;ofi_rxm", "eth0", NULL, 1, true, 1}, {"tcp;ofi_rxm", "eth1", NULL, 0, true, 1},
    {"tcp;ofi_rxm", "lo", NULL, 1, true, 1},   {"sockets", "eth0", NULL, 2, true, 2},
    {"shm", "shm", LOCKS, 2, true, 4},         {"tcp", "eth0", RDM, 1, true, 3}};
static const struct ofi_offer two_cards[] = {
    {"tcp;ofi_rxm", "eth0", NULL, 0, true, 1},     {"verbs;ofi_rxd", "mlx5_0", NULL, 0, true, 4},
    {"verbs;ofi_rxm", "mlx5_0", NULL, 1, true, 5}, {"verbs;ofi_rxm", "mlx5_1", NULL, 0, true, 5},
    {"verbs;ofi_rxm", "mlx5_2", NULL, 0, true, 5}, {"verbs;ofi_rxm", "mlx5_9", NULL, 0, false, 5},
    {"psm3", "mlx5_1", NULL, 0, true, 6},          {"verbs", "mlx5_1", RDM, 0, true, 7}};
static const struct ofi_offer cloud[] = {{"efa", "rdmap0s31-rdm", NULL, 2, true, 1},
                                         {"efa", "rdmap0s31-dgrm", RDM, 2, true, 1},
                                         {"tcp;ofi_rxm", "eth0", NULL, 0, true, 1}};
static const struct ofi_offer omni_path[] = {{"verbs;ofi_rxm", "hfi1_0", NULL, 0, true, 1},
                                             {"psm2", "hfi1_0", NULL, 1, true, 2}};
static const struct ofi_offer down[] = {{"verbs;ofi_rxm", "mlx5_0", NULL, 0, false, 1},
                                        {"tcp;ofi_rxm", "eth0", NULL, 0, true, 1}};
static const struct ofi_offer lacking[] = {{"cxi", "cxi0", "remote writes (FI_RMA)", 0, true, 1}};

#define HOST(name) #name, name, (int)(sizeof name / sizeof *name)

static const struct row {
    const char *host;
    const struct ofi_offer *offers;
    int count;
    const char *wish;
    int place;          /* -1: none */
    const char *reason; /* a part of it */
} rows[] = {
    {"nothing", none, 0, "auto", -1, "no RDMA card"},
    {"nothing", none, 0, "verbs", -1, "no provider verbs here; there are: none"},
    {HOST(plain), "auto", -1, "no RDMA card"},
    {HOST(plain), NULL, -1, "no RDMA card"},
    {HOST(plain), "", -1, "no RDMA card"},
    {HOST(plain), "off", -1, "=off"},
    {HOST(plain), "tcp;ofi_rxm", 1, "names it"},
    {HOST(plain), "tcp", 1, "names it"}, /* tcp itself lacks something */
    {HOST(plain), "tc", -1, "no provider tc here; there are: tcp;ofi_rxm, sockets"},
    {HOST(plain), "tcp;", -1, "no provider"},
    {HOST(plain), "tcp;ofi_rxm:lo", 2, "names it"},
    {HOST(plain), "tcp:lo", 2, "names it"},
    {HOST(plain), "tcp:l", -1, "no card l; with this provider there are: eth0, eth1, lo"},
    {HOST(plain), "sockets", 3, "names it"},
    {HOST(plain), "shm", -1, "shm lacks locks"},
    {HOST(plain), "efa", -1, "there are: tcp;ofi_rxm, sockets"},
    {HOST(two_cards), "auto", 3, "near these cores"},
    {HOST(two_cards), "^verbs", 6, "near these cores"},
    {HOST(two_cards), "^psm,verbs", -1, "ruled out"},
    {HOST(two_cards), "^efa", 3, "near these cores"},
    {HOST(two_cards), "verbs", 3, "names it"}, /* over rxm, which has connections, before rxd */
    {HOST(two_cards), "verbs;ofi_rxm", 3, "names it"},
    {HOST(two_cards), "verbs;ofi_rxm:mlx5_0", 2, "names it"},
    {HOST(two_cards), "verbs;ofi_rxm:mlx5_9", -1, "the port of mlx5_9 is down"},
    {HOST(two_cards), "verbs:mlx5_3", -1, "no card mlx5_3"},
    {HOST(two_cards), "psm3", 6, "names it"},
    {"one far card", two_cards, 3, "auto", 2, "on another NUMA node"},
    {"one far card", two_cards, 2, "verbs", 1, "names it"},
    {HOST(cloud), "auto", 0, "not known"},
    {HOST(cloud), "^e", -1, "ruled out"},
    {HOST(cloud), "efa:rdmap0s31-dgrm", -1, "efa lacks endpoints"},
    {HOST(omni_path), "auto", 1, "another NUMA node"},
    {HOST(omni_path), "^psm2", 0, "near"},
    {HOST(down), "auto", -1, "the port of mlx5_0 is down"},
    {HOST(lacking), "auto", -1, "cxi lacks remote writes"},
    {HOST(lacking), "cxi", -1, "cxi lacks remote writes"},
    {HOST(plain), "no sense", -1, "="},
};

static void offers_are_chosen_as_the_wish_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *const row = &rows[i];
        struct ofi_places places;
        ofi_choose_offers(row->wish, row->offers, row->count, 1, &places);
        const int place = places.count > 0 ? places.places[0] : -1;
        const char *const reason = places.reason;
        if (place != row->place || places.count > 1 || strstr(reason, row->reason) == NULL)
            fail_msg("%s, %s: %d (%s) instead of %d (%s)", row->host,
                     row->wish != NULL ? row->wish : "unset", place, reason, row->place,
                     row->reason);
    }
}

static const struct ofi_offer four_cards[] = {
    {"verbs;ofi_rxm", "mlx5_0", NULL, 1, true, 5}, {"verbs;ofi_rxm", "mlx5_1", NULL, 1, true, 5},
    {"verbs;ofi_rxm", "mlx5_2", NULL, 0, true, 5}, {"verbs;ofi_rxm", "mlx5_3", NULL, 0, true, 5},
    {"verbs;ofi_rxm", "mlx4_0", NULL, 0, true, 6}, {"verbs;ofi_rxm", "mlx5_9", NULL, 0, false, 5},
    {"tcp;ofi_rxm", "eth0", NULL, 0, true, 1},     {"tcp;ofi_rxm", "lo", NULL, 1, true, 1}};

static const struct cards_row {
    const char *wish;
    unsigned card_max, count, host_card_count;
    int places[OFI_CARDS_MAX];
    const char *reason;
} cards_rows[] = {
    {"auto", 1, 1, 4, {2}, "near these cores"},
    {"auto", 2, 2, 4, {2, 3}, "near these cores"}, /* of one kind, and nearer cards first */
    {"auto", 3, 3, 4, {2, 3, 0}, "near these cores"},
    {"auto", 4, 4, 4, {2, 3, 0, 1}, "near these cores"},
    {"verbs", 2, 2, 4, {2, 3}, "names it"},
    {"tcp", 2, 1, 1, {6}, "names it"}, /* lo leads nowhere */
    {"^verbs", 4, 0, 0, {0}, "ruled out"},
    {"verbs:mlx5_1,mlx5_0", 1, 2, 0, {1, 0}, "names them"},
    {"verbs:mlx5_3", 4, 1, 0, {3}, "names it"},
    {"verbs:mlx5_0,mlx5_1,mlx5_2,mlx5_3", 1, 4, 0, {0, 1, 2, 3}, "names them"},
    {"tcp:eth0,lo", 1, 2, 0, {6, 7}, "names them"},
    {"verbs:mlx5_0,mlx4_0", 1, 0, 0, {0}, "card mlx4_0 is not of the kind of the first one"},
    {"verbs:mlx5_0,mlx5_9", 1, 0, 0, {0}, "the port of mlx5_9 is down"},
    {"verbs:mlx5_0,mlx5_7", 1, 0, 0, {0}, "no card mlx5_7; with this provider there are: mlx5_0"},
    {"verbs:mlx5_7,mlx5_0", 1, 0, 0, {0}, "no card mlx5_7; "},
};

static void several_cards_are_chosen_of_one_kind(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cards_rows / sizeof *cards_rows; i++) {
        const struct cards_row *const row = &cards_rows[i];
        struct ofi_places places;
        ofi_choose_offers(row->wish, four_cards, sizeof four_cards / sizeof *four_cards,
                          row->card_max, &places);
        if (places.count != row->count || places.host_card_count != row->host_card_count ||
            memcmp(places.places, row->places, places.count * sizeof *row->places) != 0 ||
            strstr(places.reason, row->reason) == NULL)
            fail_msg("%s, %u: %u of %u, the first %d (%s)", row->wish, row->card_max, places.count,
                     places.host_card_count, places.places[0], places.reason);
    }
}

/* Ranks of a host share its cards; cards that are named are every rank's. */
static void ranks_of_a_host_share_its_cards(void **state)
{
    (void)state;
    struct ofi_choice choice = {.card_count = 3, .host_card_count = 4};
    choice.cards[0].place = 2;
    choice.cards[1].place = 3;
    choice.cards[2].place = 0;
    static const struct {
        unsigned rank_count, count, numbers[3];
    } shares[] = {{1, 3, {2, 0, 1}}, {2, 2, {0, 1}}, {3, 1, {0}}, {4, 1, {0}}, {5, 1, {0}}};
    unsigned numbers[OFI_CARDS_MAX];
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        assert_int_equal(ofi_card_share(&choice, shares[i].rank_count, numbers), shares[i].count);
        assert_memory_equal(numbers, shares[i].numbers, shares[i].count * sizeof *numbers);
    }
    choice.host_card_count = 0;
    assert_int_equal(ofi_card_share(&choice, 5, numbers), 3);
    for (unsigned c = 0; c < 3; c++) assert_int_equal(numbers[c], c);
}

/* Long names, and many of them, fit into a reason. */
static void reasons_end_in_time(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    char names[COUNT][OFI_NAME_MAX];
    struct ofi_offer offers[COUNT];
    for (int i = 0; i < COUNT; i++) {
        memset(names[i], 'a' + i % 26, OFI_NAME_MAX - 1);
        names[i][OFI_NAME_MAX - 1] = '\0';
        offers[i] = (struct ofi_offer){names[i], names[i], NULL, 0, true, 1};
    }
    static const char *const wishes[] = {"auto", "verbs", "^a"};
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        struct {
            struct ofi_places places;
            char behind[8];
        } text;
        memset(&text, '#', sizeof text);
        ofi_choose_offers(wishes[i], offers, COUNT, 1, &text.places);
        assert_int_equal(text.places.count, 0);
        assert_non_null(memchr(text.places.reason, '\0', sizeof text.places.reason));
        assert_memory_equal(text.behind, "########", sizeof text.behind);
    }
    char wish[2 * OFI_NAME_MAX + 2];
    struct ofi_places places;
    snprintf(wish, sizeof wish, "%s:none", names[0]);
    ofi_choose_offers(wish, offers, COUNT, 1, &places);
    assert_int_equal(places.count, 0);
    struct ofi_choice choice = {.card_count = OFI_CARDS_MAX};
    char all[OFI_REASON_MAX];
    for (int c = 0; c < OFI_CARDS_MAX; c++)
        memcpy(choice.cards[c].domain, names[c], sizeof names[c]);
    ofi_name_cards(&choice, all);
    assert_int_equal(strlen(all), OFI_REASON_MAX - 1);
}

/* Random bytes are refused, or choose something that the wish does not rule out. */
static void random_wishes_do_no_harm(void **state)
{
    (void)state;
    static const char bytes[] = "verbs;ofi_rxm:mlx5_^,,atpcof \n\x01\xff";
    struct chance chance = {.seed = 20261125};
    for (int i = 0; i < 20000; i++) {
        char wish[100];
        const int length = chance_below(&chance, 20);
        for (int k = 0; k < length; k++)
            wish[k] = bytes[chance_below(&chance, (int)sizeof bytes - 1)];
        wish[length] = '\0';
        const int count = (int)(sizeof two_cards / sizeof *two_cards);
        struct ofi_places places;
        ofi_choose_offers(wish, two_cards, count, 1 + (unsigned)chance_below(&chance, 4), &places);
        assert_true(places.count == 0 || ofi_wish_is_valid(wish));
        assert_in_range(places.count, 0, OFI_CARDS_MAX);
        for (unsigned c = 0; c < places.count; c++) {
            assert_in_range(places.places[c], 0, count - 1);
            assert_null(two_cards[places.places[c]].lacks);
            assert_true(two_cards[places.places[c]].is_up);
            for (unsigned b = 0; b < c; b++) assert_true(places.places[b] != places.places[c]);
        }
        assert_non_null(memchr(places.reason, '\0', sizeof places.reason));
    }
}

/* ---------------------------------------------------------------------------------- a fake /sys */

static char sys[] = "/tmp/tutti-choice-XXXXXX";

static void make(const char *path, const char *text)
{
    char command[512];
    snprintf(command, sizeof command, "mkdir -p \"$(dirname %s/%s)\" && printf '%%b' '%s' >%s/%s",
             sys, path, text, sys, path);
    assert_int_equal(system(command), 0);
}

static int make_sys(void **state)
{
    (void)state;
    return mkdtemp(sys) != NULL ? 0 : -1;
}

static int remove_sys(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", sys);
    return system(command);
}

static void hardware_is_looked_for_in_sys(void **state)
{
    (void)state;
    assert_false(ofi_hardware_is_there("/tmp/there is no such folder"));
    assert_false(ofi_hardware_is_there(sys));
    make("class/net/eth0/mtu", "1500");
    assert_false(ofi_hardware_is_there(sys));
    make("class/infiniband/.hidden", "");
    assert_false(ofi_hardware_is_there(sys));
    make("class/cxi/cxi0/x", "");
    assert_true(ofi_hardware_is_there(sys));
}

/* ------------------------------------------------------------------------------------ this host */

static bool has_library(void)
{
    const struct ofi_library *library;
    return ofi_library_load(&library) == TUTTI_OK;
}

static void without_hardware_nothing_is_chosen(void **state)
{
    (void)state;
    struct ofi_choice choice;
    assert_int_equal(ofi_choose_anew(NULL, "/tmp/there is no such folder", &choice), TUTTI_OK);
    assert_null(choice.library);
    assert_int_equal(choice.fingerprint, 0);
    assert_non_null(strstr(choice.reason, "no RDMA card"));
    ofi_choice_release(&choice);
    assert_int_equal(ofi_choose_anew("off", NULL, &choice), TUTTI_OK);
    assert_null(choice.library);
    assert_non_null(strstr(choice.reason, "off"));
    ofi_choice_release(&choice);
}

static void what_is_no_wish_is_an_error(void **state)
{
    (void)state;
    struct ofi_choice choice;
    assert_int_equal(ofi_choose_anew("tcp:", NULL, &choice), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), "TUTTI_FABRIC=tcp:"));
    ofi_choice_release(&choice);
}

/* The message says what is wrong, with which item, and what would do. */
static void a_mistake_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *wish, *mistake;
    } mistakes[] = {{"p:a,b,c,d,e", "5 cards are named, and at most 4 may be"},
                    {"p:a,,b", "the name of card 2 is empty"},
                    {"p:", "the name of card 1 is empty"},
                    {"p:a,b,", "the name of card 3 is empty"},
                    {"p:a,b,a", "card 3, a, is named before"},
                    {"p:a, b", "the name of card 2 has a space"},
                    {":a", "the name of provider 1 is empty"},
                    {"p,q:a", "only one provider may be named"},
                    {"^p,", "the name of provider 2 is empty"}};
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct ofi_choice choice;
        char words[200];
        assert_int_equal(ofi_choose_anew(mistakes[i].wish, NULL, &choice), TUTTI_INVALID_OPTIONS);
        ofi_choice_release(&choice);
        snprintf(words, sizeof words, "TUTTI_FABRIC=%s: auto, off, a provider of ",
                 mistakes[i].wish);
        if (strstr(tutti_error_message(), words) == NULL ||
            strstr(tutti_error_message(), mistakes[i].mistake) == NULL)
            fail_msg("'%s' gives: %s", mistakes[i].wish, tutti_error_message());
    }
}

/* With libfabric or without it. */
static void what_is_named_and_not_there_is_an_error(void **state)
{
    (void)state;
    struct ofi_choice choice;
    assert_int_equal(ofi_choose_anew("nonsense:card", NULL, &choice), TUTTI_UNSUPPORTED);
    assert_non_null(strstr(tutti_error_message(), "TUTTI_FABRIC=nonsense:card: "));
    assert_null(choice.library);
    assert_int_equal(choice.card_count, 0);
    ofi_choice_release(&choice);
}

/* The fake /sys has such a card, but libfabric finds none: TCP is used, and there is no error. */
static void cards_that_libfabric_lacks_are_no_error(void **state)
{
    (void)state;
    if (ofi_hardware_is_there(NULL)) skip();
    struct ofi_choice choice;
    make("class/infiniband/mlx5_0/node_type", "1: CA");
    assert_int_equal(ofi_choose_anew("auto", sys, &choice), TUTTI_OK);
    assert_null(choice.library);
    assert_true(choice.reason[0] != '\0');
    ofi_choice_release(&choice);
}

static void sockets_stand_for_a_card_where_they_are_named(void **state)
{
    (void)state;
    struct ofi_choice first, second;
    if (!has_library()) skip();
    if (ofi_choose_anew("tcp", NULL, &first) != TUTTI_OK) {
        print_message("%s\n", tutti_error_message());
        ofi_choice_release(&first);
        skip();
    }
    assert_non_null(first.library);
    assert_int_equal(first.card_count, 1);
    assert_non_null(first.cards[0].info);
    assert_int_equal(strncmp(first.provider, "tcp", 3), 0);
    assert_true(first.cards[0].domain[0] != '\0');
    assert_true(first.fingerprint != 0);
    /* The same card by its whole name; another provider speaks something else. */
    char wish[2 * OFI_NAME_MAX + 2];
    snprintf(wish, sizeof wish, "%s:%s", first.provider, first.cards[0].domain);
    assert_int_equal(ofi_choose_anew(wish, NULL, &second), TUTTI_OK);
    assert_string_equal(second.provider, first.provider);
    assert_string_equal(second.cards[0].domain, first.cards[0].domain);
    assert_int_equal(second.fingerprint, first.fingerprint);
    ofi_choice_release(&second);
    if (ofi_choose_anew("sockets", NULL, &second) == TUTTI_OK) /* libfabric 2 has it no longer */
        assert_true(second.fingerprint != first.fingerprint);
    ofi_choice_release(&second);
    assert_int_not_equal(ofi_choose_anew("shm", NULL, &second), TUTTI_OK);
    ofi_choice_release(&second);
    ofi_choice_release(&first);
}

/* Tutti chooses the interface that its own TCP would use. */
static void sockets_use_the_interface_that_the_user_names(void **state)
{
    (void)state;
    struct ofi_choice choice;
    if (!has_library()) skip();
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 1);
    const enum tutti_status status = ofi_choose_anew("tcp", NULL, &choice);
    unsetenv("TUTTI_SOCKET_IFNAME");
    if (status == TUTTI_OK) assert_string_equal(choice.cards[0].domain, "lo");
    ofi_choice_release(&choice);
    if (status != TUTTI_OK) skip();
}

/* Loading takes long there. */
static _Atomic bool is_slow, is_loading;

enum tutti_status __real_ofi_library_load(const struct ofi_library **library);
enum tutti_status __wrap_ofi_library_load(const struct ofi_library **library);
enum tutti_status __wrap_ofi_library_load(const struct ofi_library **library)
{
    atomic_store(&is_loading, true);
    while (atomic_load(&is_slow)) sched_yield();
    return __real_ofi_library_load(library);
}

static void *choose_slowly(void *unused)
{
    const struct ofi_choice *choice;
    (void)!ofi_choose(&choice); /* whatever is there */
    return unused;
}

static bool has_given_up(void)
{
    const struct ofi_choice *choice;
    return ofi_choose(&choice) == TUTTI_OK && choice->library == NULL &&
           strstr(choice->reason, "forked while another thread was looking") != NULL;
}

static int fork_while_a_thread_looks(void)
{
    pthread_t thread;
    int fate;
    setenv("TUTTI_FABRIC", "tcp", 1);
    atomic_store(&is_slow, true);
    if (pthread_create(&thread, NULL, choose_slowly, NULL) != 0) return 1;
    while (!atomic_load(&is_loading)) sched_yield();
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(!has_given_up() || !has_given_up()); /* for good */
    }
    const bool is_good = child > 0 && waitpid(child, &fate, 0) == child && fate == 0;
    atomic_store(&is_slow, false);
    pthread_join(thread, NULL);
    return !is_good;
}

/* Libfabric is in the middle of its work there. */
static void a_child_that_is_forked_while_a_thread_looks_has_no_card(void **state)
{
    (void)state;
    int fate;
    if (IS_THREAD_SANITIZED) skip(); /* a child of fork() can start no threads there */
    const pid_t process = fork();
    if (process == 0) {
        alarm(60);
        _exit(fork_while_a_thread_looks());
    }
    assert_int_equal(waitpid(process, &fate, 0), process);
    assert_int_equal(fate, 0);
}

static void a_process_chooses_once(void **state)
{
    (void)state;
    const struct ofi_choice *first, *second;
    setenv("TUTTI_FABRIC", "no sense", 1);
    assert_int_equal(ofi_choose(&first), TUTTI_INVALID_OPTIONS);
    setenv("TUTTI_FABRIC", "off", 1);
    assert_int_equal(ofi_choose(&second), TUTTI_INVALID_OPTIONS);
    unsetenv("TUTTI_FABRIC");
    assert_ptr_equal(first, second);
    assert_null(first->library);
    assert_non_null(strstr(tutti_error_message(), "no sense"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wishes_are_checked),
        cmocka_unit_test(a_child_that_is_forked_while_a_thread_looks_has_no_card),
        cmocka_unit_test(offers_are_chosen_as_the_wish_says),
        cmocka_unit_test(several_cards_are_chosen_of_one_kind),
        cmocka_unit_test(ranks_of_a_host_share_its_cards),
        cmocka_unit_test(reasons_end_in_time),
        cmocka_unit_test(random_wishes_do_no_harm),
        cmocka_unit_test(hardware_is_looked_for_in_sys),
        cmocka_unit_test(without_hardware_nothing_is_chosen),
        cmocka_unit_test(what_is_no_wish_is_an_error),
        cmocka_unit_test(a_mistake_is_named),
        cmocka_unit_test(what_is_named_and_not_there_is_an_error),
        cmocka_unit_test(cards_that_libfabric_lacks_are_no_error),
        cmocka_unit_test(sockets_stand_for_a_card_where_they_are_named),
        cmocka_unit_test(sockets_use_the_interface_that_the_user_names),
        cmocka_unit_test(a_process_chooses_once),
    };
    return cmocka_run_group_tests(tests, make_sys, remove_sys);
}
