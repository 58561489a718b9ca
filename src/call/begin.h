/* begin.h - the beginning of a call, for calls of all forms: its buffers, its record, its
 * number. */
#ifndef TUTTI_CALL_BEGIN_H
#define TUTTI_CALL_BEGIN_H

#include "base/watched.h"
#include "call/communicator.h"

/* 0: what it sends, 1: what it receives. */
static inline struct buffer call_buffer(const struct call *call, int which)
{
    struct buffer buffer = {.base = which == 0 ? (char *)(uintptr_t)call->send : call->recv};
    if (call->extra != NULL && call->extra->segments[which] != NULL) {
        buffer.segments = call->extra->segments[which];
        buffer.segment_count = call->extra->segment_counts[which];
    }
    return buffer;
}

/* Calls of at most so many elements, that take so many passes of the wait loop, take 2 us at most
 * where ranks have a core each: the loop spins. */
enum { SHORT_COUNT_MAX = 512, SHORT_PASSES_MAX = 64 };
static inline bool call_may_be_short(const struct tutti_comm *comm, const struct call *call)
{
    const struct call_description *what = &call->what;
    return !what->started && !what->varies && what->count <= SHORT_COUNT_MAX &&
           domain_may_spin(&comm->team.domain);
}

/* The elements of a v form: of all blocks whose counts this rank has, or of its own block. */
size_t call_all_blocks(const struct tutti_comm *comm, const struct call *call);

/* Records a call, as recorder_begin does. */
static inline void call_record(struct tutti_comm *comm, const struct call *call, uint64_t sequence,
                               int slot, const char *algorithm, uint64_t begin_ticks)
{
    if (!CALLS_ARE_WATCHED) return;
    const struct call_description *what = &call->what;
    const size_t count =
        __builtin_expect(what->varies, 0) ? call_all_blocks(comm, call) : what->count;
    recorder_begin(&comm->health.recorder, sequence, begin_ticks,
                   record_what(what->collective, what->dtype, what->op, slot, what->started,
                               what->varies, (unsigned)what->purpose),
                   count, what->root, what->signature, algorithm);
}

static inline void call_record_request(struct tutti_comm *comm, const struct call_request *request,
                                       uint64_t begin_ticks)
{
    call_record(comm, request->call, request->base.sequence, request->slot,
                request->program->algorithm, begin_ticks);
}

/* The call as the code that watches over calls knows it. */
static inline struct straggler_call call_of_request(const struct call_request *request)
{
    const struct call_description *what = &request->call->what;
    return (struct straggler_call){.slot = request->slot,
                                   .begun = request->begun,
                                   .sequence = request->base.sequence,
                                   .root = collective_is_rooted(what->collective) ? what->root : -1};
}
/* A call is over in which this rank slept, perhaps because of a straggler. */
void call_end_wait(struct tutti_comm *comm, const struct call_request *request);
/* After a failure: blocks until no other rank can still be reading or writing the call's memory.
 * Then its gate, if it has one, is told that it was given up. */
void call_quiesce(struct tutti_comm *comm, struct call_request *request);
/* Does the same for a started call, without waiting for other ranks. False: not yet; ask again, and
 * do nothing else with the call until then. */
bool call_quit(struct tutti_comm *comm, struct call_request *request);

/* Gives the request its slot's links and makes it ready to run; domain held. Then it is to be
 * recorded. */
enum tutti_status call_begin(struct tutti_comm *comm, struct call_request *request);
/* The same for the call that this request began last, and that has ended well: without a gate, in
 * memory of the host, in the same slot. */
enum tutti_status call_begin_again(struct tutti_comm *comm, struct call_request *request);
/* A call that this rank cannot make (refuse.h) takes its number in its slot and is over, as other
 * ranks see; domain held. Then it is in the recorder, without its end. */
void call_begin_refused(struct tutti_comm *comm, struct call *call, int slot, uint64_t sequence);
/* A communicator of one rank: copies the input to the output. For a call without a gate. */
void call_alone(struct tutti_comm *comm, const struct call *call);
/* Does the same for a blocking call with a gate. Returns when the gate has opened, or when the
 * communicator has failed, and has told the gate. */
enum tutti_status call_alone_gated(struct tutti_comm *comm, struct call *call);
/* A started call begins in its slot, and goes on when its gate has opened; domain held. */
void call_begin_alone(struct tutti_comm *comm, struct call_request *request);
enum run_result call_run_alone(struct call_request *request);

#endif
