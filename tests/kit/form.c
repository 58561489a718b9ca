#include "tests/kit/form.h"

const char *form_name(enum form form)
{
    static const char *const names[FORM_COUNT] = {"blocking", "started", "prepared", "grouped"};
    return names[form];
}

/* The form that is wanted of tutti_NAME. */
#define ISSUE(name, ...)                                                         \
    (form == STARTED    ? tutti_##name##_start(__VA_ARGS__, o, comm, request)    \
     : form == PREPARED ? tutti_##name##_prepare(__VA_ARGS__, o, comm, prepared) \
     : o != NULL        ? tutti_##name##_with(__VA_ARGS__, o, comm)              \
                        : tutti_##name(__VA_ARGS__, comm))

static enum tutti_status issue_list(enum form form, const struct form_call *c,
                                    struct tutti_comm *comm, struct tutti_request **request,
                                    struct tutti_prepared **prepared)
{
    const struct tutti_list *const send = c->send_list, *const recv = c->recv_list;
    const struct tutti_call_options *const o = c->call.options;
    const enum tutti_dtype dtype = c->call.dtype;
    const int root = c->call.root;
    switch (c->call.collective) {
    case COLLECTIVE_ALLREDUCE: return ISSUE(allreduce_list, send, recv, dtype, c->call.op);
    case COLLECTIVE_REDUCE: return ISSUE(reduce_list, send, recv, dtype, c->call.op, root);
    case COLLECTIVE_BROADCAST: return ISSUE(broadcast_list, send, recv, dtype, root);
    case COLLECTIVE_GATHER: return ISSUE(gather_list, send, recv, dtype, root);
    case COLLECTIVE_SCATTER: return ISSUE(scatter_list, send, recv, dtype, root);
    case COLLECTIVE_ALLGATHER: return ISSUE(allgather_list, send, recv, dtype);
    case COLLECTIVE_REDUCE_SCATTER:
        return ISSUE(reduce_scatter_list, send, recv, dtype, c->call.op);
    case COLLECTIVE_ALLTOALL: return ISSUE(alltoall_list, send, recv, dtype);
    default: return TUTTI_INTERNAL;
    }
}

static enum tutti_status issue_varying(enum form form, const struct form_call *c,
                                       struct tutti_comm *comm, struct tutti_request **request,
                                       struct tutti_prepared **prepared)
{
    const void *const send = c->call.send;
    void *const recv = c->call.recv;
    const struct tutti_call_options *const o = c->call.options;
    const enum tutti_dtype dtype = c->call.dtype;
    const int root = c->call.root;
    const size_t own = c->call.count;
    switch (c->call.collective) {
    case COLLECTIVE_GATHER:
        return ISSUE(gatherv, send, own, recv, c->recv_counts, c->recv_displs, dtype, root);
    case COLLECTIVE_SCATTER:
        return ISSUE(scatterv, send, c->send_counts, c->send_displs, recv, own, dtype, root);
    case COLLECTIVE_ALLGATHER:
        return ISSUE(allgatherv, send, recv, c->recv_counts, c->recv_displs, dtype);
    case COLLECTIVE_REDUCE_SCATTER:
        return ISSUE(reduce_scatterv, send, recv, c->send_counts, dtype, c->call.op);
    case COLLECTIVE_ALLTOALL:
        return ISSUE(alltoallv, send, c->send_counts, c->send_displs, recv, c->recv_counts,
                     c->recv_displs, dtype);
    default: return TUTTI_INTERNAL;
    }
}

enum tutti_status form_issue(enum form form, const struct form_call *c, struct tutti_comm *comm,
                             struct tutti_request **request, struct tutti_prepared **prepared)
{
    if (c->shape == CALL_LIST) return issue_list(form, c, comm, request, prepared);
    if (c->shape == CALL_VARYING) return issue_varying(form, c, comm, request, prepared);
    if (form == STARTED) return test_call_start(&c->call, comm, request);
    if (form == PREPARED) return test_call_prepare(&c->call, comm, prepared);
    return c->call.options != NULL ? test_call(&c->call, comm) : test_call_plain(&c->call, comm);
}

enum tutti_status form_run(enum form form, const struct form_call *c, struct tutti_comm *comm,
                           struct tutti_prepared **prepared)
{
    struct tutti_request *request = NULL;
    enum tutti_status status = TUTTI_OK;
    if (form == GROUPED) status = tutti_group_begin();
    if (status == TUTTI_OK && (form != PREPARED || *prepared == NULL))
        status = form_issue(form, c, comm, &request, prepared);
    if (form == GROUPED) {
        const enum tutti_status ended = tutti_group_end();
        return status != TUTTI_OK ? status : ended;
    }
    if (status == TUTTI_OK && form == PREPARED) status = tutti_start(*prepared, &request);
    return status == TUTTI_OK && request != NULL ? tutti_wait(&request) : status;
}
