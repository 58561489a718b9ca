/* growth_sim.h - teams that grow among simulated processes, with everything going wrong that may, and
 * a judge who looks after each event whether what must hold does.
 *
 * A seed makes one schedule: members, processes that want to join, all at once or later, on hosts;
 * weather; crashes, partitions, false suspicions, and meetings that fail for a rank. Members and
 * joiners take the steps of membership/growth.h, with the agreements of membership/agreement.h. The
 * admission and the meeting are simulated by their contracts: an invitation comes, unless a host is cut
 * off; a meeting that all have come to is over for each at a time of its own; a rank that goes is
 * noticed, by each later or earlier. From CALM_NS on nothing new goes wrong and no message is lost
 * any more; a partition may stay, and what is dead stays dead.
 *
 * Holds always
 *   - no two living processes have different new teams
 *   - no living process has a new team of which another living one decided that it is nowhere
 *   - all ranks of a new team have met, each has a rank of its own, and survivors that keep their
 *     ranks have them
 *   - a rank that is left without a decision could not reach most survivors
 * Holds in the end
 *   - nobody waits for ever
 *   - if a part of the net has a majority of the old team and enough joiners, and had them for
 *     long, its members have the new team, or one that is a partition's other side's */
#ifndef TUTTI_TESTS_SIM_GROWTH_SIM_H
#define TUTTI_TESTS_SIM_GROWTH_SIM_H

#include <stdbool.h>
#include <stdint.h>

/* How often what was seen. */
struct growth_sim_report {
    bool has_failed;
    char message[256];
    uint64_t fingerprint;
    unsigned events, messages;
    unsigned made, refused, left_out, undecided; /* processes, in the end */
    unsigned again;                              /* rounds of a process that came to nothing */
    unsigned crashed, partitioned, failed_meetings, replaced;
};

/* Adds to the counts of *report. */
void growth_sim_run(uint64_t seed, bool is_verbose, struct growth_sim_report *report);

/* [--seeds N] [--seed S] [--verbose]: N schedules from S on; exit status 0: all held. */
int growth_sim_main(int argument_count, char **arguments);

#endif
