#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "team/hosts.h"

enum { RANKS_MAX = 300 };

/* Hosts in a random order, of ids that differ in a few bits only. */
static void draw(struct discovery_entry *entries, int size, int host_count, uint32_t *random)
{
    memset(entries, 0, (size_t)size * sizeof *entries);
    for (int r = 0; r < size; r++) {
        *random = *random * 1664525 + 1013904223;
        entries[r].host = (uint64_t)(*random >> 8) % (uint64_t)host_count << 40 | 5;
        entries[r].core_count = 4;
        entries[r].pid = r + 1;
        strcpy(entries[r].host_name, "somewhere");
    }
}

/* As hosts.h says it: one rank after the other, with a search through all before it. */
static void expect_numbers(const struct team_hosts *hosts, const struct discovery_entry *entries,
                           int rank, int size)
{
    int host_count = 0, local = 0, firsts[RANKS_MAX], counts[RANKS_MAX] = {0}, largest = 0;
    for (int r = 0; r < size; r++) {
        int host = 0;
        while (host < host_count && entries[firsts[host]].host != entries[r].host) host++;
        if (host == host_count) firsts[host_count++] = r;
        assert_int_equal(hosts->host_of[r], host);
        if (++counts[host] > largest) largest = counts[host];
        const bool is_near = entries[r].host == entries[rank].host;
        assert_int_equal(hosts->local_numbers[r], is_near ? local : -1);
        if (is_near) assert_int_equal(hosts->local_ranks[local++], r);
    }
    assert_int_equal(hosts->host_count, host_count);
    assert_int_equal(hosts->local_size, local);
    assert_int_equal(hosts->largest, largest);
    assert_memory_equal(hosts->firsts, firsts, (size_t)host_count * sizeof *firsts);
    assert_memory_equal(hosts->counts, counts, (size_t)host_count * sizeof *counts);
}

static void hosts_are_numbered_in_the_order_of_their_first_ranks(void **state)
{
    static struct discovery_entry entries[RANKS_MAX];
    uint32_t random = 4711;
    (void)state;
    for (int size = 1; size <= RANKS_MAX; size += 1 + size / 3) {
        for (int host_count = 1; host_count <= 2 * size; host_count *= 2) {
            struct team_hosts *hosts;
            const int rank = (int)(random >> 8) % size;
            draw(entries, size, host_count, &random);
            assert_int_equal(team_hosts_create(entries, rank, size, &hosts), TUTTI_OK);
            expect_numbers(hosts, entries, rank, size);
            team_hosts_free(hosts);
        }
    }
}

/* Hosts 1, 2, 1, 3, 2, 4, whose ranks run on the cores 7, 8, 9 and 7 again; of host 4 nothing is
 * known. */
static void hosts_that_share_cores_are_found(void **state)
{
    static const uint64_t host_of[] = {1, 2, 1, 3, 2, 4}, cores[] = {7, 8, 9, 7, 8, 0};
    static const int expected[] = {0, 1, 0, 0, 1, 5}, some[] = {3, 5, 2}, others[] = {4, 5, 3};
    enum { SIZE = 6 };
    struct discovery_entry entries[SIZE] = {0};
    struct team_hosts *hosts, *part;
    (void)state;
    for (int r = 0; r < SIZE; r++) {
        entries[r] =
            (struct discovery_entry){.host = host_of[r], .cores = cores[r], .core_count = 2};
        strcpy(entries[r].host_name, "somewhere");
    }
    assert_int_equal(team_hosts_create(entries, 0, SIZE, &hosts), TUTTI_OK);
    assert_memory_equal(hosts->cores_of, expected, sizeof expected);
    assert_false(team_hosts_share_cores(hosts)); /* hosts 1 and 3 have three ranks on four cores */
    assert_int_equal(team_hosts_core_count(hosts), 2);
    team_hosts_free(hosts);
    for (int r = 0; r < SIZE; r++) entries[r].core_count = 1;
    assert_int_equal(team_hosts_create(entries, 0, SIZE, &hosts), TUTTI_OK);
    for (int r = 0; r < SIZE; r++) /* now on two; the two of host 2 are on one */
        assert_int_equal(team_hosts_crowd(hosts, r), host_of[r] != 4);
    assert_true(team_hosts_share_cores(hosts));
    assert_int_equal(team_hosts_core_count(hosts), 1);
    team_hosts_free(hosts);
    for (int r = 0; r < SIZE; r++) entries[r].core_count = 2;
    assert_int_equal(team_hosts_create(entries, 0, SIZE, &hosts), TUTTI_OK);
    assert_int_equal(team_hosts_of_some(hosts, some, 0, 3, &part), TUTTI_OK);
    assert_null(part->cores_of); /* rank 2 alone of its host counts by its own cores */
    team_hosts_free(part);
    entries[2].cores = 7;
    team_hosts_free(hosts);
    assert_int_equal(team_hosts_create(entries, 0, SIZE, &hosts), TUTTI_OK);
    assert_int_equal(team_hosts_of_some(hosts, some, 0, 3, &part), TUTTI_OK);
    assert_int_equal(part->cores_of[2], 0);
    assert_false(team_hosts_share_cores(part)); /* two ranks, two cores */
    team_hosts_free(part);
    assert_int_equal(team_hosts_of_some(hosts, others, 0, 3, &part), TUTTI_OK);
    assert_null(part->cores_of);
    team_hosts_free(part);
    team_hosts_free(hosts);
}

