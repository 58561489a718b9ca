#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "health/choices.h"

static const char ring[] = "ring", tree[] = "tree", reason[] = "because";

static struct choice_note note_of(uint64_t count)
{
    return (struct choice_note){.collective = COLLECTIVE_ALLREDUCE,
                                .dtype = TUTTI_FLOAT32,
                                .count = count,
                                .bytes = 4 * count,
                                .signature = count,
                                .algorithm = ring,
                                .reason = reason,
                                .expected_ps = 3 * count,
                                .next = {.algorithm = tree, .expected_ps = 5 * count}};
}

static struct record call_of(uint64_t count)
{
    return (struct record){.count = count,
                           .signature = 7,
                           .kind = COLLECTIVE_ALLREDUCE,
                           .dtype = TUTTI_FLOAT32,
                           .algorithm = ring};
}

static void what_was_chosen_is_read(void **state)
{
    (void)state;
    struct choices choices = {.latest = 0};
    struct choice_note note = note_of(5), read;
    assert_false(choices_read(&choices, 1, &read));
    assert_int_equal(choices_latest(&choices), 0);
    note.unused[1] = (struct choice_rival){.algorithm = "file:x", .why = "is wrong"};
    choices_note(&choices, &note);
    assert_int_equal(choices_latest(&choices), 1);
    assert_false(choices_read(&choices, 0, &read));
    assert_false(choices_read(&choices, 2, &read));
    assert_true(choices_read(&choices, 1, &read));
    assert_int_equal(read.count, 5);
    assert_int_equal(read.expected_ps, 15);
    assert_ptr_equal(read.next.algorithm, tree);
    assert_string_equal(read.unused[1].why, "is wrong");
    assert_null(read.unused[0].algorithm);
    choices_release(&choices);
    choices_release(&choices);
}

static void what_is_there_is_not_kept_twice(void **state)
{
    (void)state;
    struct choices choices = {.latest = 0};
    struct choice_note note = note_of(5);
    choices_note(&choices, &note);
    note.signature = 99; /* another root, say */
    choices_note(&choices, &note);
    assert_int_equal(choices_latest(&choices), 1);
    note.is_mapped = true;
    choices_note(&choices, &note);
    assert_int_equal(choices_latest(&choices), 2);
    note.varies = true;
    choices_note(&choices, &note);
    note.signature = 100; /* other counts */
    choices_note(&choices, &note);
    assert_int_equal(choices_latest(&choices), 4);
    choices_release(&choices);
}

static void the_last_ones_are_kept(void **state)
{
    (void)state;
    enum { ALL = 3 * CHOICES_KEPT + 5 };
    struct choices choices = {.latest = 0};
    struct choice_note read;
    for (uint64_t count = 1; count <= ALL; count++) {
        const struct choice_note note = note_of(count);
        choices_note(&choices, &note);
    }
    const uint64_t first = choices_first(&choices, ALL);
    assert_int_equal(choices_latest(&choices), ALL);
    assert_int_equal(ALL - first + 1, CHOICES_KEPT);
    for (uint64_t number = first; number <= ALL; number++) {
        assert_true(choices_read(&choices, number, &read));
        assert_int_equal(read.count, number);
    }
    assert_false(choices_read(&choices, first - 1, &read));
    choices_restart(&choices);
    const struct record call = call_of(ALL);
    assert_int_equal(choices_find(&choices, &call, &read), 0);
    assert_true(choices_first(&choices, choices_latest(&choices)) > choices_latest(&choices));
    const struct choice_note note = note_of(ALL);
    choices_note(&choices, &note);
    assert_int_equal(choices_find(&choices, &call, &read), ALL + 1);
    assert_int_equal(choices_first(&choices, ALL + 1), ALL + 1);
    choices_release(&choices);
}

