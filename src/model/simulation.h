/* simulation.h - a simulation under way (simulate.h): the state of its ranks, lanes and ports, and
 * all that its two parts share.
 *
 *     simulate.c     ──► simulation_begin ──► events, one after the other ──► simulation_end
 *     simulation.c         makes all of it, from the plan, its wiring and the machine
 */
#ifndef TUTTI_MODEL_SIMULATION_H
#define TUTTI_MODEL_SIMULATION_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/events.h"
#include "model/machine.h"
#include "model/servers.h"
#include "model/simulate.h"
#include "model/turns.h"
#include "model/work.h"
#include "plan/placement.h"
#include "plan/plan.h"
#include "plan/wiring.h"

/* Besides those of flights. */
enum simulated_kind {
    COMPUTED = FLIGHT_EVENTS, /* a lane's piece */
    PUSHED,                   /* a port's piece is in the hands of its link */
    ARRIVED,                  /* a port's piece can be used */
    CREDIT,                   /* one was consumed, as its sender knows now */
    ANSWERED,                 /* a port's message has a place at its receiver */
    TURN                      /* a core has come to a rank that has work */
};
static_assert(TURN >> EVENT_KIND_BITS == 0, "fits into an event");

/* The end of a link at one receiver: messages one after the other, in pieces. */
struct port {
    struct model_work work; /* of the message that is being sent */
    uint64_t bytes;         /* of it */
    uint32_t piece_count, ready, posted,
        sent;                /* of its pieces: all, computed, to be sent now, given to the link */
    uint32_t window;         /* pieces under way */
    uint32_t under_way;      /* pieces of all messages */
    uint32_t arrived, taken; /* the same */
    uint32_t message_count;  /* that were begun */
    int from, to;
    uint32_t writer, reader; /* lanes */
    uint8_t distance;
    bool is_active; /* not all of the message is sent */
    bool is_pushing;
    bool is_repeated, is_retaken; /* of its message: see struct model_sent */
    bool is_late;                 /* of its message, pieces that are computed wait for room */
    bool wants_credit;            /* its sender waits until its messages are consumed */
    bool may_fill;                /* it sends more pieces than can be under way */
    bool has_asked, has_place;    /* its message, whose sender asks for a place */
    bool is_advertised; /* its receiver says from the beginning where it wants the first message */
};

struct lane {
    int rank;
    uint32_t step, end_step; /* of the rank's */
    uint32_t piece, piece_count;
    uint32_t target;
    uint64_t bytes;
    bool has_begun; /* its step */
    bool is_open; /* the step's messages are on their links; until then its result waits in memory (staged) */
    bool is_computing;
    struct model_result_use use; /* of the step's result */
};

static_assert(PLAN_LANES_MAX <= 64, "a bit for each lane of a rank");
struct simulated_rank {
    const struct rank_plan *plan;
    uint32_t first_lane, first_step,
        waits_for; /* lanes, messages to be sent, pieces to be consumed */
    int core;
    uint64_t awake;   /* lanes that may be able to go on, a bit each */
    uint64_t held_up; /* lanes whose next step waits until others are completed */
    bool *is_read; /* of each chunk of its output: ranks on other cores read it there; NULL: none is */
    bool is_going_on;
    bool shares_core; /* with other ranks, and waits for its turn */
    struct model_sender sender;
};

struct simulated_run {
    const struct plan *plan;
    const struct wiring *wiring;
    const struct model_machine *machine;
    struct model_result *result;
    uint64_t *part_ends; /* bytes of the first parts of a block; parts + 1 of them */
    size_t count, whole_count;
    uint64_t piece_bytes, now_ps;
    struct events events;
    struct servers servers;
    struct turns turns;
    struct simulated_rank *ranks;
    struct lane *lanes;
    struct port *ports;
    uint32_t *first_ports;    /* of each link: the port to which it sends first */
    uint32_t *first_messages; /* of each link, in senders */
    uint32_t *senders;        /* the step that sends a message, of all */
    bool *completed;          /* of each step, where its rank has dependencies */
    int ranks_left;
    bool in_step; /* of cores that ranks share: they begin with their first ranks, all of them */
    bool have_rested; /* of ports: they begin with all of their bursts, and otherwise with nothing of them */
    bool has_failed; /* memory is lacking */
};

/* Makes ready what follows from run->plan, wiring, machine and the counts; `has_failed` says that
 * memory is lacking. simulation_end must follow in any case. */
void simulation_begin(struct simulated_run *run, size_t element_bytes);
void simulation_end(struct simulated_run *run);

/* ------------------------------------------------------------------------------- chunks, pieces */

