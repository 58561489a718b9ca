#include "tests/faults/fault_operate.h"

#include <stdlib.h>
#include <string.h>

#include "base/op.h"
#include "tests/kit/elements.h"

enum { POISON = 0x5b };

/* Where the elements of an operation begin in their tables: no two in a row give the same. */
static size_t first_index(const struct fault_work *work)
{
    return (size_t)work->index * 13;
}

/* -------------------------------------------------------------------------------------- buffers */

static void *take(const struct fault_work *work, size_t bytes)
{
    void *memory = NULL;
    if (work->mapped) return tutti_mem_alloc(bytes, &memory) == TUTTI_OK ? memory : NULL;
    return malloc(bytes);
}

static void give_back(const struct fault_work *work, void *memory)
{
    if (work->mapped)
        (void)tutti_mem_free(memory);
    else
        free(memory);
}

static void fill(const struct fault_work *work, void *send, size_t count)
{
    struct elements table;
    const struct fault_operation *o = work->operation;
    if (o->call < COLLECTIVE_COUNT && collective_reduces((enum collective)o->call))
        elements_contribution(&table, o->dtype, o->op, work->rank, work->size);
    else
        elements_bytes(&table, o->dtype, work->rank);
    elements_fill(send, &table, first_index(work), count);
}

/* In place, the smaller buffer is one block of the larger one. */
static void place_buffers(struct fault_work *work)
{
    const struct fault_operation *o = work->operation;
    const enum collective collective = (enum collective)o->call;
    const size_t block_bytes = o->count * tutti_dtype_size(o->dtype);
    char *send = work->memory[0], *recv = work->memory[1];
    size_t send_blocks = 1, recv_blocks = 1;
    if (o->call < COLLECTIVE_COUNT) {
        send_blocks = test_send_blocks(collective, work->rank, work->size, work->call.root);
        recv_blocks = test_recv_blocks(collective, work->rank, work->size, work->call.root);
    }
    if (o->in_place && !work->disagrees && send_blocks > 0 && recv_blocks > 0 &&
        o->call < COLLECTIVE_COUNT) {
        const size_t offset = test_in_place_block(collective, work->rank) * block_bytes;
        send = recv;
        if (recv_blocks > send_blocks) send += offset;
        if (send_blocks > recv_blocks) recv += offset;
    }
    fill(work, send, send_blocks * o->count);
    work->call.send = send;
    work->call.recv = recv;
}

/* --------------------------------------------------------------------------------- disagreement */

static void disagree(struct fault_work *work, int difference)
{
    struct test_call *const call = &work->call;
    work->disagrees = true;
    if (difference == FAULT_OTHER_COUNT) call->count--;
    if (difference == FAULT_OTHER_DTYPE)
        call->dtype = call->dtype == TUTTI_INT8 ? TUTTI_UINT8 : TUTTI_INT8;
    if (difference == FAULT_OTHER_ROOT) call->root = (call->root + 1) % work->size;
}

/* A barrier, or where all call that, an allreduce. */
static void call_another(struct fault_work *work)
{
    struct test_call *const call = &work->call;
    work->disagrees = true;
    if (call->collective == COLLECTIVE_BARRIER)
        *call = (struct test_call){.collective = COLLECTIVE_ALLREDUCE,
                                   .send = call->send,
                                   .recv = call->recv,
                                   .count = 1,
                                   .dtype = TUTTI_INT8,
                                   .op = TUTTI_SUM};
    else
        call->collective = COLLECTIVE_BARRIER;
}

bool fault_work_init(struct fault_work *work, const struct fault_operation *o, int index,
                     struct tutti_comm *comm, int difference, bool desync)
{
    *work = (struct fault_work){.operation = o,
                                .index = index,
                                .rank = tutti_comm_rank(comm),
                                .size = tutti_comm_size(comm),
                                .mapped = o->mapped};
    work->call = (struct test_call){.collective = (enum collective)o->call,
                                    .count = o->count,
                                    .dtype = o->dtype,
                                    .op = op_handle(op_builtin(o->op)),
                                    .root = o->root % work->size};
    const size_t bytes =
        o->count * tutti_dtype_size(o->dtype) * (size_t)fault_operation_blocks(o, work->size) + 1;
    for (int i = 0; i < 2; i++) {
        work->memory[i] = take(work, bytes);
        if (work->memory[i] == NULL) {
            fault_work_release(work);
            return false;
        }
        memset(work->memory[i], POISON, bytes);
    }
    if (difference >= 0 && work->size > 1) disagree(work, difference);
    place_buffers(work);
    if (desync && work->size > 1) call_another(work);
    return true;
}

void fault_work_release(struct fault_work *work)
{
    for (int i = 0; i < 2; i++) {
        if (work->memory[i] != NULL) give_back(work, work->memory[i]);
        work->memory[i] = NULL;
    }
}

