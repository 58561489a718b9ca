/* simulate.h - how long a plan takes on a machine: its steps are simulated, event by event, piece
 * by piece, as the engine would run them.
 *
 *     lane ── piece of a step ──► core ──► link ──► card ──► uplink ──► card ──► core ──► lane of the receiver
 *              waits for its       copies,   up to       each passes one piece after        takes it, and gives
 *              messages, and for   adds      so many     the other                          the link its room back
 *              links with room               pieces
 *
 * 1. The engine's promises hold here: a lane's steps in order, `after`, one message posted on a
 *    link before its lane waits, fused steps piece by piece, a send is done when its link has taken
 *    it, and a message by reference when its receiver has consumed it.
 * 2. A core, a card and an uplink serve pieces in the order in which they come. Pieces are small,
 *    so ranks that always have some share it fairly.
 * 3. Links differ by where their ends are (enum model_distance) and by the path that a message
 *    takes: the first one of the path table.
 *
 * 4. Calls like this one come before it, one after the other. So a burst of a port makes no call
 *    shorter than the port's work in each.
 *
 * Neglected: paths that are given up at run time because room is lacking, and advertisements of
 * receivers that come late. All ranks begin at the same time, with idle links.
 */
#ifndef TUTTI_MODEL_SIMULATE_H
#define TUTTI_MODEL_SIMULATE_H

#include "model/machine.h"
#include "model/servers.h"
#include "plan/plan.h"
#include "plan/wiring.h"
#include "tutti/tutti.h"

/* The load of one kind of resource. */
struct model_load {
    uint64_t busy_ps; /* of the busiest one of its kind */
    int number;       /* which: a core's (host times core_count + core), a host's, a rack's */
};

struct model_result {
    uint64_t time_ps; /* from call to call: until the last rank is done, and what is busiest */
    struct model_load loads[MODEL_RESOURCES];
    uint64_t events, steps;
};

/* Makes the time at least as long as the busiest resource is busy. A port that has no time to rest
 * between calls has less of its burst left from call to call. */
void model_wait_for_busiest(struct model_result *result);

/* The size of the pieces into which steps are cut if the largest step has so many bytes. */
uint64_t model_piece_bytes(const struct model_machine *machine, uint64_t largest_bytes);

/* Simulates a plan for the machine's ranks, which must be proven and wired, with `count` elements
 * of that size in a block. Where ranks share cores, it is simulated twice, with cores that hand on
 * in step and with cores that begin at other places of the round. The slower one counts, because no
 * rank can rely on luck. Ports begin with all of their bursts; if one needs more than the call's
 * time for its bytes, it is simulated again with ports that have nothing of them left, because
 * calls follow each other. NO_MEMORY; UNSUPPORTED: it is too large, or has a step between links
 * alone that stores nothing; INVALID_ALGORITHM: it comes to a halt, which no proven plan does. Any
 * thread; pure. */
enum tutti_status model_simulate(const struct plan *plan, const struct wiring *wiring,
                                 const struct model_machine *machine, size_t count,
                                 size_t element_bytes, struct model_result *result);

/* The same of a part of each message, for callers that would wait too long for all of it: of
 * `count` elements in a block that stand for `whole_count`, so that paths and pieces are those of
 * whole messages, and there are fewer pieces. */
enum tutti_status model_simulate_part(const struct plan *plan, const struct wiring *wiring,
                                      const struct model_machine *machine, size_t count,
                                      size_t whole_count, size_t element_bytes,
                                      struct model_result *result);

#endif