static inline uint64_t range_bytes(const struct simulated_run *run, const struct rank_plan *plan,
                                   struct plan_location place, uint32_t chunk_count)
{
    const uint32_t parts = run->plan->shape.parts;
    const uint64_t *ends = run->part_ends;
    if (place.buffer != PLAN_SCRATCH) {
        const uint32_t first = place.first % parts;
        const uint64_t last = (uint64_t)first + chunk_count;
        return last / parts * ends[parts] + ends[last % parts] - ends[first];
    }
    uint64_t bytes = 0;
    for (uint32_t i = place.first; i < place.first + chunk_count; i++) {
        const uint32_t part = plan->scratch_like[i] % parts;
        bytes += ends[part + 1] - ends[part];
    }
    return bytes;
}

/* The bytes of a step: all of its places have the same size, so any of them shows it. */
static inline uint64_t step_bytes(const struct simulated_run *run, const struct rank_plan *plan,
                                  const struct plan_step *step)
{
    if (step->has_destination) return range_bytes(run, plan, step->destination, step->chunk_count);
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &plan->sources[step->first_source + i];
        if (!source->is_link) return range_bytes(run, plan, source->location, step->chunk_count);
    }
    return 0;
}

static inline uint32_t pieces_of(const struct simulated_run *run, uint64_t bytes)
{
    return bytes <= run->piece_bytes ? 1 : (uint32_t)((bytes - 1) / run->piece_bytes + 1);
}

/* The size of the piece of that number in a message of so many bytes. */
static inline uint64_t piece_of(const struct simulated_run *run, uint64_t bytes, uint32_t number)
{
    const uint64_t left = bytes - number * run->piece_bytes;
    return left < run->piece_bytes ? left : run->piece_bytes;
}

/* The bytes of the message of which one of so many bytes is a part. */
static inline uint64_t whole_bytes(const struct simulated_run *run, uint64_t bytes)
{
    if (run->count == run->whole_count) return bytes;
    const unsigned __int128 product = (unsigned __int128)bytes * run->whole_count;
    return product >> 64 == 0 ? (uint64_t)product / run->count : (uint64_t)(product / run->count);
}

/* ------------------------------------------------------------------------------------- messages */

static inline bool crosses(const struct simulated_run *run, const struct port *port)
{
    return port->distance == MODEL_SAME_HOST &&
           run->ranks[port->from].core != run->ranks[port->to].core;
}

/* The work of a step's message on a port, if it is not placed. */
static inline struct model_work work_of_port(struct simulated_run *run, const struct port *port,
                                             const struct plan_step *step, uint64_t bytes)
{
    struct simulated_rank *from = &run->ranks[port->from];
    return model_work_of(&from->sender, run->machine, from->plan, step,
                         (enum model_distance)port->distance, whole_bytes(run, bytes));
}

struct simulated_message {
    const struct plan_step *step;
    uint64_t bytes;
};

/* Calls `each` for the ports of all links on which a step sends, until it returns false. */
static inline bool for_ports(struct simulated_run *run, uint32_t step, uint32_t *skip,
                             bool (*each)(struct simulated_run *run, uint32_t port, void *context),
                             void *context)
{
    const struct wiring *wiring = run->wiring;
    uint32_t number = 0;
    for (size_t s = wiring->first_sends[step]; s < wiring->first_sends[step + 1]; s++) {
        const struct wiring_link *link = &wiring->links[wiring->sends[s].link];
        uint32_t port = run->first_ports[wiring->sends[s].link];
        for (uint32_t p = 0; p < link->port_count; p++, number++, port++) {
            if (port == link->first_port + link->port_count) port = link->first_port;
            if (skip != NULL && number < *skip) continue;
            if (!each(run, port, context)) return false;
            if (skip != NULL) (*skip)++;
        }
    }
    return true;
}

/* Whether the message goes neither by reference nor straight to memory of its receivers. */
static inline bool goes_through_links(struct simulated_run *run, uint32_t port_index, void *context)
{
    const struct simulated_message *message = context;
    const struct port *port = &run->ports[port_index];
    const struct rank_plan *plan = run->ranks[port->from].plan;
    const struct model_work work = work_of_port(run, port, message->step, message->bytes);
    if (!work.is_reference) return true;
    return work.may_place && placement_of_step(plan, (uint32_t)(message->step - plan->steps),
                                               false) == PLACEMENT_PLACES;
}

/* Whether a step copies input and sends it. Then, if all receivers reach the input, the message
 * goes as a whole from there, before it is copied. */
static inline bool copies_input(const struct rank_plan *plan, const struct plan_step *step)
{
    const struct plan_source *source = &plan->sources[step->first_source];
    return step->source_count == 1 && !source->is_link && source->location.buffer == PLAN_INPUT &&
           step->has_destination && step->destination.buffer == PLAN_OUTPUT;
}

#endif