/* -------------------------------------------------------------------------------------- results */

/* What block `block` of the output is to be, of a communicator in which this rank is `rank` of
 * `size`. */
static bool block_is_right(const struct fault_work *work, int block, int rank, int size)
{
    const struct fault_operation *o = work->operation;
    const char *const data =
        (const char *)work->call.recv + (size_t)block * o->count * tutti_dtype_size(o->dtype);
    struct elements table;
    size_t index = first_index(work);
    switch (o->call) {
    case COLLECTIVE_BROADCAST: elements_bytes(&table, o->dtype, work->call.root); break;
    case COLLECTIVE_SCATTER:
        elements_bytes(&table, o->dtype, work->call.root);
        index += (size_t)rank * o->count;
        break;
    case COLLECTIVE_ALLTOALL:
        elements_bytes(&table, o->dtype, block);
        index += (size_t)rank * o->count;
        break;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER: elements_bytes(&table, o->dtype, block); break;
    case FAULT_CALL_MESSAGE: elements_bytes(&table, o->dtype, rank); break; /* of the sender */
    case COLLECTIVE_REDUCE_SCATTER: index += (size_t)rank * o->count;       /* fallthrough */
    default: elements_result(&table, o->dtype, o->op, size); break;
    }
    return elements_first_wrong(data, &table, index, o->count) == o->count;
}

static bool result_is_right(const struct fault_work *work)
{
    const int blocks = (int)test_recv_blocks((enum collective)work->operation->call, work->rank,
                                             work->size, work->call.root);
    for (int block = 0; block < blocks; block++)
        if (!block_is_right(work, block, work->rank, work->size)) return false;
    return true;
}

/* ---------------------------------------------------------------------------------------- calls */

static int distance(const struct fault_work *work)
{
    return work->size == 1 ? 0 : 1 + work->operation->root % (work->size - 1);
}

static void begin_messages(struct fault_work *work, struct tutti_comm *comm)
{
    const struct test_call *c = &work->call;
    const int to = (work->rank + distance(work)) % work->size;
    const int from = (work->rank - distance(work) + work->size) % work->size;
    work->status = tutti_recv_start(c->recv, c->count, c->dtype, from, work->index, NULL, NULL,
                                    comm, &work->requests[0]);
    if (work->status == TUTTI_OK)
        work->status = tutti_send_start(c->send, c->count, c->dtype, to, work->index, NULL, comm,
                                        &work->requests[1]);
}

/* A communicator made from this one, an allreduce on it, and its end. The contribution is that of a
 * rank of the new one. */
static void use_another_comm(struct fault_work *work, struct tutti_comm *comm)
{
    const struct test_call *c = &work->call;
    struct tutti_comm *made;
    struct elements table;
    work->status = work->operation->call == FAULT_CALL_DUP
                       ? tutti_comm_dup(comm, NULL, &made)
                       : tutti_comm_split(comm, work->rank % 2, -work->rank, NULL, &made);
    if (work->status != TUTTI_OK) return;
    const int size = tutti_comm_size(made), rank = tutti_comm_rank(made);
    elements_contribution(&table, c->dtype, work->operation->op, rank, size);
    elements_fill(work->memory[0], &table, first_index(work), c->count);
    work->status = tutti_allreduce(c->send, c->recv, c->count, c->dtype, c->op, made);
    if (work->status == TUTTI_OK) work->is_wrong = !block_is_right(work, 0, rank, size);
    const enum tutti_status freed = tutti_comm_free(made);
    if (work->status == TUTTI_OK) work->status = freed;
}

void fault_work_begin(struct fault_work *work, struct tutti_comm *comm)
{
    if (work->operation->call == FAULT_CALL_MESSAGE)
        begin_messages(work, comm);
    else if (work->operation->call >= FAULT_CALL_DUP)
        use_another_comm(work, comm);
    else if (work->operation->started)
        work->status = test_call_start(&work->call, comm, &work->requests[0]);
    else
        work->status = test_call(&work->call, comm);
}

enum tutti_status fault_work_end(struct fault_work *work)
{
    for (int i = 0; i < 2; i++) {
        if (work->requests[i] == NULL) continue;
        const enum tutti_status status = tutti_wait(&work->requests[i]);
        if (work->status == TUTTI_OK) work->status = status;
    }
    if (work->status != TUTTI_OK || work->disagrees) return work->status;
    if (work->operation->call == FAULT_CALL_MESSAGE) {
        const int from = (work->rank - distance(work) + work->size) % work->size;
        work->is_wrong = !block_is_right(work, 0, from, work->size);
    } else if (work->operation->call < COLLECTIVE_COUNT) {
        work->is_wrong = !result_is_right(work);
    }
    return work->status;
}
