/* Whole communicators over several cards of each rank, for which two interfaces of this machine
 * stand. Results are right, also where a further card does not open: a rank then says so once, and
 * does without it.
 *
 * ctest: label=nosan label=once timeout=120 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/fabric/fabric_shim.h"
#include "tests/worlds/ranks.h"
#include "transport/ofi/choice.h"

enum { RANKS = 2, COUNT = 1 << 20, CALLS = 5 };

static char card[OFI_NAME_MAX]; /* the one beside loopback */

static int find_card(void **state)
{
    (void)state;
    char wish[OFI_NAME_MAX + 20];
    struct ofi_choice choice;
    if (ofi_choose_anew("tcp;ofi_rxm", NULL, &choice) == TUTTI_OK && choice.card_count > 0)
        snprintf(card, sizeof card, "%s", choice.cards[0].domain);
    ofi_choice_release(&choice);
    if (strcmp(card, "lo") == 0) card[0] = '\0';
    snprintf(wish, sizeof wish, "tcp;ofi_rxm:lo,%s", card);
    setenv("TUTTI_FABRIC", wish, 1);
    setenv("TUTTI_TEST_HOSTS", "2", 1);
    setenv("TUTTI_LOG", "info", 1);
    return 0;
}

static int reduce(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    static int32_t send[COUNT], recv[COUNT];
    for (int call = 0; call < CALLS; call++) {
        for (int i = 0; i < COUNT; i++) send[i] = rank * (i % 1000) + call;
        RANKS_EXPECT(tutti_allreduce(send, recv, COUNT, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
        for (int i = 0; i < COUNT; i++)
            RANKS_EXPECT(recv[i] == size * (size - 1) / 2 * (i % 1000) + size * call);
    }
    return 0;
}

/* Runs the ranks; returns in how many lines they say this. */
static int count_lines(const struct fabric_shim *shim, const char *words)
{
    char line[1024];
    int lines = 0;
    if (card[0] == '\0') {
        print_message("skipped: libfabric's provider tcp;ofi_rxm has no two interfaces here\n");
        skip();
    }
    FILE *const said = tmpfile();
    const int own = dup(STDERR_FILENO);
    assert_non_null(said);
    assert_true(own >= 0 && dup2(fileno(said), STDERR_FILENO) == STDERR_FILENO);
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .deadline_ms = 100000};
    fabric_shim_use(shim, 1); /* the ranks inherit it */
    const int bad = ranks_run(RANKS, &options, reduce, NULL);
    fabric_shim_use(NULL, 0);
    assert_int_equal(dup2(own, STDERR_FILENO), STDERR_FILENO);
    close(own);
    rewind(said);
    while (fgets(line, sizeof line, said) != NULL) {
        lines += strstr(line, words) != NULL;
        if (bad != 0) print_message("%s", line);
    }
    fclose(said);
    assert_int_equal(bad, 0);
    return lines;
}

static void results_are_right_over_two_cards(void **state)
{
    (void)state;
    char words[200];
    snprintf(words, sizeof words, "fabric: tcp;ofi_rxm, cards lo, %s (", card);
    assert_int_equal(count_lines(NULL, words), RANKS);
}

static void a_card_that_does_not_open_is_left_out(void **state)
{
    (void)state;
    static const struct fabric_shim one = {.name = "one device", .devices_max = 1};
    char words[200];
    snprintf(words, sizeof words, "card %s does not open, so data goes over 1 instead of 2 cards (",
             card);
    assert_int_equal(count_lines(&one, words), RANKS);
    assert_int_equal(count_lines(NULL, words), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_right_over_two_cards),
        cmocka_unit_test(a_card_that_does_not_open_is_left_out),
    };
    return cmocka_run_group_tests(tests, find_card, NULL);
}
