/* exclusion_sim.h - ranks that put others out, or shrink, all at the same time, in simulated time, and a judge.
 *
 * A seed makes one schedule: ranks on hosts, of which each has wishes, one after the other: to put out some
 * ranks, or to shrink. Often most have the same wish; often each has its own. Ranks crash, are cut off,
 * are suspected without reason; messages are lost, doubled, late. A rank whose wish comes true tells
 * the ranks that are left out, and leaves the old team; one whose wishes all fail leaves it, too.
 *
 * Holds always
 *   - no two living ranks have different teams
 *   - no rank has a team that has a rank which it puts out
 *   - while a rank that is put out lives and has not given up, the others are a majority of the old team
 *   - a team is decided by ranks that all have the same wish
 *   - where a rank says that nobody is put out, no rank that lives has decided so
 * Holds in the end
 *   - nobody waits for ever
 *   - without crashes, cuts and mistakes a wish that all others than the sick ranks share comes true, and
 *     no rank takes itself for put out where no wish can have a majority */
#ifndef TUTTI_TESTS_SIM_EXCLUSION_SIM_H
#define TUTTI_TESTS_SIM_EXCLUSION_SIM_H

#include <stdbool.h>
#include <stdint.h>

struct exclusion_sim_report {
    bool has_failed;
    char message[256];
    uint64_t fingerprint;
    unsigned events, messages;
    unsigned made, put_out, left_out, outvoted, given_up; /* ends of calls */
    unsigned afraid; /* looks at which a rank waited to hear whether it is put out */
    unsigned crashed, partitioned;
};

/* Adds to the counts of *report. */
void exclusion_sim_run(uint64_t seed, bool is_verbose, struct exclusion_sim_report *report);

/* [--seeds N] [--seed S] [--verbose]: N schedules from S on; exit status 0: all held. */
int exclusion_sim_main(int argument_count, char **arguments);

#endif
