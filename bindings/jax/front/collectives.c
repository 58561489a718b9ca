#include <stdlib.h>
#include <string.h>

#include "front/comm.h"
#include "front/product.h"
#include "front/start.h"
#include "front/types.h"

extern void *const MPIABI_IN_PLACE;

static int refuse_in_place(const char *function, const void *buffer)
{
    if (buffer != MPIABI_IN_PLACE) return FRONT_SUCCESS;
    return front_fail(FRONT_ERR_UNSUPPORTED_OPERATION, function,
                      "MPI_IN_PLACE is not provided by Tutti's JAX front here");
}

int MPIABI_Barrier(front_handle comm)
{
    static const char function[] = "MPI_Barrier";
    struct tutti_comm *found;
    FRONT_TRY(front_comm_enter(function, comm, &found));
    return front_leave(front_result(function, tutti_barrier(found)));
}

int MPIABI_Bcast(void *buffer, int count, front_handle type, int root, front_handle comm)
{
    static const char function[] = "MPI_Bcast";
    struct tutti_comm *found;
    const struct front_type_entry *entry;
    size_t elements;
    FRONT_TRY(front_type_find(function, type, &entry));
    FRONT_TRY(front_elements(function, entry, count, &elements));
    FRONT_TRY(front_comm_enter(function, comm, &found));
    return front_leave(front_result(
        function, tutti_broadcast(buffer, buffer, elements, entry->dtype, root, found)));
}

int MPIABI_Allreduce(const void *send, void *recv, int count, front_handle type, front_handle op,
                     front_handle comm)
{
    static const char function[] = "MPI_Allreduce";
    struct tutti_comm *found;
    const struct front_type_entry *entry;
    size_t elements;
    tutti_op operation;
    FRONT_TRY(front_type_find(function, type, &entry));
    FRONT_TRY(front_elements(function, entry, count, &elements));
    FRONT_TRY(front_op_find(function, op, entry, &operation));
    if (send == MPIABI_IN_PLACE) send = recv;
    FRONT_TRY(front_comm_enter(function, comm, &found));
    if (operation == NULL)
        return front_leave(front_product(function, send, recv, (size_t)count, entry, found));
    return front_leave(front_result(
        function, tutti_allreduce(send, recv, elements, entry->dtype, operation, found)));
}

/* Of two collectives whose blocks are all alike. */
static int equal_blocks(const char *function,
                        enum tutti_status (*call)(const void *, void *, size_t, enum tutti_dtype,
                                                  struct tutti_comm *),
                        const void *send, int send_count, front_handle send_type, void *recv,
                        int recv_count, front_handle recv_type, front_handle comm)
{
    struct tutti_comm *found;
    size_t elements;
    enum tutti_dtype dtype;
    FRONT_TRY(refuse_in_place(function, send));
    FRONT_TRY(front_same_elements(function, send_count, send_type, recv_count, recv_type, &elements,
                                  &dtype));
    FRONT_TRY(front_comm_enter(function, comm, &found));
    return front_leave(front_result(function, call(send, recv, elements, dtype, found)));
}

int MPIABI_Allgather(const void *send, int send_count, front_handle send_type, void *recv,
                     int recv_count, front_handle recv_type, front_handle comm)
{
    return equal_blocks("MPI_Allgather", tutti_allgather, send, send_count, send_type, recv,
                        recv_count, recv_type, comm);
}

int MPIABI_Alltoall(const void *send, int send_count, front_handle send_type, void *recv,
                    int recv_count, front_handle recv_type, front_handle comm)
{
    return equal_blocks("MPI_Alltoall", tutti_alltoall, send, send_count, send_type, recv,
                        recv_count, recv_type, comm);
}

/* ------------------------------------------------------------------- blocks of different counts */

/* Counts or displacements of all ranks, as Tutti has them. */
static int widen(const char *function, const struct front_type_entry *type, const int *numbers,
                 int rank_count, size_t *wide)
{
    for (int i = 0; i < rank_count; i++)
        FRONT_TRY(front_elements(function, type, numbers[i], &wide[i]));
    return FRONT_SUCCESS;
}

/* Room for `arrays` arrays of all ranks' numbers; the caller frees it. */
static int make_room(const char *function, int rank_count, int arrays, size_t **room)
{
    *room = calloc((size_t)rank_count * (size_t)arrays, sizeof(**room));
    return *room != NULL ? FRONT_SUCCESS
                         : front_fail(FRONT_ERR_NO_MEM, function, "no memory for %d ranks' counts",
                                      rank_count);
}

static int allgatherv(const char *function, const void *send, int send_count,
                      front_handle send_type, void *recv, const int *recv_counts,
                      const int *recv_displs, front_handle recv_type, struct tutti_comm *comm)
{
    const struct front_type_entry *entry;
    size_t elements, *room;
    enum tutti_dtype dtype;
    const int n = tutti_comm_size(comm), own = recv_counts[tutti_comm_rank(comm)];
    FRONT_TRY(
        front_same_elements(function, send_count, send_type, own, recv_type, &elements, &dtype));
    FRONT_TRY(front_type_find(function, recv_type, &entry));
    FRONT_TRY(make_room(function, n, 2, &room));
    int error = widen(function, entry, recv_counts, n, room);
    if (error == FRONT_SUCCESS) error = widen(function, entry, recv_displs, n, room + n);
    if (error == FRONT_SUCCESS)
        error = front_result(function, tutti_allgatherv(send, recv, room, room + n, dtype, comm));
    free(room);
    return error;
}

