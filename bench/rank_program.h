/* rank_program.h - functions for rank programs that time calls. Such a program is one file with one
 * communicator, and ends at the first failure. */
#ifndef TUTTI_BENCH_RANK_PROGRAM_H
#define TUTTI_BENCH_RANK_PROGRAM_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "timing.h"
#include "tutti/tutti.h"

static struct tutti_comm *comm;
static int rank;

static inline void check(enum tutti_status status, const char *what)
{
    if (status == TUTTI_OK) return;
    fprintf(stderr, "%s: rank %d: %s: %s\n", program_invocation_short_name, rank, what,
            tutti_error_message());
    exit(1);
}

/* Started operations take turns on memory that is new at first: the times of so many first ones are
 * not those of later ones. */
enum { STARTED_WARM_UPS = 20 };

static inline void join(void)
{
    check(tutti_comm_create(NULL, &comm), "comm_create");
    rank = tutti_comm_rank(comm);
}

static inline void leave(void)
{
    check(tutti_comm_free(comm), "comm_free");
}

static inline double largest_of_ranks(double value)
{
    check(tutti_allreduce(&value, &value, 1, TUTTI_FLOAT64, TUTTI_MAX, comm), "largest of ranks");
    return value;
}

/* Returns rank 0's value on all ranks. */
static inline double agree(double value)
{
    check(tutti_broadcast(&value, &value, 1, TUTTI_FLOAT64, 0, comm), "agreeing");
    return value;
}

/* A number on the command line. */
static inline long number_of(const char *text, long most)
{
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno == 0 && *end == '\0' && end != text && value > 0 && value <= most) return value;
    fprintf(stderr, "%s: %s is not a number from 1 to %ld\n", program_invocation_short_name, text,
            most);
    exit(2);
}

#endif
