/* elastic_model.c - what faults and checkpoints cost, by formulas of the literature (elastic.h). */
#include <math.h>

#include "tutti/train/elastic.h"

double tutti_elastic_mttf(const struct tutti_elastic_costs *costs)
{
    const double rate = costs->failure_rate * costs->nodes;
    return rate > 0 ? 1 / rate : (double)INFINITY;
}

double tutti_elastic_young(const struct tutti_elastic_costs *costs)
{
    return sqrt(2 * costs->write_s * tutti_elastic_mttf(costs));
}

double tutti_elastic_daly(const struct tutti_elastic_costs *costs)
{
    const double mttf = tutti_elastic_mttf(costs), write = costs->write_s;
    if (write >= 2 * mttf) return mttf;
    if (isinf(mttf)) return mttf;
    const double share = write / (2 * mttf);
    return sqrt(2 * write * mttf) * (1 + sqrt(share) / 3 + share / 9) - write;
}

double tutti_elastic_ettr(const struct tutti_elastic_costs *costs)
{
    const double lost =
        costs->nodes * costs->failure_rate * (costs->restart_s + costs->interval_s / 2);
    const double written = costs->interval_s > 0 ? costs->write_s / costs->interval_s
                           : costs->write_s > 0  ? (double)INFINITY
                                                 : 0;
    return lost < 1 ? (1 - lost) / (1 + written) : 0;
}
