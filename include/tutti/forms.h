/* forms.h - the forms _with, _start and _prepare of every operation. Programs include tutti.h,
 * which includes this file.
 *
 * Made by scripts/reference.py from tutti.h, where tutti_X says what the operation does and what
 * its arguments are. Each form takes the same arguments, and then
 *     options   a deadline, an algorithm or a priority for this call; or NULL
 *     request   receives the operation in flight, for tutti_wait, tutti_test, tutti_cancel and
 *               tutti_notify; NULL on failure
 *     prepared  receives the prepared operation, for tutti_start and tutti_prepared_free; NULL on
 *               failure
 * "Forms" at the top of tutti.h has the rules.
 */
#ifndef TUTTI_FORMS_H
#define TUTTI_FORMS_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */

/* ------------------------------------------------------------------------------ tutti_allreduce */
/* tutti_allreduce with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_allreduce_with(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                     tutti_op op, const struct tutti_call_options *options,
                     struct tutti_comm *comm);
/* Starts tutti_allreduce, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_allreduce_start(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                      tutti_op op, const struct tutti_call_options *options,
                      struct tutti_comm *comm, struct tutti_request **request);
/* Plans tutti_allreduce once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_allreduce_prepare(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                        tutti_op op, const struct tutti_call_options *options,
                        struct tutti_comm *comm, struct tutti_prepared **prepared);

/* --------------------------------------------------------------------------------- tutti_reduce */
/* tutti_reduce with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_reduce_with(const void *send, void *recv, size_t count, enum tutti_dtype dtype, tutti_op op,
                  int root, const struct tutti_call_options *options, struct tutti_comm *comm);
/* Starts tutti_reduce, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_reduce_start(const void *send, void *recv, size_t count, enum tutti_dtype dtype, tutti_op op,
                   int root, const struct tutti_call_options *options, struct tutti_comm *comm,
                   struct tutti_request **request);
/* Plans tutti_reduce once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_reduce_prepare(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                     tutti_op op, int root, const struct tutti_call_options *options,
                     struct tutti_comm *comm, struct tutti_prepared **prepared);

/* ------------------------------------------------------------------------------ tutti_broadcast */
/* tutti_broadcast with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_broadcast_with(const void *send, void *recv, size_t count, enum tutti_dtype dtype, int root,
                     const struct tutti_call_options *options, struct tutti_comm *comm);
/* Starts tutti_broadcast, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_broadcast_start(const void *send, void *recv, size_t count, enum tutti_dtype dtype, int root,
                      const struct tutti_call_options *options, struct tutti_comm *comm,
                      struct tutti_request **request);
/* Plans tutti_broadcast once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_broadcast_prepare(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                        int root, const struct tutti_call_options *options,
                        struct tutti_comm *comm, struct tutti_prepared **prepared);

/* --------------------------------------------------------------------------------- tutti_gather */
/* tutti_gather with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_gather_with(const void *send, void *recv, size_t count, enum tutti_dtype dtype, int root,
                  const struct tutti_call_options *options, struct tutti_comm *comm);
/* Starts tutti_gather, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_gather_start(const void *send, void *recv, size_t count, enum tutti_dtype dtype, int root,
                   const struct tutti_call_options *options, struct tutti_comm *comm,
                   struct tutti_request **request);
/* Plans tutti_gather once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_gather_prepare(const void *send, void *recv, size_t count, enum tutti_dtype dtype, int root,
                     const struct tutti_call_options *options, struct tutti_comm *comm,
                     struct tutti_prepared **prepared);

/* -------------------------------------------------------------------------------- tutti_scatter */
/* tutti_scatter with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_scatter_with(const void *send, void *recv, size_t count, enum tutti_dtype dtype, int root,
                   const struct tutti_call_options *options, struct tutti_comm *comm);
/* Starts tutti_scatter, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_scatter_start(const void *send, void *recv, size_t count, enum tutti_dtype dtype, int root,
                    const struct tutti_call_options *options, struct tutti_comm *comm,
                    struct tutti_request **request);
/* Plans tutti_scatter once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_scatter_prepare(const void *send, void *recv, size_t count, enum tutti_dtype dtype, int root,
                      const struct tutti_call_options *options, struct tutti_comm *comm,
                      struct tutti_prepared **prepared);

/* ------------------------------------------------------------------------------ tutti_allgather */
/* tutti_allgather with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_allgather_with(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                     const struct tutti_call_options *options, struct tutti_comm *comm);
/* Starts tutti_allgather, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_allgather_start(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                      const struct tutti_call_options *options, struct tutti_comm *comm,
                      struct tutti_request **request);
/* Plans tutti_allgather once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_allgather_prepare(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                        const struct tutti_call_options *options, struct tutti_comm *comm,
                        struct tutti_prepared **prepared);

/* ------------------------------------------------------------------------- tutti_reduce_scatter */
/* tutti_reduce_scatter with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_reduce_scatter_with(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                          tutti_op op, const struct tutti_call_options *options,
                          struct tutti_comm *comm);
/* Starts tutti_reduce_scatter, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_reduce_scatter_start(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                           tutti_op op, const struct tutti_call_options *options,
                           struct tutti_comm *comm, struct tutti_request **request);
/* Plans tutti_reduce_scatter once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_reduce_scatter_prepare(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                             tutti_op op, const struct tutti_call_options *options,
                             struct tutti_comm *comm, struct tutti_prepared **prepared);

/* ------------------------------------------------------------------------------- tutti_alltoall */
/* tutti_alltoall with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_alltoall_with(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                    const struct tutti_call_options *options, struct tutti_comm *comm);
/* Starts tutti_alltoall, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_alltoall_start(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                     const struct tutti_call_options *options, struct tutti_comm *comm,
                     struct tutti_request **request);
/* Plans tutti_alltoall once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_alltoall_prepare(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                       const struct tutti_call_options *options, struct tutti_comm *comm,
                       struct tutti_prepared **prepared);

/* -------------------------------------------------------------------------------- tutti_barrier */
/* tutti_barrier with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_barrier_with(const struct tutti_call_options *options, struct tutti_comm *comm);
/* Starts tutti_barrier, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_barrier_start(const struct tutti_call_options *options, struct tutti_comm *comm,
                    struct tutti_request **request);
/* Plans tutti_barrier once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_barrier_prepare(const struct tutti_call_options *options, struct tutti_comm *comm,
                      struct tutti_prepared **prepared);

/* -------------------------------------------------------------------------------- tutti_gatherv */
/* tutti_gatherv with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_gatherv_with(const void *send, size_t send_count, void *recv, const size_t *recv_counts,
                   const size_t *recv_displs, enum tutti_dtype dtype, int root,
                   const struct tutti_call_options *options, struct tutti_comm *comm);
/* Starts tutti_gatherv, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_gatherv_start(const void *send, size_t send_count, void *recv, const size_t *recv_counts,
                    const size_t *recv_displs, enum tutti_dtype dtype, int root,
                    const struct tutti_call_options *options, struct tutti_comm *comm,
                    struct tutti_request **request);
/* Plans tutti_gatherv once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_gatherv_prepare(const void *send, size_t send_count, void *recv, const size_t *recv_counts,
                      const size_t *recv_displs, enum tutti_dtype dtype, int root,
                      const struct tutti_call_options *options, struct tutti_comm *comm,
                      struct tutti_prepared **prepared);

/* ------------------------------------------------------------------------------- tutti_scatterv */
/* tutti_scatterv with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_scatterv_with(const void *send, const size_t *send_counts, const size_t *send_displs,
                    void *recv, size_t recv_count, enum tutti_dtype dtype, int root,
                    const struct tutti_call_options *options, struct tutti_comm *comm);
/* Starts tutti_scatterv, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_scatterv_start(const void *send, const size_t *send_counts, const size_t *send_displs,
                     void *recv, size_t recv_count, enum tutti_dtype dtype, int root,
                     const struct tutti_call_options *options, struct tutti_comm *comm,
                     struct tutti_request **request);
/* Plans tutti_scatterv once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_scatterv_prepare(const void *send, const size_t *send_counts, const size_t *send_displs,
                       void *recv, size_t recv_count, enum tutti_dtype dtype, int root,
                       const struct tutti_call_options *options, struct tutti_comm *comm,
                       struct tutti_prepared **prepared);

/* ----------------------------------------------------------------------------- tutti_allgatherv */
/* tutti_allgatherv with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_allgatherv_with(const void *send, void *recv, const size_t *recv_counts,
                      const size_t *recv_displs, enum tutti_dtype dtype,
                      const struct tutti_call_options *options, struct tutti_comm *comm);
/* Starts tutti_allgatherv, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_allgatherv_start(const void *send, void *recv, const size_t *recv_counts,
                       const size_t *recv_displs, enum tutti_dtype dtype,
                       const struct tutti_call_options *options, struct tutti_comm *comm,
                       struct tutti_request **request);
/* Plans tutti_allgatherv once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_allgatherv_prepare(const void *send, void *recv, const size_t *recv_counts,
                         const size_t *recv_displs, enum tutti_dtype dtype,
                         const struct tutti_call_options *options, struct tutti_comm *comm,
                         struct tutti_prepared **prepared);

/* ------------------------------------------------------------------------ tutti_reduce_scatterv */
/* tutti_reduce_scatterv with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_reduce_scatterv_with(const void *send, void *recv, const size_t *recv_counts,
                           enum tutti_dtype dtype, tutti_op op,
                           const struct tutti_call_options *options, struct tutti_comm *comm);
/* Starts tutti_reduce_scatterv, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_reduce_scatterv_start(const void *send, void *recv, const size_t *recv_counts,
                            enum tutti_dtype dtype, tutti_op op,
                            const struct tutti_call_options *options, struct tutti_comm *comm,
                            struct tutti_request **request);
/* Plans tutti_reduce_scatterv once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_reduce_scatterv_prepare(const void *send, void *recv, const size_t *recv_counts,
                              enum tutti_dtype dtype, tutti_op op,
                              const struct tutti_call_options *options, struct tutti_comm *comm,
                              struct tutti_prepared **prepared);

/* ------------------------------------------------------------------------------ tutti_alltoallv */
/* tutti_alltoallv with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_alltoallv_with(const void *send, const size_t *send_counts, const size_t *send_displs,
                     void *recv, const size_t *recv_counts, const size_t *recv_displs,
                     enum tutti_dtype dtype, const struct tutti_call_options *options,
                     struct tutti_comm *comm);
/* Starts tutti_alltoallv, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_alltoallv_start(const void *send, const size_t *send_counts, const size_t *send_displs,
                      void *recv, const size_t *recv_counts, const size_t *recv_displs,
                      enum tutti_dtype dtype, const struct tutti_call_options *options,
                      struct tutti_comm *comm, struct tutti_request **request);
/* Plans tutti_alltoallv once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_alltoallv_prepare(const void *send, const size_t *send_counts, const size_t *send_displs,
                        void *recv, const size_t *recv_counts, const size_t *recv_displs,
                        enum tutti_dtype dtype, const struct tutti_call_options *options,
                        struct tutti_comm *comm, struct tutti_prepared **prepared);

/* ------------------------------------------------------------------------- tutti_allreduce_list */
/* tutti_allreduce_list with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_allreduce_list_with(const struct tutti_list *send, const struct tutti_list *recv,
                          enum tutti_dtype dtype, tutti_op op,
                          const struct tutti_call_options *options, struct tutti_comm *comm);
/* Starts tutti_allreduce_list, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_allreduce_list_start(const struct tutti_list *send, const struct tutti_list *recv,
                           enum tutti_dtype dtype, tutti_op op,
                           const struct tutti_call_options *options, struct tutti_comm *comm,
                           struct tutti_request **request);
/* Plans tutti_allreduce_list once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_allreduce_list_prepare(const struct tutti_list *send, const struct tutti_list *recv,
                             enum tutti_dtype dtype, tutti_op op,
                             const struct tutti_call_options *options, struct tutti_comm *comm,
                             struct tutti_prepared **prepared);

/* ---------------------------------------------------------------------------- tutti_reduce_list */
/* tutti_reduce_list with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_reduce_list_with(const struct tutti_list *send, const struct tutti_list *recv,
                       enum tutti_dtype dtype, tutti_op op, int root,
                       const struct tutti_call_options *options, struct tutti_comm *comm);
/* Starts tutti_reduce_list, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_reduce_list_start(const struct tutti_list *send, const struct tutti_list *recv,
                        enum tutti_dtype dtype, tutti_op op, int root,
                        const struct tutti_call_options *options, struct tutti_comm *comm,
                        struct tutti_request **request);
/* Plans tutti_reduce_list once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_reduce_list_prepare(const struct tutti_list *send, const struct tutti_list *recv,
                          enum tutti_dtype dtype, tutti_op op, int root,
                          const struct tutti_call_options *options, struct tutti_comm *comm,
                          struct tutti_prepared **prepared);

/* ------------------------------------------------------------------------- tutti_broadcast_list */
/* tutti_broadcast_list with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_broadcast_list_with(const struct tutti_list *send, const struct tutti_list *recv,
                          enum tutti_dtype dtype, int root,
                          const struct tutti_call_options *options, struct tutti_comm *comm);
/* Starts tutti_broadcast_list, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_broadcast_list_start(const struct tutti_list *send, const struct tutti_list *recv,
                           enum tutti_dtype dtype, int root,
                           const struct tutti_call_options *options, struct tutti_comm *comm,
                           struct tutti_request **request);
/* Plans tutti_broadcast_list once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_broadcast_list_prepare(const struct tutti_list *send, const struct tutti_list *recv,
                             enum tutti_dtype dtype, int root,
                             const struct tutti_call_options *options, struct tutti_comm *comm,
                             struct tutti_prepared **prepared);

/* ---------------------------------------------------------------------------- tutti_gather_list */
/* tutti_gather_list with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_gather_list_with(const struct tutti_list *send, const struct tutti_list *recv,
                       enum tutti_dtype dtype, int root, const struct tutti_call_options *options,
                       struct tutti_comm *comm);
/* Starts tutti_gather_list, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_gather_list_start(const struct tutti_list *send, const struct tutti_list *recv,
                        enum tutti_dtype dtype, int root, const struct tutti_call_options *options,
                        struct tutti_comm *comm, struct tutti_request **request);
/* Plans tutti_gather_list once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_gather_list_prepare(const struct tutti_list *send, const struct tutti_list *recv,
                          enum tutti_dtype dtype, int root,
                          const struct tutti_call_options *options, struct tutti_comm *comm,
                          struct tutti_prepared **prepared);

/* --------------------------------------------------------------------------- tutti_scatter_list */
/* tutti_scatter_list with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_scatter_list_with(const struct tutti_list *send, const struct tutti_list *recv,
                        enum tutti_dtype dtype, int root, const struct tutti_call_options *options,
                        struct tutti_comm *comm);
/* Starts tutti_scatter_list, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_scatter_list_start(const struct tutti_list *send, const struct tutti_list *recv,
                         enum tutti_dtype dtype, int root,
                         const struct tutti_call_options *options, struct tutti_comm *comm,
                         struct tutti_request **request);
/* Plans tutti_scatter_list once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_scatter_list_prepare(const struct tutti_list *send, const struct tutti_list *recv,
                           enum tutti_dtype dtype, int root,
                           const struct tutti_call_options *options, struct tutti_comm *comm,
                           struct tutti_prepared **prepared);

/* ------------------------------------------------------------------------- tutti_allgather_list */
/* tutti_allgather_list with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_allgather_list_with(const struct tutti_list *send, const struct tutti_list *recv,
                          enum tutti_dtype dtype, const struct tutti_call_options *options,
                          struct tutti_comm *comm);
/* Starts tutti_allgather_list, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_allgather_list_start(const struct tutti_list *send, const struct tutti_list *recv,
                           enum tutti_dtype dtype, const struct tutti_call_options *options,
                           struct tutti_comm *comm, struct tutti_request **request);
/* Plans tutti_allgather_list once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_allgather_list_prepare(const struct tutti_list *send, const struct tutti_list *recv,
                             enum tutti_dtype dtype, const struct tutti_call_options *options,
                             struct tutti_comm *comm, struct tutti_prepared **prepared);

/* -------------------------------------------------------------------- tutti_reduce_scatter_list */
/* tutti_reduce_scatter_list with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_reduce_scatter_list_with(const struct tutti_list *send, const struct tutti_list *recv,
                               enum tutti_dtype dtype, tutti_op op,
                               const struct tutti_call_options *options, struct tutti_comm *comm);
/* Starts tutti_reduce_scatter_list, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_reduce_scatter_list_start(const struct tutti_list *send, const struct tutti_list *recv,
                                enum tutti_dtype dtype, tutti_op op,
                                const struct tutti_call_options *options, struct tutti_comm *comm,
                                struct tutti_request **request);
/* Plans tutti_reduce_scatter_list once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_reduce_scatter_list_prepare(const struct tutti_list *send, const struct tutti_list *recv,
                                  enum tutti_dtype dtype, tutti_op op,
                                  const struct tutti_call_options *options,
                                  struct tutti_comm *comm, struct tutti_prepared **prepared);

/* -------------------------------------------------------------------------- tutti_alltoall_list */
/* tutti_alltoall_list with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_alltoall_list_with(const struct tutti_list *send, const struct tutti_list *recv,
                         enum tutti_dtype dtype, const struct tutti_call_options *options,
                         struct tutti_comm *comm);
/* Starts tutti_alltoall_list, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_alltoall_list_start(const struct tutti_list *send, const struct tutti_list *recv,
                          enum tutti_dtype dtype, const struct tutti_call_options *options,
                          struct tutti_comm *comm, struct tutti_request **request);
/* Plans tutti_alltoall_list once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_alltoall_list_prepare(const struct tutti_list *send, const struct tutti_list *recv,
                            enum tutti_dtype dtype, const struct tutti_call_options *options,
                            struct tutti_comm *comm, struct tutti_prepared **prepared);

/* ----------------------------------------------------------------------------------- tutti_send */
/* tutti_send with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_send_with(const void *send, size_t count, enum tutti_dtype dtype, int peer, int tag,
                const struct tutti_call_options *options, struct tutti_comm *comm);
/* Starts tutti_send, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_send_start(const void *send, size_t count, enum tutti_dtype dtype, int peer, int tag,
                 const struct tutti_call_options *options, struct tutti_comm *comm,
                 struct tutti_request **request);
/* Plans tutti_send once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_send_prepare(const void *send, size_t count, enum tutti_dtype dtype, int peer, int tag,
                   const struct tutti_call_options *options, struct tutti_comm *comm,
                   struct tutti_prepared **prepared);

/* ----------------------------------------------------------------------------------- tutti_recv */
/* tutti_recv with options for this call: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_recv_with(void *recv, size_t count, enum tutti_dtype dtype, int peer, int tag,
                struct tutti_message *message, const struct tutti_call_options *options,
                struct tutti_comm *comm);
/* Starts tutti_recv, which uses its buffers until done: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_recv_start(void *recv, size_t count, enum tutti_dtype dtype, int peer, int tag,
                 struct tutti_message *message, const struct tutti_call_options *options,
                 struct tutti_comm *comm, struct tutti_request **request);
/* Plans tutti_recv once, for tutti_start to start often: see "Forms" in tutti.h. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_recv_prepare(void *recv, size_t count, enum tutti_dtype dtype, int peer, int tag,
                   struct tutti_message *message, const struct tutti_call_options *options,
                   struct tutti_comm *comm, struct tutti_prepared **prepared);

/* clang-format on */

#ifdef __cplusplus
}
#endif

#endif
