/* Links over providers of libfabric that run anywhere, and over the same with other characters: what hardware demands, lacks and does. Every
 * byte comes once and in order, no memory stays registered, and what fails is noticed.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "card_game.h"
#include "fabric_shim.h"

static const struct fabric_shim personalities[] = {
    {.name = "as it is"},
    {.name = "local memory is registered", .demands_local = true},
    {.name = "addresses are virtual", .demands_address = true},
    {.name = "keys are the provider's", .makes_keys = true},
    {.name = "memory is bound to an endpoint", .binds_to_endpoint = true},
    {.name = "like verbs", .demands_local = true, .demands_address = true, .makes_keys = true},
    {.name = "like cxi", .makes_keys = true, .binds_to_endpoint = true, .has_no_inject = true},
    {.name = "nothing is injected", .has_no_inject = true},
    {.name = "one part", .has_one_part = true},
    {.name = "messages of 4 KiB", .message_bytes = 4096, .demands_local = true},
    {.name = "late and in any order", .late_permille = 300},
    {.name = "often not now", .again_permille = 300},
    {.name = "little can be registered", .demands_local = true, .registered_max = 60},
    {.name = "all of it",
     .demands_local = true,
     .demands_address = true,
     .makes_keys = true,
     .binds_to_endpoint = true,
     .has_no_inject = true,
     .has_one_part = true,
     .message_bytes = 4096,
     .late_permille = 200,
     .again_permille = 200},
};

enum { PERSONALITIES = sizeof personalities / sizeof *personalities };

static void skip_without(const char *provider)
{
    if (card_world_has_fabric(provider)) return;
    printf("skipped: provider %s of libfabric is not here\n", provider);
    skip();
}

static void play_all(const char *provider, unsigned messages)
{
    skip_without(provider);
    for (unsigned p = 0; p < PERSONALITIES; p++) {
        const struct fabric_shim *shim = &personalities[p];
        fabric_shim_use(shim, p + 1);
        card_game_play((struct card_mood){.fabric = provider, .card = {.offer_bytes = 1}}, messages,
                       p + 1);
        const struct fabric_shim_counts counts = fabric_shim_count();
        assert_int_equal(counts.registered, 0);
        assert_true(counts.late > 0 || shim->late_permille == 0);
        assert_true(counts.again > 0 || shim->again_permille == 0);
        assert_true(counts.refused > 0 || shim->registered_max == 0);
    }
    fabric_shim_use(NULL, 0);
}

static void every_byte_comes_over_tcp_whatever_its_character(void **state)
{
    (void)state;
    play_all("tcp;ofi_rxm", 30);
}

static void every_byte_comes_over_shm_whatever_its_character(void **state)
{
    (void)state;
    skip_without("shm");
    for (unsigned p = 0; p < PERSONALITIES; p += 3) {
        fabric_shim_use(personalities[p].demands_address ? NULL : &personalities[p], p + 1);
        card_game_play((struct card_mood){.fabric = "shm", .card = {.offer_bytes = 1}}, 30, p + 1);
    }
    fabric_shim_use(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_comes_over_tcp_whatever_its_character),
        cmocka_unit_test(every_byte_comes_over_shm_whatever_its_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
