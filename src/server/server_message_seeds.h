/* server_message_seeds.h - the parameter server of which the messages are that fuzzing starts from: what
 * server_message_fuzz.c reads, and server_message_test.c writes into tests/corpus.
 *
 * A seed is a byte that says who hears the message (seed_ends), and the message. */
#ifndef TUTTI_SERVER_SERVER_MESSAGE_SEEDS_H
#define TUTTI_SERVER_SERVER_MESSAGE_SEEDS_H

#include "server/server_message.h"

enum { SEED_SERVERS = 3, SEED_WORKERS = 70 };

static const struct division_table seed_tables[] = {{"dense", false, false, 0, 5000},
                                                    {"little", false, false, 0, 3},
                                                    {"rows", true, false, 100, 7},
                                                    {"wide", true, true, INT64_MAX, 1 << 20}};
static const struct server_division seed_division = {.server_count = SEED_SERVERS,
                                                     .worker_count = SEED_WORKERS,
                                                     .table_count = 4,
                                                     .tables = seed_tables,
                                                     .payload_max = 1 << 20};

static inline struct server_ends seed_ends(uint8_t first)
{
    const int seat = first % SEED_SERVERS;
    const bool is_spare = first / (2 * SEED_SERVERS) % 2 == 1;
    return (struct server_ends){&seed_division, seat, is_spare ? -1 : seat,
                                first / SEED_SERVERS % 2 == 1};
}

#endif
