#include "call/calls_init.h"

#include "base/held.h"
#include "call/communicator.h"
#include "call/progress.h"
#include "call/wait_loop.h"
#include "engine/footprint.h"
#include "health/lock.h"
#include "os/clock.h"

void calls_init(struct tutti_comm *comm)
{
    pthread_mutex_init(&comm->requests.lock, NULL);
    comm->calls.blocking.base.comm = comm;
}

void calls_open(struct tutti_comm *comm)
{
    operation_init(&comm->calls.blocking.operation, team_spin_budget(&comm->team));
}

void calls_finish(struct tutti_comm *comm)
{
    atomic_store_explicit(&comm->gated.finish_ns, clock_now_ns(), memory_order_relaxed);
    while (communicator_has_requests(comm)) {
        struct tutti_request *request = NULL;
        if (domain_try_lock(&comm->team.domain)) {
            calls_progress(comm);
            request = comm->calls.running_count > 0 ? &comm->calls.order[0]->base
                                                    : message_watch_any(&comm->messages.watch);
            health_unlock(&comm->health);
        }
        if (request != NULL) call_await_started(comm, request);
    }
}

bool calls_were_busy(struct tutti_comm *comm)
{
    if (pthread_mutex_trylock(&comm->requests.lock) != 0) return true;
    pthread_mutex_unlock(&comm->requests.lock);
    return false;
}

void calls_close(struct tutti_comm *comm)
{
    operation_release(&comm->calls.blocking.operation);
    requests_free(comm);
    call_programs_free(comm);
    messages_free(comm);
    pthread_mutex_destroy(&comm->requests.lock);
}

static size_t call_bytes(const struct call_request *request)
{
    return held(request->call->extra) + operation_bytes(&request->operation);
}

void calls_footprint(const struct tutti_comm *comm, struct tutti_footprint *sum)
{
    sum->private_bytes +=
        held(comm->messages.p2p) + operation_bytes(&comm->calls.blocking.operation);
    for (int i = 0; i < PROGRAM_CACHE_SIZE; i++) {
        if (comm->programs.cached[i].program == NULL) continue;
        sum->program_count++;
        sum->private_bytes +=
            held(comm->programs.cached[i].counts) + program_bytes(comm->programs.cached[i].program);
    }
    for (const struct tutti_request *r = comm->requests.all; r != NULL; r = r->next_made)
        sum->private_bytes += held(r) + (r->is_message ? 0 : call_bytes(request_call_const(r)));
}
