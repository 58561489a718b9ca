/* work.h - the costs of messages and steps for the cores of their ranks: the rows of path tables,
 * and copies and sums of a machine.
 *
 * A message takes the first path of its table that its plan and its memory allow, as in binding.
 * Neglected: storing in a receiver's memory over a network (PATH_DIRECT) and forwarding in place,
 * which depend on when receivers come; such a message costs as much as by its next path.
 *
 * Lines change hands: a core that stores where another core has read takes those lines back first,
 * at two latencies for a dozen of them. That applies to sums in slots of links, and to results that
 * are read where they lie. Ranks on one core share their lines.
 *
 * A part of the latency between two cores of a host is the receiver's work: it finds a message only
 * by loading the line that announces it, and loads the line of the next link afterwards. So a rank
 * that receives from many takes as many latencies, even if all messages were sent at once.
 *
 * A message between hosts costs a rank that shares its core three times what its row says.
 */
#ifndef TUTTI_MODEL_WORK_H
#define TUTTI_MODEL_WORK_H

#include "model/machine.h"
#include "plan/flow.h"
#include "plan/plan.h"

/* The work of a message. */
struct model_work {
    struct path_cost cost;
    bool is_computed; /* by its step, straight to its place: the copy that the row counts is not made */
    bool is_reference; /* it costs its sender once, not once a piece, and is over when it is consumed */
    bool may_place;           /* its receivers may have said where in their memory they want it */
    bool is_placed;           /* it is stored there, piece by piece, by the step that computes it */
    struct path_cost placing; /* the cost, then */
    bool is_once;             /* its bytes are copied once for all of its receivers */
    bool is_found;            /* by loading a line that its sender has stored to */
    bool may_forward;         /* in the place in which it came, on any link */
    bool is_shared; /* its receiver reads it where its sender stores it: another core then has lines that the next one needs */
    bool is_asked; /* its sender asks its receiver for a place first, unless an earlier message is still under way there */
    uint64_t answer_bytes; /* of its receiver's own data lie before the answer, at most */
    unsigned in_flight; /* references that it is cut into while it is computed; otherwise pieces under way; 0: any number */
};

/* A rank that sends. */
struct model_sender {
    struct plan_flow flow;
    bool shares_core;
    /* The last answers, since the next answers are often the same: a step asks for all of its
     * receivers, and for similar messages. */
    struct model_answer {
        const struct plan_step *step; /* NULL: none yet */
        uint64_t bytes;
        struct path_case message;
        unsigned memory; /* of enum path_memory; 0: the message lies nowhere */
        struct model_work work;
    } answers[MODEL_DISTANCES];
};

/* The effort of a piece of work: time of a core, and bytes that it reads from or writes to
 * memory. */
struct model_effort {
    uint64_t core_ps, memory_bytes;
};

void model_sender_init(struct model_sender *sender, const struct model_machine *machine,
                       const struct rank_plan *rank_plan, bool shares_core);
/* The cost of a message between hosts by that path for both its ranks, without the cost of its bytes. */
uint64_t model_path_ps(const struct path_row *row, bool shares_core);
struct model_work model_work_of(struct model_sender *sender, const struct model_machine *machine,
                                const struct rank_plan *rank_plan, const struct plan_step *step,
                                enum model_distance distance, uint64_t bytes);
/* The same message if its sender places it, which model_work_of does not assume. */
struct model_work model_work_placed(const struct model_work *work);

/* The case of a piece of a message on a link, for the rank that sends it. */
struct model_sent {
    bool is_first;    /* piece of its message */
    bool is_repeated; /* its bytes are in their place already, for another receiver */
    bool is_retaken;  /* it is stored in places that another core has read */
    bool is_late;     /* its link had no room when it was computed, so it is copied from memory */
};
struct model_effort model_effort_of_sender(const struct model_machine *machine,
                                           const struct model_work *work, uint64_t bytes,
                                           struct model_sent sent);
/* The effort of a piece of a step, without its messages. */
struct model_effort model_effort_of_step(const struct model_machine *machine,
                                         const struct rank_plan *rank_plan,
                                         const struct plan_step *step, uint64_t bytes);
/* Readers of a step's result, where the step stores it. */
struct model_result_use {
    bool is_read_elsewhere; /* by another core, now and in the call before: its lines are there, and the step has to take them back */
    bool is_read_soon; /* by receivers of the step's own message: it is not stored past the caches, so what is in none is read before */
};
void model_add_result(struct model_effort *effort, const struct model_machine *machine,
                      const struct model_result_use *use, uint64_t bytes);
/* The case of a piece of a message on a link, for the rank that receives it. */
struct model_received {
    bool is_first; /* piece of its message */
    bool crosses;  /* it comes from another core of the host */
};
/* Adds the effort of a rank that receives a message. Bytes that are added to something else are
 * read where they lie, and not copied before. */
void model_add_receiver(struct model_effort *effort, const struct model_machine *machine,
                        const struct model_work *work, const struct plan_step *step, uint64_t bytes,
                        struct model_received received);
/* The time that the receiver's core takes to load the line that announces such a message of another
 * core. The time is part of the latency between the cores, so the message comes by as much earlier.
 * Lines of further pieces lie behind it, and are there when they are needed. */
uint64_t model_fetch_ps(const struct model_machine *machine, const struct model_work *work);

#endif
