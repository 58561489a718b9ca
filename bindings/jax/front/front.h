/* front.h - the part of MPI that XLA calls, over Tutti.
 *
 * jaxlib reaches MPI through MPItrampoline, which loads the library that the environment variable
 * MPITRAMPOLINE_LIB names and looks up the functions and constants in names.h. libtutti_jax.so is
 * such a library:
 *
 *     XLA        MPI_Allreduce(...)
 *       │ MPItrampoline, in jaxlib
 *     front/     MPIABI_Allreduce: checks and translates handles, dtypes, counts
 *       │
 *     libtutti   tutti_allreduce(...)
 *
 * Ranks.  MPI's world is the processes: MPI_Comm_rank and MPI_Comm_size of MPI_COMM_WORLD say which
 * of how many. A process may have several devices, and each device is a rank of Tutti. XLA makes a
 * communicator for each group of devices: a thread for each device of the job calls MPI_Comm_split
 * on MPI_COMM_WORLD, with the group's first device as the color and the device's place in the group
 * as the key. The call returns when all devices of the job have made it.
 *
 * Errors.  Functions return 0 or a class of errors. MPI_Error_string then gives the calling thread
 * the whole message of its last failure: rank, host, operation, sequence. XLA ignores what
 * MPI_Init_thread and MPI_Comm_split return. So after a failure these keep the message, and
 * operations on what they made return it.
 *
 * Threads.  Any thread may call anything (MPI_THREAD_MULTIPLE). MPI_Is_thread_main says yes to all
 * threads, because XLA makes no communicator in a thread that gets a no.
 *
 * Left out on purpose: what XLA never calls. Such a function returns an error with its name.
 */
#ifndef TUTTI_JAX_FRONT_H
#define TUTTI_JAX_FRONT_H

#include <stddef.h>
#include <stdint.h>

#include "front/names.h"
#include "tutti/tutti.h"

#define FRONT_EXPORT __attribute__((visibility("default")))

/* The version of MPItrampoline's ABI that names.h has the names of. */
#define FRONT_ABI_MAJOR 2
#define FRONT_ABI_MINOR 9
#define FRONT_ABI_PATCH 0

/* MPI_Comm, MPI_Datatype and the like are numbers. */
typedef uintptr_t front_handle;

/* clang-format off */

enum front_class {
    FRONT_SUCCESS,
#define FRONT_CLASS(name) FRONT_##name,
    FRONT_ERRORS(FRONT_CLASS)
#undef FRONT_CLASS
    FRONT_ERR_LASTCODE
};

enum front_type {
    FRONT_TYPE_NULL = 0x100,
#define FRONT_TYPE(name, dtype, elements, kind) FRONT_TYPE_##name,
    FRONT_TYPES(FRONT_TYPE)
#undef FRONT_TYPE
    FRONT_TYPE_END
};

enum front_op {
    FRONT_OP_NULL = 0x200,
#define FRONT_OP(name, op) FRONT_OP_##name,
    FRONT_OPS(FRONT_OP)
#undef FRONT_OP
    FRONT_OP_END
};

/* clang-format on */

/* Communicators that are always there; all others are made by MPI_Comm_split and MPI_Comm_dup. */
enum { FRONT_WORLD = 0x300, FRONT_SELF };

#define FRONT_UNDEFINED (-32766)
#define FRONT_ANY (-1)
#define FRONT_PROC_NULL (-2)
#define FRONT_THREAD_MULTIPLE 3

/* MPI_Status in MPItrampoline's layout, of which the first part is the library's own. */
struct front_status {
    int reserved[4];
    size_t size_bytes; /* of the message */
    int source;
    int tag;
    int error;
};

/* ----------------------------------------------------------------------- for the Python package */

/* How this process joins the job. */
struct tutti_jax_options {
    size_t size_bytes; /* sizeof(struct tutti_jax_options) */
    int process;       /* from 0 */
    int process_count;
    int device_count; /* of this process; the same in all */
    /* Devices meet through it, several threads at once; NULL: the launcher's environment says
     * process and process_count, and device_count is 1. Only used during the call. */
    const struct tutti_store *store;
};

/* Joins the job, as MPI_Init_thread does by itself where no starter is set. Collective over all
 * processes; blocks until all have come, or until the start-up deadline. options may be NULL:
 * everything from the launcher's environment. INVALID_OPTIONS: a wrong number, or it has joined
 * already. After any other failure it may be called again. */
FRONT_EXPORT enum tutti_status tutti_jax_start(const struct tutti_jax_options *options);
/* What MPI_Init_thread calls instead, to call tutti_jax_start with its own options. It returns 0
 * for success. Otherwise `message`, which has message_bytes, says why; it stays empty where
 * tutti_jax_start has failed. NULL: nothing is called. Any thread; does not block. */
FRONT_EXPORT void tutti_jax_set_starter(int (*starter)(char *message, size_t message_bytes));
/* The last failure of this thread in this library, as MPI_Error_string gives it; "" if there was
 * none. Valid until the thread's next failing call. Does not block. */
FRONT_EXPORT const char *tutti_jax_error(void);

/* ---------------------------------------------------------------------------- what MPI promises */

