/* Which seats a worker's call goes to, and which of them count: those of each share, and spares that have asked
 * to be among them. */
#include <stdlib.h>

#include "base/status.h"
#include "server/worker_state.h"

int worker_seats(const struct worker *worker)
{
    return division_seats(worker->config.division);
}

/* ----------------------------------------------------------------------------------- operations */

void operation_free(struct tutti_server_operation *operation)
{
    if (operation == NULL) return;
    for (int s = worker_seats(operation->worker) - 1; s >= 0; s--) leg_release(&operation->legs[s]);
    free(operation->parts);
    free(operation->rows);
    free(operation);
}

struct tutti_server_operation *operation_create(struct worker *worker, const char *function,
                                                enum server_kind kind)
{
    const size_t legs = (size_t)worker_seats(worker);
    struct tutti_server_operation *const operation =
        calloc(1, sizeof *operation + legs * sizeof *operation->legs);
    if (operation == NULL) {
        (void)!error_set(TUTTI_NO_MEMORY, "%s: no memory for a call", function);
        return NULL;
    }
    operation->worker = worker;
    operation->function = function;
    operation->kind = kind;
    return operation;
}

enum tutti_status plain_leg(struct worker_leg *leg, const struct server_request *head)
{
    leg->request = malloc(sizeof *head);
    if (leg->request == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for a request");
    *leg->request = *head;
    leg->request_bytes = sizeof *head;
    return TUTTI_OK;
}

enum tutti_status plain_legs(struct tutti_server_operation *operation,
                             const struct server_request *head)
{
    const struct worker *const worker = operation->worker;
    for (int s = 0; s < worker_seats(worker); s++) {
        if (worker->lines[s].share < 0) continue;
        operation->legs[s].has_no_reply = worker->lines[s].share != 0;
        TRY(plain_leg(&operation->legs[s], head));
    }
    return TUTTI_OK;
}

/* ---------------------------------------------------------------------------------------- shares */

int reader_of(const struct worker *worker, int share)
{
    for (int s = 0; s < worker_seats(worker); s++)
        if (worker->lines[s].share == share && !worker->lines[s].is_lost) return s;
    return share;
}

bool goes_to_one_seat(const struct tutti_server_operation *operation)
{
    return operation->kind == SERVER_PULL || operation->kind == SERVER_RECORD;
}

/* A request without parts of its own, to one seat, and its end. */
static enum tutti_status ask_one(struct worker *worker, int seat, const struct server_request *head,
                                 uint64_t timeout_ns)
{
    struct tutti_server_operation *const own =
        operation_create(worker, "a parameter server", (enum server_kind)head->kind);
    if (own == NULL) return TUTTI_NO_MEMORY;
    struct worker_leg *const leg = &own->legs[seat];
    leg->has_no_reply = head->kind == SERVER_BEGIN;
    enum tutti_status status =
        worker->lines[seat].used == UINT64_MAX ? TUTTI_INVALID_REQUEST : plain_leg(leg, head);
    if (status == TUTTI_OK) {
        leg_start(leg, &worker->lines[seat], timeout_ns);
        (void)leg_finish(leg, true);
        status = leg->status;
    }
    operation_free(own);
    return status;
}

/* All seats of a share to which a call went are gone, perhaps with their answers. A spare that has begun behind
 * the call's clock knows whether that is in a step. */
static bool is_in_a_step(const struct tutti_server_operation *operation, int share, uint64_t clock)
{
    struct worker *const worker = operation->worker;
    const struct server_request head = {
        .kind = SERVER_PULL, .clock = clock + 1, .timeout_ns = worker->config.timeout_ns};
    for (int s = 0; s < worker_seats(worker); s++) {
        const struct worker_line *const line = &worker->lines[s];
        if (line->share == share && operation->legs[s].request == NULL && !line->is_lost &&
            ask_one(worker, s, &head, worker->config.timeout_ns) == TUTTI_OK)
            return true;
    }
    return false;
}

int failed_seat(const struct tutti_server_operation *operation, int share)
{
    const struct worker_line *const lines = operation->worker->lines;
    const struct worker_leg *const legs = operation->legs;
    int failed = -1;
    if (goes_to_one_seat(operation)) return legs[share].status == TUTTI_OK ? -1 : share;
    for (int s = 0; s < worker_seats(operation->worker); s++) {
        if (legs[s].request == NULL || lines[s].share != share) continue;
        if (legs[s].status == TUTTI_OK) return -1;
        if (failed < 0 || (legs[s].is_answered && !legs[failed].is_answered)) failed = s;
    }
    const bool is_of_clock = operation->kind == SERVER_PUSH || operation->kind == SERVER_SET ||
                             operation->kind == SERVER_TICK;
    if (failed >= 0 && is_of_clock && leg_is_lost(&legs[failed]) &&
        is_in_a_step(operation, share, legs[failed].request->clock))
        return -1;
    return failed;
}

/* ---------------------------------------------------------------------------------------- spares */

void worker_await_invitation(struct worker_line *line)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.timeout_ns = UINT64_MAX / 4; /* nobody need ever invite */
    line->message.size_bytes = sizeof line->message;
    if (tutti_recv_start(&line->invitation, sizeof line->invitation, TUTTI_UINT8, line->peer,
                         SERVER_TAG_INVITE, &line->message, &options, line->comm,
                         &line->invited) != TUTTI_OK)
        line->is_lost = true;
}

void worker_await_no_invitation(struct worker_line *line)
{
    if (line->invited == NULL || tutti_cancel(&line->invited) == TUTTI_OK) return;
    if (line->invited != NULL) (void)!tutti_wait(&line->invited);
}

/* The share for which a spare has asked for updates; -1: for none. */
static int invited_to(const struct worker *worker, struct worker_line *line)
{
    if (line->invited == NULL) return -1;
    const enum tutti_status status = tutti_test(&line->invited);
    if (status == TUTTI_IN_PROGRESS) return -1;
    const uint64_t share = line->invitation.member_count;
    line->is_lost = status != TUTTI_OK ||
                    server_reply_read(&line->invitation, line->message.count, 0) != TUTTI_OK ||
                    share >= (uint64_t)worker->config.division->server_count;
    return line->is_lost ? -1 : (int)share;
}

void worker_begin_with_spares(struct worker *worker)
{
    char before[ERROR_TEXT_MAX];
    error_copy(before, sizeof before);
    const struct server_request head = {.kind = SERVER_BEGIN, .clock = worker->clock};
    for (int s = 0; s < worker_seats(worker); s++) {
        struct worker_line *const line = &worker->lines[s];
        const int share = line->share < 0 && !line->is_lost ? invited_to(worker, line) : -1;
        if (share >= 0 && ask_one(worker, s, &head, worker->config.timeout_ns) == TUTTI_OK)
            line->share = share;
    }
    (void)error_unless_ok(TUTTI_OK, before);
}
