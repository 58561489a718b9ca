/* disagreement.h - ranks whose environments ask for different things: none of them gets a
 * communicator, and all are told why. */
#ifndef TUTTI_TESTS_SECURITY_DISAGREEMENT_H
#define TUTTI_TESTS_SECURITY_DISAGREEMENT_H

#include "tests/worlds/ranks.h"

struct disagreement {
    const char *variable; /* of the environment */
    const char *odd;      /* its value on one rank */
    const char *common;   /* on all others */
};

/* Fails the test where a rank is not refused by that variable's name: on two hosts, whichever is
 * the odd one, and on one. */
void disagreement_expect(const struct disagreement *disagreement);

/* On each rank of a ranks_run without communicators: it fails to create one, because of what that
 * word says. */
int disagreement_be_refused(int rank, int size, const char *word);

#endif
