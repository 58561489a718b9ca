/* fault_campaign.h - many runs of the fault runner, one seed after the other, with a summary. */
#ifndef TUTTI_TESTS_FAULTS_FAULT_CAMPAIGN_H
#define TUTTI_TESTS_FAULTS_FAULT_CAMPAIGN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/faults/fault_schedule.h"

/* It goes on until there were so many runs and faults, and so many minutes are over. */
struct fault_campaign {
    uint64_t seed;      /* of the first run; the next one has the next number */
    int rank_count;     /* 0: the seed decides */
    const char *fabric; /* as fault_schedule_init says; NULL: "" */
    int runs, faults;
    double minutes;
    bool minimise;       /* what fails */
    const char *program; /* for the command that replays */
};

/* Runs one schedule so many times, and prints what is wrong each time; returns how often something
 * was. */
int fault_try(const struct fault_schedule *schedule, int times);
/* Makes a schedule that fails smaller, and prints it. Blocks for many runs. */
void fault_explain(const struct fault_schedule *schedule);
/* Returns the number of runs that failed, each printed with how to replay it; the summary goes to
 * `out`. */
int fault_campaign_run(const struct fault_campaign *campaign, FILE *out);

#endif
