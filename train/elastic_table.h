/* elastic_table.h - which rank most witnesses find sick: a pure function of a table of all verdicts.
 *
 *                  on rank 0   1   2   3
 *     of rank 0            -   -   L   -         rank 2 has three witnesses, and nobody else accuses
 *        rank 1            -   -   L   -         other ranks than it: it is found
 *        rank 2            -   L   -   L         (its own verdicts do not count against it, nor for it)
 *        rank 3            -   -   L   -
 *
 * Only the rank that waits for a late rank directly has a verdict on it. The others wait for that one, and cannot tell. But
 * each knows for how long it was in calls itself: a rank that was there much longer than the accused rank is a witness,
 * too.
 *
 * Where two ranks accuse each other, one of them may lie, or the link between them may be bad. So a team of three
 * and more ranks needs two witnesses, more than against any other rank, and more than half of the other ranks that accuse
 * any rank.
 */
#ifndef TUTTI_TRAIN_ELASTIC_TABLE_H
#define TUTTI_TRAIN_ELASTIC_TABLE_H

#include <stdint.h>

#include "tutti/exclude.h"

/* In a team of three ranks and more. */
enum { ELASTIC_WITNESSES_MIN = 2 };

/* Adds witnesses of lateness. shares[r]: the share of the last while that rank r was in calls, of 255; share_min: the
 * difference that makes a witness. */
void elastic_table_add_witnesses(uint8_t *verdicts, const uint8_t *shares, int size, int share_min);
/* verdicts[by * size + on]: enum tutti_cause; foreign bytes, of which those that are no cause count as NONE. The rank;
 * -1: none. *cause: most witnesses' cause, of several the first in the enumeration. */
int elastic_table_find(const uint8_t *verdicts, int size, enum tutti_cause *cause);

#endif
