/* communicators.h - the communicators that a program has made by CollectiveInitializeCommunicator:
 * what their operations do not say, since the program passes them a handle and no keys.
 *
 *     unknown ── begin ──► being made ── end(made) ──► made: operations have instances 1, 2, 3 ...
 *        ▲                     │                         │
 *        └──── end(failed) ────┴───────── clear ─────────┘
 *
 * A handle is known by its name, "1:5" for group 5 in the first life of the service. Names of an
 * earlier life, before clear, stand for nothing.
 *
 * A child of fork() has none of them. There begin is always true, since the service refuses the
 * call.
 *
 * Any thread; does not block.
 */
#ifndef TUTTI_TENSORFLOW_COMMUNICATORS_H
#define TUTTI_TENSORFLOW_COMMUNICATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COMMUNICATORS_NAME_MAX = 32 };

/* An operation on a communicator. */
struct communicator_turn {
    int32_t group, group_size, instance;
    uint64_t timeout_ns; /* of the communicator; 0: none of its own */
};

/* Begins to make the group's. False: it has one, or one is being made; or there is no memory. */
bool communicators_begin(int32_t group);
/* It is made, and name gets the name of its handle; or has failed, and can be begun again. */
void communicators_made(int32_t group, int32_t group_size, uint64_t timeout_ns,
                        char name[static COMMUNICATORS_NAME_MAX]);
void communicators_failed(int32_t group);
/* The next operation on the communicator of that name. False: there is none. */
bool communicators_next(const char *name, struct communicator_turn *turn);
/* Forgets all. */
void communicators_clear(void);

#endif
