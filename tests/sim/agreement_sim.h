/* agreement_sim.h - agreements among simulated ranks, with everything going wrong that may, and a
 * judge who looks after each event whether what must hold does.
 *
 * A seed makes one schedule: a number of nodes on a number of hosts; up to four agreements one
 * after the other, each among the survivors of the one before (shrink) or again among the same
 * (agree); weather; crashes, stalls, partitions, false suspicions. From CALM_NS on nothing new goes
 * wrong and no message is lost any more; a partition may stay, and what is dead stays dead.
 *
 * Holds always
 *   - no two ranks decide differently, but from ranks that are dead, and only when no majority
 *     lives
 *   - the set has only ranks that called; the word is the AND of exactly their words
 *   - a rank that nobody ever had a reason to doubt is in the set
 *   - what was decided stays as it is; nothing is decided after giving up
 * Holds in the end
 *   - who can reach a quorum decides, long before its deadline; who cannot ends as MINORITY
 *   - where a rank is there that never calls, the others end as LATE, unless they decide without it
 *
 * Hosts are what partitions and the kernel's knowledge go by: ranks of a host learn for certain
 * that another one of it is dead, others suspect it, and may be told by somebody whom they
 * reach. */
#ifndef TUTTI_TESTS_SIM_AGREEMENT_SIM_H
#define TUTTI_TESTS_SIM_AGREEMENT_SIM_H

#include <stdbool.h>
#include <stdint.h>

/* How often what was seen: a test that saw no partition says nothing about any. */
struct agreement_sim_report {
    bool has_failed;
    char message[256];
    uint64_t fingerprint;
    unsigned events, messages;
    unsigned decided, minority, late;
    unsigned crashed, crashed_within, stalled, suspected_wrongly, partitioned;
    unsigned by_all;        /* decisions after which no majority was left alive */
    unsigned taken;         /* decisions that only dead ranks had, who took them along */
    unsigned with_learners; /* first agreements in which some ranks had no vote */
    unsigned excluded;      /* living ranks that learnt that they are not in the set */
};

/* Adds to the counts of *report. */
void agreement_sim_run(uint64_t seed, bool is_verbose, struct agreement_sim_report *report);

/* [--seeds N] [--seed S] [--verbose]: N schedules from S on; exit status 0: all held. */
int agreement_sim_main(int argument_count, char **arguments);

#endif
