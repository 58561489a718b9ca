/* exclusion_tell.h - a rank tells another one that it is put out, see exclusion.h. */
#ifndef TUTTI_HEALTH_EXCLUSION_TELL_H
#define TUTTI_HEALTH_EXCLUSION_TELL_H

#include "health/exclusion.h"

/* tells_far: a rank of another host, too. Keeps this thread's error. Waits a moment for the domain at most. A rank of another host that cannot
 * be told finds out when it reaches nobody. */
void exclusion_tell(struct health *health, int rank, const struct exclusion *exclusion,
                    bool tells_far);

#endif