int MPIABI_Allgatherv(const void *send, int send_count, front_handle send_type, void *recv,
                      const int *recv_counts, const int *recv_displs, front_handle recv_type,
                      front_handle comm)
{
    static const char function[] = "MPI_Allgatherv";
    struct tutti_comm *found;
    FRONT_TRY(refuse_in_place(function, send));
    FRONT_TRY(front_comm_enter(function, comm, &found));
    return front_leave(allgatherv(function, send, send_count, send_type, recv, recv_counts,
                                  recv_displs, recv_type, found));
}

int MPIABI_Alltoallv(const void *send, const int *send_counts, const int *send_displs,
                     front_handle send_type, void *recv, const int *recv_counts,
                     const int *recv_displs, front_handle recv_type, front_handle comm)
{
    static const char function[] = "MPI_Alltoallv";
    struct tutti_comm *found;
    const struct front_type_entry *sent, *received;
    size_t *room;
    FRONT_TRY(refuse_in_place(function, send));
    FRONT_TRY(front_type_find(function, send_type, &sent));
    FRONT_TRY(front_type_find(function, recv_type, &received));
    if (sent->dtype != received->dtype)
        return front_fail(FRONT_ERR_TYPE, function, "%s are sent, and %s received", sent->name,
                          received->name);
    FRONT_TRY(front_comm_enter(function, comm, &found));
    const int n = tutti_comm_size(found);
    int error = make_room(function, n, 4, &room);
    if (error != FRONT_SUCCESS) return front_leave(error);
    error = widen(function, sent, send_counts, n, room);
    if (error == FRONT_SUCCESS) error = widen(function, sent, send_displs, n, room + n);
    if (error == FRONT_SUCCESS) error = widen(function, received, recv_counts, n, room + 2 * n);
    if (error == FRONT_SUCCESS) error = widen(function, received, recv_displs, n, room + 3 * n);
    if (error == FRONT_SUCCESS)
        error = front_result(function, tutti_alltoallv(send, room, room + n, recv, room + 2 * n,
                                                       room + 3 * n, sent->dtype, found));
    free(room);
    return front_leave(error);
}

/* ------------------------------------------------------------------------------- reduce-scatter */

/* The product of all blocks, of which this rank keeps its own. */
static int product_scatter(const char *function, const void *send, void *recv, const size_t *counts,
                           int rank_count, const struct front_type_entry *entry,
                           struct tutti_comm *comm)
{
    const int own = tutti_comm_rank(comm);
    size_t total = 0, before = 0;
    for (int i = 0; i < rank_count; i++) {
        if (i < own) before += counts[i];
        total += counts[i];
    }
    const size_t element_bytes = tutti_dtype_size(entry->dtype);
    char *all = malloc(total * element_bytes + 1);
    if (all == NULL) return front_fail(FRONT_ERR_NO_MEM, function, "no memory for the products");
    const int error = front_product(function, send, all, total / 2, entry, comm);
    if (error == FRONT_SUCCESS)
        memcpy(recv, all + before * element_bytes, counts[own] * element_bytes);
    free(all);
    return error;
}

static int reduce_scatter(const char *function, const void *send, void *recv, const size_t *counts,
                          int rank_count, const struct front_type_entry *entry, front_handle op,
                          struct tutti_comm *comm)
{
    tutti_op operation;
    FRONT_TRY(front_op_find(function, op, entry, &operation));
    if (operation == NULL)
        return product_scatter(function, send, recv, counts, rank_count, entry, comm);
    for (int i = 1; i < rank_count; i++)
        if (counts[i] != counts[0])
            return front_result(
                function, tutti_reduce_scatterv(send, recv, counts, entry->dtype, operation, comm));
    return front_result(function,
                        tutti_reduce_scatter(send, recv, counts[0], entry->dtype, operation, comm));
}

/* Where each rank's count stands apart from the next one's by `stride` ints: 1, or 0 for one count
 * for all. */
static int reduce_blocks(const char *function, const void *send, void *recv, const int *counts,
                         int stride, front_handle type, front_handle op, front_handle comm)
{
    struct tutti_comm *found;
    const struct front_type_entry *entry;
    size_t *room;
    FRONT_TRY(refuse_in_place(function, send));
    FRONT_TRY(front_type_find(function, type, &entry));
    FRONT_TRY(front_comm_enter(function, comm, &found));
    const int n = tutti_comm_size(found);
    int error = make_room(function, n, 1, &room);
    if (error != FRONT_SUCCESS) return front_leave(error);
    for (int i = 0; i < n && error == FRONT_SUCCESS; i++)
        error = front_elements(function, entry, counts[i * stride], &room[i]);
    if (error == FRONT_SUCCESS)
        error = reduce_scatter(function, send, recv, room, n, entry, op, found);
    free(room);
    return front_leave(error);
}

int MPIABI_Reduce_scatter(const void *send, void *recv, const int *recv_counts, front_handle type,
                          front_handle op, front_handle comm)
{
    return reduce_blocks("MPI_Reduce_scatter", send, recv, recv_counts, 1, type, op, comm);
}

int MPIABI_Reduce_scatter_block(const void *send, void *recv, int recv_count, front_handle type,
                                front_handle op, front_handle comm)
{
    return reduce_blocks("MPI_Reduce_scatter_block", send, recv, &recv_count, 0, type, op, comm);
}
