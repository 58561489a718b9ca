#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "front/comm.h"
#include "front/handles.h"
#include "front/start.h"
#include "front/types.h"

/* A message under way, as MPI_Request names it. */
struct front_request {
    struct tutti_request *request; /* NULL: to or from MPI_PROC_NULL, and done */
    struct tutti_message message;  /* Tutti fills it for a receive */
    size_t element_bytes;
    const char *function; /* which started it */
};

static void fill_status(struct front_status *status, int source, int tag, size_t size_bytes,
                        int error)
{
    if (status == NULL) return;
    memset(status, 0, sizeof(*status));
    status->source = source;
    status->tag = tag;
    status->size_bytes = size_bytes;
    status->error = error;
}

/* ------------------------------------------------------------------------------------- starting */

/* Checks for both directions; after a success there is a call to leave. */
static int prepare(const char *function, int count, front_handle type, front_handle comm,
                   struct front_request *request, const struct front_type_entry **entry,
                   size_t *elements, struct tutti_comm **found)
{
    FRONT_TRY(front_type_find(function, type, entry));
    FRONT_TRY(front_elements(function, *entry, count, elements));
    *request = (struct front_request){.function = function,
                                      .element_bytes = tutti_dtype_size((*entry)->dtype)};
    request->message.size_bytes = sizeof(request->message);
    request->message.source = FRONT_PROC_NULL;
    request->message.tag = FRONT_ANY;
    return front_comm_enter(function, comm, found);
}

static int start_send(const char *function, const void *buffer, int count, front_handle type,
                      int peer, int tag, front_handle comm, struct front_request *request)
{
    const struct front_type_entry *entry;
    struct tutti_comm *found;
    size_t elements;
    FRONT_TRY(prepare(function, count, type, comm, request, &entry, &elements, &found));
    if (peer == FRONT_PROC_NULL) return front_leave(FRONT_SUCCESS);
    return front_leave(front_result(function, tutti_send_start(buffer, elements, entry->dtype, peer,
                                                               tag, NULL, found, &request->request)));
}

static int start_recv(const char *function, void *buffer, int count, front_handle type, int peer,
                      int tag, front_handle comm, struct front_request *request)
{
    const struct front_type_entry *entry;
    struct tutti_comm *found;
    size_t elements;
    FRONT_TRY(prepare(function, count, type, comm, request, &entry, &elements, &found));
    if (peer == FRONT_PROC_NULL) return front_leave(FRONT_SUCCESS);
    return front_leave(front_result(function, tutti_recv_start(buffer, elements, entry->dtype, peer,
                                                               tag, &request->message, NULL, found,
                                                               &request->request)));
}

static int finish(const char *function, struct front_request *request, struct front_status *status)
{
    int error = FRONT_SUCCESS;
    if (request->request != NULL) error = front_result(function, tutti_wait(&request->request));
    fill_status(status, request->message.source, request->message.tag,
                request->message.count * request->element_bytes, error);
    return error;
}

/* ------------------------------------------------------------------------------------- blocking */

int MPIABI_Send(const void *buffer, int count, front_handle type, int peer, int tag,
                front_handle comm)
{
    struct front_request request;
    FRONT_TRY(start_send("MPI_Send", buffer, count, type, peer, tag, comm, &request));
    return finish("MPI_Send", &request, NULL);
}

int MPIABI_Recv(void *buffer, int count, front_handle type, int peer, int tag, front_handle comm,
                struct front_status *status)
{
    struct front_request request;
    FRONT_TRY(start_recv("MPI_Recv", buffer, count, type, peer, tag, comm, &request));
    return finish("MPI_Recv", &request, status);
}

int MPIABI_Sendrecv(const void *send, int send_count, front_handle send_type, int target,
                    int send_tag, void *recv, int recv_count, front_handle recv_type, int source,
                    int recv_tag, front_handle comm, struct front_status *status)
{
    static const char function[] = "MPI_Sendrecv";
    struct front_request sent, received;
    FRONT_TRY(start_recv(function, recv, recv_count, recv_type, source, recv_tag, comm, &received));
    const int error =
        start_send(function, send, send_count, send_type, target, send_tag, comm, &sent);
    if (error != FRONT_SUCCESS) {
        char message[FRONT_ERROR_BYTES];
        strcpy(message, tutti_jax_error());
        /* Nothing was sent, so the receive, unless a message has come already, may be taken
         * back. */
        if (received.request != NULL && tutti_cancel(&received.request) == TUTTI_IN_PROGRESS)
            (void)finish(function, &received, NULL);
        return front_repeat(error, message);
    }
    const int send_error = finish(function, &sent, NULL);
    const int recv_error = finish(function, &received, status);
    return recv_error != FRONT_SUCCESS ? recv_error : send_error;
}

