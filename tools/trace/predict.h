/* predict.h - the cost model's predictions for the calls of a communicator, on the
 * machines that its dumps describe: hosts by their names, racks if the dumps know them, and cores
 * as the dumps say, or else a calibration; with neither, a core for each rank. Numbers that the job
 * measured between its hosts count where no file has them.
 */
#ifndef TUTTI_TOOLS_TRACE_PREDICT_H
#define TUTTI_TOOLS_TRACE_PREDICT_H

#include <stdbool.h>

#include "algo/algo.h"
#include "calls.h"
#include "model/calibration.h"
#include "model/servers.h"
#include "tune/ranking.h"

struct predictor {
    const char *why_not; /* nothing can be predicted (static text); NULL: it can */
    int rank_count, host_count, unplaced_count; /* unplaced: ranks whose hosts no dump names */
    int *host_of;            /* of each rank; hosts in the order of their smallest ranks */
    const char **host_names; /* the dumps' */
    int *ranks_on;           /* how many a host has */
    int *rack_of;            /* of each rank; NULL: there are no racks */
    int *cores_of; /* of each rank, the first on the same cores; NULL: each host has its own cores */
    int rack_count; /* 1: there are no racks */
    int *order;     /* of ranks, host by host, as plans have them; NULL: one host */
    int core_count; /* of each host */
    bool cores_are_assumed;
    struct calibration calibration;
    int job_measured_count; /* numbers of it that the job measured, and the file does not have */
    char doubt[CALIBRATION_WHY_SIZE]; /* why the file is not for this job; "": it may be */
    struct algo_levels levels;
    struct tune_site site;
};

struct call_prediction {
    char why_not[128]; /* "": there is one */
    uint64_t time_ps;
    enum model_resource busiest;
    int busy_permille; /* of that time */
    int host,
        core; /* of what is the busiest (of an uplink, the first host of its rack); -1: not known */
};

/* Makes a predictor for the dumps of `calls`, which must last as long as the predictor;
 * calibration: a file, or NULL for numbers as shipped. The caller releases it after success, and
 * must not move it. INVALID_OPTIONS: the file is no calibration, and the message says why;
 * NO_MEMORY. */
enum tutti_status predictor_init(struct predictor *predictor, const struct trace_calls *calls,
                                 const char *calibration);
void predictor_release(struct predictor *predictor);
/* NO_MEMORY. */
enum tutti_status predict_kind(const struct predictor *predictor, const struct trace_calls *calls,
                               const struct call_kind *kind, struct call_prediction *prediction);

/* The percentage of its rate in the model at which a host would work if that alone made one kind of
 * calls take so long; 0: no rate explains such a time, or there are too many ranks to tell.
 * NO_MEMORY. */
enum tutti_status predict_slow_host(const struct predictor *predictor,
                                    const struct trace_calls *calls, const struct call_kind *kind,
                                    int host, uint64_t measured_ns, double *percent);

/* The number of ranks of the host that has the most. */
int predictor_most_ranks(const struct predictor *predictor);
/* Whether the calibration's cost of a byte on a port of that kind was measured. */
bool predictor_port_is_measured(const struct predictor *predictor, enum model_resource resource);
/* The number of parameters that are measured. */
int predictor_measured_count(const struct predictor *predictor);

#endif
