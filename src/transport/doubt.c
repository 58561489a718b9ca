#include "transport/doubt.h"

/* Messages to or from a rank that was stopped have STOPPED_NS to arrive when it goes on. */
static const uint64_t DOUBT_NS = 3000000000u, OTHERS_FIRST_NS = 4000000000u,
                      LOWER_FIRST_NS = 1500000000u, STOPPED_NS = 1000000000u;

enum { LOOKS_TO_LOSE = 30 /* so that time in which this rank did not run counts for nothing */ };

bool doubt_look(struct doubt *doubt, uint64_t heard_ns, uint64_t now_ns)
{
    if (doubt->since_ns == 0) *doubt = (struct doubt){.since_ns = now_ns};
    if (heard_ns <= doubt->since_ns + DOUBT_NS / 2) return false;
    if (doubt->heard_ns == 0) doubt->heard_ns = now_ns;
    return ++doubt->looks > LOOKS_TO_LOSE && now_ns > doubt->since_ns + DOUBT_NS &&
           now_ns > doubt->heard_ns + STOPPED_NS;
}

bool trouble_means_gone(const struct trouble *trouble, uint64_t now_ns)
{
    const uint64_t patience_ns = (trouble->count > 1 ? OTHERS_FIRST_NS : 0) +
                                 (trouble->rank > trouble->peer ? LOWER_FIRST_NS : 0);
    return trouble->since_ns != 0 && !trouble->has_stopped &&
           now_ns > trouble->since_ns + DOUBT_NS + patience_ns;
}
