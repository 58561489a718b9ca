#include "front/comm.h"

#include <stdio.h>
#include <stdlib.h>

#include "front/handles.h"
#include "front/start.h"

static struct front_comm *look_up(front_handle handle)
{
    return front_find(FRONT_COMM, handle);
}

static int no_such(const char *function)
{
    return front_fail(FRONT_ERR_COMM, function,
                      front_is_finalized() ? "MPI_Finalize was called" : "no such communicator");
}

static int find(const char *function, front_handle handle, struct tutti_comm **comm)
{
    if (handle == FRONT_WORLD) return front_world(function, comm);
    const struct front_comm *found = look_up(handle);
    if (found == NULL) return no_such(function);
    if (found->comm == NULL) return front_repeat(found->class, found->message);
    *comm = found->comm;
    return FRONT_SUCCESS;
}

int front_comm_enter(const char *function, front_handle handle, struct tutti_comm **comm)
{
    FRONT_TRY(front_enter(function));
    const int error = find(function, handle, comm);
    return error == FRONT_SUCCESS ? FRONT_SUCCESS : front_leave(error);
}

int MPIABI_Comm_rank(front_handle comm, int *rank)
{
    int size;
    if (comm == FRONT_WORLD) {
        FRONT_TRY(front_require_start("MPI_Comm_rank"));
        front_job(rank, &size);
        return FRONT_SUCCESS;
    }
    const struct front_comm *found = look_up(comm);
    if (found == NULL) return no_such("MPI_Comm_rank");
    *rank = found->rank;
    return FRONT_SUCCESS;
}

int MPIABI_Comm_size(front_handle comm, int *size)
{
    int rank;
    if (comm == FRONT_WORLD) {
        FRONT_TRY(front_require_start("MPI_Comm_size"));
        front_job(&rank, size);
        return FRONT_SUCCESS;
    }
    const struct front_comm *found = look_up(comm);
    if (found == NULL) return no_such("MPI_Comm_size");
    *size = found->size;
    return FRONT_SUCCESS;
}

/* A handle for `made`, or, after an error, for a communicator that repeats it. */
static int hand_out(const char *function, int error, struct tutti_comm *made, int rank,
                    front_handle *created)
{
    struct front_comm *comm = calloc(1, sizeof(*comm));
    if (comm == NULL) goto give_up;
    comm->comm = made;
    comm->rank = rank;
    comm->class = error;
    if (made != NULL) {
        comm->size = tutti_comm_size(made);
    } else {
        snprintf(comm->message, sizeof(comm->message), "%s", tutti_jax_error());
        front_log("%s", comm->message); /* XLA does not look at what MPI_Comm_split returns */
    }
    *created = front_keep(FRONT_COMM, comm);
    if (*created != 0) return error;
give_up:
    tutti_comm_free(made);
    free(comm);
    return front_fail(FRONT_ERR_NO_MEM, function, "no memory, or more than %d communicators",
                      FRONT_HANDLES_MAX);
}

/* The groups that XLA names differ between the ranks: the communicator is not the one that it meant. */
static int check_place(struct tutti_comm **made, int color, int key)
{
    if (*made == NULL) return FRONT_SUCCESS;
    const int rank = tutti_comm_rank(*made), size = tutti_comm_size(*made);
    if (rank == key) return FRONT_SUCCESS;
    tutti_comm_free(*made);
    *made = NULL;
    return front_fail(FRONT_ERR_COMM, "MPI_Comm_split",
                      "this is device %d of the group that begins with device %d, but among the %d "
                      "devices that named this group it is "
                      "the one with number %d: all devices of the job have to run the same "
                      "programs in the same order",
                      key, color, size, rank);
}

/* The new communicator of a device of this process; NULL without a color. */
static int split(const char *function, int color, int key, struct tutti_comm **made)
{
    struct tutti_comm *device;
    FRONT_TRY(front_device_take(function, &device));
    const int error = front_result(function, tutti_comm_split(device, color, key, NULL, made));
    front_device_give_back(device);
    FRONT_TRY(error);
    return check_place(made, color, key);
}

int MPIABI_Comm_split(front_handle comm, int color, int key, front_handle *created)
{
    static const char function[] = "MPI_Comm_split";
    struct tutti_comm *made = NULL;
    *created = 0;
    if (comm != FRONT_WORLD)
        return front_fail(FRONT_ERR_COMM, function,
                          "not provided of other communicators than MPI_COMM_WORLD");
    if (color < 0 && color != FRONT_UNDEFINED)
        return front_fail(FRONT_ERR_ARG, function, "the color is %d", color);
    if (color == FRONT_UNDEFINED) color = TUTTI_NO_COLOR;
    int error = front_enter(function);
    if (error == FRONT_SUCCESS) error = front_leave(split(function, color, key, &made));
    if (error == FRONT_SUCCESS && color == TUTTI_NO_COLOR) return FRONT_SUCCESS; /* MPI_COMM_NULL */
    return hand_out(function, error, made, key, created);
}

int MPIABI_Comm_dup(front_handle comm, front_handle *created)
{
    static const char function[] = "MPI_Comm_dup";
    struct tutti_comm *given, *made = NULL;
    *created = 0;
    FRONT_TRY(front_comm_enter(function, comm, &given));
    const int rank = tutti_comm_rank(given);
    const int error = front_leave(front_result(function, tutti_comm_dup(given, NULL, &made)));
    return hand_out(function, error, made, rank, created);
}

static void free_one(struct front_comm *comm)
{
    tutti_comm_free(comm->comm);
    free(comm);
}

int MPIABI_Comm_free(front_handle *comm)
{
    struct front_comm *taken = front_take(FRONT_COMM, *comm);
    if (taken == NULL) return no_such("MPI_Comm_free");
    *comm = 0;
    free_one(taken);
    return FRONT_SUCCESS;
}

void front_comms_free(void)
{
    struct front_comm *comm;
    while ((comm = front_take_any(FRONT_COMM)) != NULL) free_one(comm);
}
