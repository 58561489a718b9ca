/* hello.c - every rank gives three numbers, every rank gets their sums.
 *
 *     tutti-run -n 3 hello
 */
#include <stdio.h>
#include <stdlib.h>

#include "tutti/tutti.h"

static void check(enum tutti_status status)
{
    if (status == TUTTI_OK) return;
    fprintf(stderr, "%s: %s\n", tutti_status_name(status), tutti_error_message());
    exit(1);
}

int main(void)
{
    static const float numbers[3][3] = {{2, 4, 6}, {1, 2, 3}, {4, 8, 12}};
    struct tutti_comm *comm;
    check(tutti_comm_create(NULL, &comm)); /* rank and size from tutti-run */

    const float *mine = numbers[tutti_comm_rank(comm) % 3];
    float sums[3];
    check(tutti_allreduce(mine, sums, 3, TUTTI_FLOAT32, TUTTI_SUM, comm));

    printf("rank %d of %d gave %g %g %g and got %g %g %g\n", tutti_comm_rank(comm),
           tutti_comm_size(comm), mine[0], mine[1], mine[2], sums[0], sums[1], sums[2]);
    check(tutti_comm_free(comm));
    return 0;
}
