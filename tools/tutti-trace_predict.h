/* tutti-trace_predict.h - what the cost model predicts for the calls of a communicator, on machines as far as its dumps tell: hosts by their
 * names, racks if the dumps know them, and cores as the dumps say, or else a calibration; without either a core for each rank.
 */
#ifndef TUTTI_TOOLS_TRACE_PREDICT_H
#define TUTTI_TOOLS_TRACE_PREDICT_H

#include <stdbool.h>

#include "algo/algo.h"
#include "model/calibration.h"
#include "model/servers.h"
#include "tune/ranking.h"
#include "tutti-trace_calls.h"

struct predictor {
    const char *why_not; /* nothing can be predicted (static text); NULL: it can */
    int rank_count, host_count, unplaced_count; /* unplaced: ranks whose hosts no dump names */
    int *host_of;            /* of each rank; hosts in the order of their smallest ranks */
    const char **host_names; /* the dumps' */
    int *ranks_on;           /* how many a host has */
    int *rack_of;            /* of each rank; NULL: there are no racks */
    int rack_count;          /* 1: there are no racks */
    int *order;              /* of ranks, host by host, as plans have them; NULL: one host */
    int core_count;          /* of each host */
    bool cores_are_assumed;
    struct calibration calibration;
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

/* For the dumps of `calls`, which stay while the predictor is used; calibration: a file, or NULL for numbers as shipped. To be released
 * after success. INVALID_OPTIONS: the file is none, and the message says why; NO_MEMORY. Not to be moved. */
enum tutti_status predictor_init(struct predictor *predictor, const struct calls *calls,
                                 const char *calibration);
void predictor_release(struct predictor *predictor);
/* NO_MEMORY. */
enum tutti_status predict_kind(const struct predictor *predictor, const struct calls *calls,
                               const struct call_kind *kind, struct call_prediction *prediction);

/* At how many percent of the rate that the model has for it a host would work if one kind of calls, with nothing else wrong, took so long;
 * 0: that explains no such time, or there are too many ranks to tell. NO_MEMORY. */
enum tutti_status predict_slow_host(const struct predictor *predictor, const struct calls *calls,
                                    const struct call_kind *kind, int host, uint64_t measured_ns,
                                    double *percent);

/* Whether a resource is a port of the network. */
static inline bool resource_is_port(enum model_resource resource)
{
    return resource >= MODEL_CARD_OUT;
}
static inline bool resource_is_uplink(enum model_resource resource)
{
    return resource == MODEL_UPLINK_OUT || resource == MODEL_UPLINK_IN;
}
/* Of the host that has the most. */
int predictor_most_ranks(const struct predictor *predictor);
/* Whether that number of the calibration was measured: the cost of a byte on a port of that kind. */
bool predictor_port_is_measured(const struct predictor *predictor, enum model_resource resource);
/* The number of parameters that are measured. */
int predictor_measured_count(const struct predictor *predictor);

#endif
