/* patient.h - a function that is to be good on all its ranks, with deadlines that only a hang
 * reaches. */
#ifndef TUTTI_TESTS_KIT_PATIENT_H
#define TUTTI_TESTS_KIT_PATIENT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/worlds/ranks.h"

static const struct tutti_comm_options patient = {.size_bytes = sizeof(struct tutti_comm_options),
                                                  .rank = -1,
                                                  .size = -1,
                                                  .timeout_ns = 60000000000u,
                                                  .init_timeout_ns = 60000000000u};

static inline void expect_good(int size, enum ranks_kind kind, ranks_function *function,
                               void *context)
{
    const struct ranks_options options = {
        .kind = kind, .deadline_ms = 90000, .comm_options = &patient};
    assert_int_equal(ranks_run(size, &options, function, context), 0);
}

/* Default kind of ranks, then threads where those were none. */
static inline void expect_good_both(int size, ranks_function *function, void *context)
{
    expect_good(size, RANKS_DEFAULT, function, context);
    if (!ranks_repeat(RANKS_THREADS)) expect_good(size, RANKS_THREADS, function, context);
}

#endif