/* -------------------------------------------------------------------------------------- started */

/* A handle for what was started. Without one it has to end here, as the caller could never wait for
 * it. */
static int hand_out(const char *function, struct front_request *request, front_handle *handle)
{
    *handle = front_keep(FRONT_REQUEST, request);
    if (*handle != 0) return FRONT_SUCCESS;
    if (request->request == NULL || tutti_cancel(&request->request) != TUTTI_OK)
        (void)finish(function, request, NULL);
    free(request);
    return front_fail(FRONT_ERR_NO_MEM, function, "more than %d messages are under way",
                      FRONT_HANDLES_MAX);
}

int MPIABI_Isend(const void *buffer, int count, front_handle type, int peer, int tag,
                 front_handle comm, front_handle *request)
{
    static const char function[] = "MPI_Isend";
    struct front_request *made = malloc(sizeof(*made));
    *request = 0;
    if (made == NULL) return front_fail(FRONT_ERR_NO_MEM, function, "no memory for a message");
    const int error = start_send(function, buffer, count, type, peer, tag, comm, made);
    if (error == FRONT_SUCCESS) return hand_out(function, made, request);
    free(made);
    return error;
}

int MPIABI_Irecv(void *buffer, int count, front_handle type, int peer, int tag, front_handle comm,
                 front_handle *request)
{
    static const char function[] = "MPI_Irecv";
    struct front_request *made = malloc(sizeof(*made));
    *request = 0;
    if (made == NULL) return front_fail(FRONT_ERR_NO_MEM, function, "no memory for a message");
    const int error = start_recv(function, buffer, count, type, peer, tag, comm, made);
    if (error == FRONT_SUCCESS) return hand_out(function, made, request);
    free(made);
    return error;
}

int MPIABI_Wait(front_handle *request, struct front_status *status)
{
    if (*request == 0) { /* MPI_REQUEST_NULL */
        fill_status(status, FRONT_ANY, FRONT_ANY, 0, FRONT_SUCCESS);
        return FRONT_SUCCESS;
    }
    struct front_request *taken = front_take(FRONT_REQUEST, *request);
    if (taken == NULL) return front_fail(FRONT_ERR_REQUEST, "MPI_Wait", "no such request");
    *request = 0;
    const int error = finish(taken->function, taken, status);
    free(taken);
    return error;
}

/* All are waited for, also behind one that fails; the first error is returned. */
int MPIABI_Waitall(int count, front_handle *requests, struct front_status *statuses)
{
    char message[FRONT_ERROR_BYTES];
    int first = FRONT_SUCCESS;
    for (int i = 0; i < count; i++) {
        const int error = MPIABI_Wait(&requests[i], statuses != NULL ? &statuses[i] : NULL);
        if (error == FRONT_SUCCESS || first != FRONT_SUCCESS) continue;
        first = error;
        strcpy(message, tutti_jax_error());
    }
    return first == FRONT_SUCCESS ? FRONT_SUCCESS : front_repeat(first, message);
}

int MPIABI_Get_count(const struct front_status *status, front_handle type, int *count)
{
    const struct front_type_entry *entry;
    FRONT_TRY(front_type_find("MPI_Get_count", type, &entry));
    const size_t values = status->size_bytes / front_type_size(entry);
    *count = status->size_bytes % front_type_size(entry) != 0 || values > INT_MAX ? FRONT_UNDEFINED
                                                                                  : (int)values;
    return FRONT_SUCCESS;
}

int MPIABI_Type_size(front_handle type, int *size)
{
    const struct front_type_entry *entry;
    FRONT_TRY(front_type_find("MPI_Type_size", type, &entry));
    *size = (int)front_type_size(entry);
    return FRONT_SUCCESS;
}
