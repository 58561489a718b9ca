/* wiring.h - which step takes which message: links of a whole plan, with sends and receives
 * matched.
 *
 * Links are FIFO with one writer and one reader per destination, so that the k-th message sent is
 * the k-th one received, whatever happens when. Therefore matching needs no run:
 *
 *     step --send--> link ==+==> port (receiver) --receive--> step
 *                           +==> port                         one port, or one per other member of a group
 *
 * Invariants after wiring_init: 1. one lane writes a link, one lane reads a port; 2. as many
 * messages are received at each port of a link as are sent, and each has as many chunks as its
 * receiver expects; 3. a rank gets what one source sends on one channel through one link; 4. a step
 * uses a link or port once.
 */
#ifndef TUTTI_PLAN_WIRING_H
#define TUTTI_PLAN_WIRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"
#include "plan/verify.h"

#define WIRING_NONE UINT32_MAX

struct wiring_lane {
    int rank;
    uint32_t first_step; /* among the steps of all ranks */
    uint32_t step_count;
};

struct wiring_link {
    int source;
    uint32_t writer; /* lane among all lanes */
    uint32_t first_port, port_count;
    uint32_t send_count;
    uint32_t last_step; /* of all steps, the last one that sends here */
};

struct wiring_port {
    uint32_t link;
    int receiver;
    uint32_t reader; /* lane among all lanes */
    uint32_t receive_count;
    uint32_t last_step;
    size_t first_taker; /* in takers: the step that takes message 0, then 1, ... */
};

/* A step of a lane, both counted among all lanes and within the lane. */
struct wiring_taker {
    uint32_t lane, step;
};

struct wiring_send {
    uint32_t link, sequence;
};

struct wiring_receive {
    uint32_t port, sequence;
};

struct wiring {
    uint32_t lane_count, step_count, link_count, port_count;
    uint32_t *first_lanes; /* of each rank; lanes and steps count through all ranks */
    uint32_t *first_steps; /* of each rank */
    struct wiring_lane *lanes;
    struct wiring_link *links;
    struct wiring_port *ports;
    struct wiring_taker *takers;
    size_t *first_sends, *first_receives; /* of each step, and one more */
    struct wiring_send *sends;            /* in the order of targets */
    struct wiring_receive *receives;      /* in the order of link sources */
};

/* Wires a well-formed plan. VERIFY_WRONG: the report names the step. The budget may be NULL.
 * Release after any outcome. */
enum verify_verdict wiring_init(struct wiring *wiring, const struct plan *plan,
                                struct plan_budget *budget, struct verify_report *report);
void wiring_release(struct wiring *wiring);

static inline int wiring_source(const struct wiring *wiring, uint32_t port)
{
    return wiring->links[wiring->ports[port].link].source;
}

static inline struct wiring_taker wiring_taker(const struct wiring *wiring, uint32_t port,
                                               uint32_t sequence)
{
    return wiring->takers[wiring->ports[port].first_taker + sequence];
}

#endif