/* Two hosts of four ranks, each of which is tied to cores of its own; or two to each set of
 * cores. */
static void ranks_that_are_tied_to_parts_of_a_host_do_not_crowd_it(void **state)
{
    enum { SIZE = 8 };
    struct discovery_entry entries[SIZE] = {0};
    struct team_hosts *hosts;
    (void)state;
    for (int ranks_a_set = 1; ranks_a_set <= 4; ranks_a_set *= 2) {
        for (int r = 0; r < SIZE; r++) {
            entries[r] = (struct discovery_entry){.host = 1 + (uint64_t)(r / 4),
                                                  .cores = 100 + (uint64_t)(r / ranks_a_set),
                                                  .core_count = 2};
            strcpy(entries[r].host_name, "somewhere");
        }
        assert_int_equal(team_hosts_create(entries, 0, SIZE, &hosts), TUTTI_OK);
        assert_null(hosts->cores_of);
        assert_int_equal(team_hosts_core_count(hosts), 4 / ranks_a_set * 2);
        assert_int_equal(team_hosts_share_cores(hosts), ranks_a_set == 4);
        for (int r = 0; r < SIZE; r++)
            assert_int_equal(team_hosts_crowd(hosts, r), ranks_a_set == 4);
        team_hosts_free(hosts);
    }
}

static struct rank_table *make_table(int size)
{
    const size_t bytes = (rank_table_bytes(size) + 63) / 64 * 64;
    struct rank_table *table = aligned_alloc(64, bytes);
    assert_non_null(table);
    memset(table, 0, bytes);
    return table;
}

static void a_table_is_shared_once_it_says_the_same(void **state)
{
    enum { SIZE = 20 };
    struct discovery_entry entries[SIZE], read;
    const int some[] = {3, 17, 4};
    uint32_t random = 1;
    struct team_hosts *hosts, *part;
    (void)state;
    draw(entries, SIZE, 4, &random);
    struct rank_table *const table = make_table(SIZE);
    assert_int_equal(team_hosts_create(entries, 0, SIZE, &hosts), TUTTI_OK);
    team_hosts_share(hosts, table);
    assert_null(hosts->table); /* nobody has written it */
    entries[7].pid++;
    rank_table_write(table, entries, SIZE);
    team_hosts_share(hosts, table);
    assert_null(hosts->table); /* it says something else */
    assert_non_null(hosts->entries);
    entries[7].pid--;
    rank_table_write(table, entries, SIZE);
    team_hosts_share(hosts, table);
    assert_ptr_equal(hosts->table, table);
    assert_null(hosts->entries);
    for (int r = 0; r < SIZE; r++) {
        team_hosts_entry(hosts, r, &read);
        assert_memory_equal(&read, &entries[r], sizeof read);
    }
    assert_int_equal(team_hosts_of_some(hosts, some, 1, 3, &part), TUTTI_OK);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(&part->entries[i], &entries[some[i]], sizeof read);
    team_hosts_free(part);
    team_hosts_free(hosts);
    free(table);
}

static void what_makes_no_sense_in_a_table_is_not_used(void **state)
{
    enum { SIZE = 4 };
    struct discovery_entry entries[SIZE], read;
    uint32_t random = 1;
    struct team_hosts *hosts;
    (void)state;
    draw(entries, SIZE, 2, &random);
    struct rank_table *const table = make_table(SIZE);
    rank_table_write(table, entries, SIZE);
    assert_int_equal(team_hosts_create(entries, 0, SIZE, &hosts), TUTTI_OK);
    team_hosts_share(hosts, table);
    memset(table->entries[0].host_name, 'x', sizeof table->entries[0].host_name);
    table->entries[1].address.family = 77;
    table->entries[2].core_count = 0;
    for (int r = 0; r < SIZE; r++) {
        team_hosts_entry(hosts, r, &read);
        assert_string_equal(read.host_name, r < 3 ? "?" : "somewhere");
        assert_int_equal(read.pid, r < 3 ? 0 : 4);
        assert_int_equal(read.address.family, 0);
    }
    team_hosts_free(hosts);
    free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_numbered_in_the_order_of_their_first_ranks),
        cmocka_unit_test(hosts_that_share_cores_are_found),
        cmocka_unit_test(ranks_that_are_tied_to_parts_of_a_host_do_not_crowd_it),
        cmocka_unit_test(a_table_is_shared_once_it_says_the_same),
        cmocka_unit_test(what_makes_no_sense_in_a_table_is_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