static void plans_that_cannot_be_chosen_are_kept(void **state)
{
    (void)state;
    struct choices choices = {.latest = 0};
    assert_null(choices_unused(&choices, 0));
    assert_int_equal(choices_unused_left_out(&choices), 0);
    for (int i = 0; i < UNUSED_PLANS_MAX + 3; i++)
        choices_note_unused(&choices, COLLECTIVE_REDUCE, ring, i == 1 ? "it is for others" : "-");
    assert_string_equal(choices_unused(&choices, 1)->why, "it is for others");
    assert_int_equal(choices_unused(&choices, 1)->collective, COLLECTIVE_REDUCE);
    assert_non_null(choices_unused(&choices, UNUSED_PLANS_MAX - 1));
    assert_null(choices_unused(&choices, UNUSED_PLANS_MAX));
    assert_int_equal(choices_unused_left_out(&choices), 3);
    choices_release(&choices);
    assert_null(choices_unused(&choices, 0));
    assert_int_equal(choices_unused_left_out(&choices), 0);
}

static void a_call_finds_its_choice(void **state)
{
    (void)state;
    struct choices choices = {.latest = 0};
    struct choice_note note = note_of(5), found;
    struct record call = call_of(5);
    assert_int_equal(choices_find(&choices, &call, &found), 0);
    choices_note(&choices, &note);
    note = note_of(6);
    choices_note(&choices, &note);
    note = note_of(5);
    note.is_mapped = true; /* the recorder does not know of it: the latest counts */
    note.expected_ps = 77;
    choices_note(&choices, &note);
    assert_int_equal(choices_find(&choices, &call, &found), 3);
    assert_int_equal(found.expected_ps, 77);
    call = call_of(6);
    assert_int_equal(choices_find(&choices, &call, &found), 2);
    call.algorithm = tree;
    assert_int_equal(choices_find(&choices, &call, &found), 0);
    call = call_of(6);
    call.dtype = TUTTI_INT32;
    assert_int_equal(choices_find(&choices, &call, &found), 0);
    call = call_of(6);
    call.kind = RECORD_SEND;
    assert_int_equal(choices_find(&choices, &call, &found), 0);
    note = note_of(0);
    note.varies = true;
    note.signature = 7;
    choices_note(&choices, &note);
    call = call_of(12); /* all blocks together */
    call.varies = true;
    assert_int_equal(choices_find(&choices, &call, &found), 4);
    call.signature = 8;
    assert_int_equal(choices_find(&choices, &call, &found), 0);
    choices_release(&choices);
}

/* ---------------------------------------------------------------------------- readers meanwhile */

struct race {
    struct choices choices;
    _Atomic bool is_over, has_read;
    uint64_t torn; /* the reader's */
};

static void *read_all(void *argument)
{
    struct race *race = argument;
    while (!atomic_load(&race->is_over)) {
        const uint64_t last = choices_latest(&race->choices);
        for (uint64_t number = choices_first(&race->choices, last); number <= last; number++) {
            struct choice_note note;
            if (!choices_read(&race->choices, number, &note)) continue;
            atomic_store(&race->has_read, true);
            race->torn += note.count != number || note.expected_ps != 3 * number ||
                          note.next.expected_ps != 5 * number || note.bytes != 4 * number;
        }
    }
    return NULL;
}

static void a_reader_that_is_overtaken_never_sees_half_a_choice(void **state)
{
    (void)state;
    static struct race race;
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, read_all, &race), 0);
    for (uint64_t count = 1; count <= 20000; count++) {
        const struct choice_note note = note_of(count);
        choices_note(&race.choices, &note);
    }
    while (!atomic_load(&race.has_read)) { /* what lies still, at least */
    }
    atomic_store(&race.is_over, true);
    pthread_join(reader, NULL);
    assert_int_equal(race.torn, 0);
    choices_release(&race.choices);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_chosen_is_read),
        cmocka_unit_test(what_is_there_is_not_kept_twice),
        cmocka_unit_test(the_last_ones_are_kept),
        cmocka_unit_test(plans_that_cannot_be_chosen_are_kept),
        cmocka_unit_test(a_call_finds_its_choice),
        cmocka_unit_test(a_reader_that_is_overtaken_never_sees_half_a_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
