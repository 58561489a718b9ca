/* clocks.h - how far the clocks of ranks are apart.
 *
 * Ranks of one host have one monotonic clock, those of other hosts have others, which began when
 * their hosts did. Each rank asks rank 0 some times what time it is there, and believes the answer
 * that came the fastest: the clock was read in the middle of the question's time, give or take half
 * of it (Cristian, Probabilistic clock synchronization, 1989). A clock that may be the same one, as
 * far as this can tell, is taken to be the same.
 */
#ifndef GPT_CLOCKS_H
#define GPT_CLOCKS_H

#include <stdint.h>

#include "tutti/tutti.h"

struct clock_difference {
    int64_t ahead_ns; /* this rank's clock, of rank 0's */
    int64_t error_ns; /* at most so much is wrong */
};

/* Collective; rank 0 has no difference to itself. */
struct clock_difference clocks_compare(struct tutti_comm *comm);

#endif