/* Each does what MPI 3.1 says, within these limits: predefined datatypes and operations only;
 * MPI_IN_PLACE only where it is named; MPI_COMM_WORLD only in MPI_Comm_rank, MPI_Comm_size,
 * MPI_Comm_split and, if each process has one device, in operations. All block until the
 * communicator's deadline at most, except the start of Isend and Irecv. */
FRONT_EXPORT int MPIABI_Init(int *argument_count, char ***arguments);
FRONT_EXPORT int MPIABI_Init_thread(int *argument_count, char ***arguments, int required,
                                    int *provided);
FRONT_EXPORT int MPIABI_Initialized(int *flag);
FRONT_EXPORT int MPIABI_Finalize(void);
FRONT_EXPORT int MPIABI_Finalized(int *flag);
FRONT_EXPORT int MPIABI_Query_thread(int *provided);
FRONT_EXPORT int MPIABI_Is_thread_main(int *flag);
FRONT_EXPORT int MPIABI_Get_version(int *version, int *subversion);
FRONT_EXPORT int MPIABI_Get_library_version(char *version, int *length);
FRONT_EXPORT int MPIABI_Get_processor_name(char *name, int *length);
FRONT_EXPORT double MPIABI_Wtime(void);
FRONT_EXPORT double MPIABI_Wtick(void);
FRONT_EXPORT intptr_t MPIABI_Aint_add(intptr_t base, intptr_t displacement);
FRONT_EXPORT intptr_t MPIABI_Aint_diff(intptr_t left, intptr_t right);

FRONT_EXPORT int MPIABI_Error_string(int code, char *text, int *length);
FRONT_EXPORT int MPIABI_Error_class(int code, int *class);

FRONT_EXPORT int MPIABI_Comm_rank(front_handle comm, int *rank);
FRONT_EXPORT int MPIABI_Comm_size(front_handle comm, int *size);
/* Of MPI_COMM_WORLD alone. The key is the rank in the new communicator. After a failure *created is
 * a communicator all of whose operations fail with the same message. */
FRONT_EXPORT int MPIABI_Comm_split(front_handle comm, int color, int key, front_handle *created);
FRONT_EXPORT int MPIABI_Comm_dup(front_handle comm, front_handle *created);
FRONT_EXPORT int MPIABI_Comm_free(front_handle *comm);

FRONT_EXPORT int MPIABI_Type_size(front_handle type, int *size);

FRONT_EXPORT int MPIABI_Barrier(front_handle comm);
FRONT_EXPORT int MPIABI_Bcast(void *buffer, int count, front_handle type, int root,
                              front_handle comm);
/* Also with MPI_IN_PLACE. */
FRONT_EXPORT int MPIABI_Allreduce(const void *send, void *recv, int count, front_handle type,
                                  front_handle op, front_handle comm);
FRONT_EXPORT int MPIABI_Allgather(const void *send, int send_count, front_handle send_type,
                                  void *recv, int recv_count, front_handle recv_type,
                                  front_handle comm);
FRONT_EXPORT int MPIABI_Allgatherv(const void *send, int send_count, front_handle send_type,
                                   void *recv, const int *recv_counts, const int *recv_displs,
                                   front_handle recv_type, front_handle comm);
FRONT_EXPORT int MPIABI_Alltoall(const void *send, int send_count, front_handle send_type,
                                 void *recv, int recv_count, front_handle recv_type,
                                 front_handle comm);
FRONT_EXPORT int MPIABI_Alltoallv(const void *send, const int *send_counts, const int *send_displs,
                                  front_handle send_type, void *recv, const int *recv_counts,
                                  const int *recv_displs, front_handle recv_type, front_handle comm);
FRONT_EXPORT int MPIABI_Reduce_scatter(const void *send, void *recv, const int *recv_counts,
                                       front_handle type, front_handle op, front_handle comm);
FRONT_EXPORT int MPIABI_Reduce_scatter_block(const void *send, void *recv, int recv_count,
                                             front_handle type, front_handle op, front_handle comm);

FRONT_EXPORT int MPIABI_Send(const void *buffer, int count, front_handle type, int peer, int tag,
                             front_handle comm);
FRONT_EXPORT int MPIABI_Recv(void *buffer, int count, front_handle type, int peer, int tag,
                             front_handle comm, struct front_status *status);
FRONT_EXPORT int MPIABI_Isend(const void *buffer, int count, front_handle type, int peer, int tag,
                              front_handle comm, front_handle *request);
FRONT_EXPORT int MPIABI_Irecv(void *buffer, int count, front_handle type, int peer, int tag,
                              front_handle comm, front_handle *request);
FRONT_EXPORT int MPIABI_Sendrecv(const void *send, int send_count, front_handle send_type,
                                 int target, int send_tag, void *recv, int recv_count,
                                 front_handle recv_type, int source, int recv_tag,
                                 front_handle comm, struct front_status *status);
FRONT_EXPORT int MPIABI_Wait(front_handle *request, struct front_status *status);
FRONT_EXPORT int MPIABI_Waitall(int count, front_handle *requests, struct front_status *statuses);
FRONT_EXPORT int MPIABI_Get_count(const struct front_status *status, front_handle type, int *count);

#endif
