/* engine_sim.h - whole jobs among simulated ranks: real plans, programs and links run real
 * collectives in virtual time while hosts and ranks fail; real heartbeats find that, a real
 * agreement says who is left, and those go on.
 *
 *     round ──► round ──► round ──► finished            what each rank does on a communicator
 *       └─ somebody failed, as the kernel of its host, heartbeats or another rank says
 *             └──► agreement ──► the survivors' communicator: an allreduce, perhaps more
 *                     └──► MINORITY, or left out: the process ends
 *
 * A seed makes one schedule: 2 to 16 ranks on 1 to 6 hosts; one to five rounds of one operation, or
 * of several at once in slots of their own, of any collective, algorithm, dtype and count; pieces
 * and credits; weather, connections that are reset; ranks that stall, crash, also between two
 * frames; hosts that vanish or are cut off. A rank runs what it has begun whenever an event touched
 * it, in any order, and looks at nothing else.
 *
 * Holds always
 *   - what is done is right, on every rank; nothing that needs all is done before all have begun it
 *   - nothing comes twice, or where nobody expects it; no rank is at fault
 *   - nothing is stored in the memory of operations that were given up
 *   - nobody fails unless a rank ended, or hosts did not hear each other for long; who is named did
 *     not answer
 *   - no two living ranks go on with different survivors
 * Holds in the end
 *   - everybody who lives has finished, on one communicator, or was told why not: no operation
 *     waits for ever
 *   - where nobody failed, each message was consumed and each credit came back
 *   - one fault has one culprit, on all that survive; only who was cut off from most ends as
 *     MINORITY, or is left out
 *
 * What stands between these parts in the library, the communicator, is not run here but played: the
 * board of a host, words to other hosts, the kernel that knows of its own processes' deaths at
 * once. */
#ifndef TUTTI_TESTS_SIM_ENGINE_SIM_H
#define TUTTI_TESTS_SIM_ENGINE_SIM_H

#include <stdbool.h>
#include <stdint.h>

/* What carries data: see engine_sim_links.h. */
enum engine_sim_carrier { ENGINE_SIM_CONNECTIONS, ENGINE_SIM_CARDS };

/* How often what was seen. */
struct engine_sim_report {
    bool has_failed;
    char message[256];
    uint64_t fingerprint;
    unsigned events, operations, finished;
    unsigned crashed, vanished, cut, short_cuts, reset, stalled;
    unsigned failures, verdicts, taken_back, shrunk, minority, excluded;
    unsigned again, halves_lost, by_reference, expected, held_up;
    unsigned messages, writes, refused, turned; /* of cards */
};

/* Adds to the counts of *report. */
void engine_sim_run(uint64_t seed, enum engine_sim_carrier carrier, bool is_verbose,
                    struct engine_sim_report *report);

/* [--seeds N] [--seed S] [--verbose]: N schedules from S on; exit status 0: all held. */
int engine_sim_main(int argument_count, char **arguments);
/* The same over simulated network cards. */
int engine_sim_card_main(int argument_count, char **arguments);

#endif
