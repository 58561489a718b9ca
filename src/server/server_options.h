/* server_options.h - what tutti_server_create was given: checked, copied, and compared with the
 * other ranks.
 */
#ifndef TUTTI_SERVER_SERVER_OPTIONS_H
#define TUTTI_SERVER_SERVER_OPTIONS_H

#include <stdbool.h>

#include "membership/worker_clock.h"
#include "server/division.h"
#include "server/table.h"
#include "tutti/server.h"

/* The parts of the options that have to be the same on all ranks. */
enum { SERVER_TABLES, SERVER_RANKS, SERVER_WORKERS, SERVER_REST, SERVER_HASHES };

enum { SERVER_SPARES_MAX = 2 };

/* All that a rank keeps. */
struct server_setup {
    struct server_division division;
    struct division_table *division_tables;
    struct table_words *table_words; /* of each table, for ranks that have others */
    int *server_ranks, *worker_ranks;
    struct worker_clock_rule rule;
    bool averages;
    uint64_t timeout_ns, serve_timeout_ns;
    uint64_t hashes[SERVER_HASHES];
};

/* Checks and copies. INVALID_OPTIONS, INVALID_RANK, NO_MEMORY, with a message that does not name the function;
 * *setup is to be released in any case. */
enum tutti_status server_setup_init(struct server_setup *setup,
                                    const struct tutti_server_options *options,
                                    struct tutti_comm *comm);
/* The same of a worker that comes later: its tables and deadline. The rest is the server's. */
enum tutti_status server_setup_init_tables(struct server_setup *setup,
                                           const struct tutti_server_options *options);
/* The rule of a mode, for so many workers. INVALID_OPTIONS, with a message that does not name the function. */
enum tutti_status server_rule_of(const struct tutti_server_change *change, int worker_count,
                                 struct worker_clock_rule *rule);
void server_setup_release(struct server_setup *setup);
/* The number of this rank among those; -1: it is none. */
int server_setup_find(const int *ranks, int count, int rank);
/* Makes the tables of one server; without their elements if server is -1. *tables is NULL on
 * failure. */
enum tutti_status server_setup_tables(const struct server_setup *setup,
                                      const struct tutti_server_options *options, int server,
                                      struct tables **tables);
/* Collective: whether all ranks have got so far, with the same hashes (NULL:
 * nothing to compare). Otherwise all of them fail:
 * with `status` and this thread's message where it is not OK; else MISMATCH, or the status of
 * the lowest rank that failed, named as the culprit. setup: of this rank, with its tables, so that all can say how
 * tables differ; NULL only without hashes. */
enum tutti_status server_setup_agree(struct tutti_comm *comm, const char *what,
                                     enum tutti_status status, const struct server_setup *setup,
                                     const uint64_t hashes[SERVER_HASHES]);

#endif
