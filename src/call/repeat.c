#include "call/repeat.h"

#include "base/op.h"
#include "call/communicator.h"
#include "gpu/gpu.h"

bool repeat_is(const struct tutti_comm *comm, const struct arguments *arguments)
{
    const struct repeated_call *const repeated = &comm->calls.repeated;
    const struct call *const call = &repeated->call;
    return repeated->program != NULL && repeated->forgotten == comm->programs.forgotten &&
           call->send == arguments->send && call->recv == arguments->recv &&
           call->what.count == arguments->count && call->op == op_resolve(arguments->op) &&
           call->what.collective == arguments->collective && call->what.dtype == arguments->dtype &&
           call->what.root == arguments->root &&
           atomic_load_explicit(&gpu_in_use, memory_order_acquire) == NULL;
}

/* Whether it is what the function without options asks for, and nothing else. */
static bool is_plain(const struct tutti_comm *comm, const struct call *call)
{
    return call->extra == NULL && call->algorithm == NULL && call->refused == TUTTI_OK &&
           call_wishes_word(&call->wishes) == 0 && call->priority == 0 &&
           call->timeout_ns == comm->team.settings.timeout_ns &&
           call->deterministic == comm->team.settings.deterministic && !call->what.started &&
           !call->what.varies && call->what.purpose == CALL_FOR_USER && call->op->serial == 0;
}

void repeat_forget(struct tutti_comm *comm)
{
    comm->calls.repeated.program = NULL;
    comm->calls.repeated.is_prepared = false;
}

void repeat_note(struct tutti_comm *comm, const struct call *call, struct program *program,
                 bool is_large)
{
    struct repeated_call *const repeated = &comm->calls.repeated;
    if (!repeat_is_likely(repeated, call->send, call->what.count)) {
        atomic_store_explicit(&repeated->send, (uintptr_t)call->send, memory_order_relaxed);
        atomic_store_explicit(&repeated->count, call->what.count, memory_order_relaxed);
        return;
    }
    if (!is_plain(comm, call)) return;
    repeated->call = *call;
    repeated->program = program;
    repeated->is_large = is_large;
    repeated->forgotten = comm->programs.forgotten;
}
