/* options.h - options of a communicator or a call: the caller's, completed from the environment.
 *
 * The caller's options win over the environment. base/option_list.h has the table of all variables.
 */
#ifndef TUTTI_TEAM_OPTIONS_H
#define TUTTI_TEAM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* The longest timeout of a communicator or a call; a longer one becomes this, more than a hundred
 * years. It can be added to any time of the clock. */
#define OPTIONS_TIMEOUT_MAX_NS (UINT64_MAX / 4)

/* Checks the caller's options (NULL: none) and fills in what is left open. *environment: not OK,
 * with this thread's error: a variable makes no sense; what it says is as it ships then, and
 * *options is complete all the same. */
enum tutti_status options_for_comm(const struct tutti_comm_options *user,
                                   struct tutti_comm_options *options,
                                   enum tutti_status *environment);
/* Does the same for a communicator that is derived from a communicator with the options `from`,
 * which are complete: they supply what the caller leaves open. */
enum tutti_status options_for_derived(const struct tutti_comm_options *user,
                                      const struct tutti_comm_options *from,
                                      struct tutti_comm_options *options);
/* Whether the options are good, as far as that can be told without the communicator that they are
 * for; NULL is. */
enum tutti_status options_check_comm(const struct tutti_comm_options *user);
/* Checks the options that a caller gives for one call, and copies them. */
enum tutti_status options_for_call(const struct tutti_call_options *user,
                                   struct tutti_call_options *options);
/* Bytes of messages that may wait here unexpected: TUTTI_UNEXPECTED. */
enum tutti_status options_unexpected(size_t *bytes);
/* Whether racks that no file names may be measured: TUTTI_PROBE. */
enum tutti_status options_probe(bool *probes);
/* Whether data is to go over TCP in any case: TUTTI_TRANSPORT. */
enum tutti_status options_transport(bool *over_tcp);
/* From one heartbeat of a host to the next, or 0: TUTTI_HEARTBEAT. */
enum tutti_status options_heartbeat(uint64_t *period_ns);

#endif
