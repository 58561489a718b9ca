/* check.h - from the arguments of a public function to a checked call: nothing is sent before all of them are found
 * good, and a bad one changes nothing.
 */
#ifndef TUTTI_API_CHECK_H
#define TUTTI_API_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/collective.h"
#include "tutti/tutti.h"

enum shape { SHAPE_EVEN, SHAPE_VARYING, SHAPE_LIST };

/* What one public function was called with. */
struct arguments {
    enum collective collective;
    enum shape shape;
    const void *send; /* LIST: struct tutti_list */
    void *recv;       /* LIST: const struct tutti_list */
    size_t count; /* EVEN: of a block; VARYING: of the buffer that is one block and has no counts */
    enum tutti_dtype dtype;
    tutti_op op;
    int root;
    /* VARYING, where the buffer has a block for each rank */
    const size_t *send_counts, *send_displs, *recv_counts, *recv_displs;
};

/* The forms. */
enum tutti_status api_call(const struct arguments *arguments,
                           const struct tutti_call_options *options, struct tutti_comm *comm);
enum tutti_status api_start(const struct arguments *arguments,
                            const struct tutti_call_options *options, struct tutti_comm *comm,
                            struct tutti_request **request);
enum tutti_status api_prepare(const struct arguments *arguments,
                              const struct tutti_call_options *options, struct tutti_comm *comm,
                              struct tutti_prepared **prepared);

/* Defines the four forms of one operation; what follows the parameters initialises its struct arguments. */
#define API_PARAMETERS(...) __VA_ARGS__
#define API_DEFINE(name, parameters, ...)                                                           \
    enum tutti_status tutti_##name(parameters, struct tutti_comm *comm)                             \
    {                                                                                               \
        const struct arguments arguments = {__VA_ARGS__};                                           \
        return api_call(&arguments, NULL, comm);                                                    \
    }                                                                                               \
    enum tutti_status tutti_##name##_with(parameters, const struct tutti_call_options *options,     \
                                          struct tutti_comm *comm)                                  \
    {                                                                                               \
        const struct arguments arguments = {__VA_ARGS__};                                           \
        return api_call(&arguments, options, comm);                                                 \
    }                                                                                               \
    enum tutti_status tutti_##name##_start(parameters, const struct tutti_call_options *options,    \
                                           struct tutti_comm *comm, struct tutti_request **request) \
    {                                                                                               \
        const struct arguments arguments = {__VA_ARGS__};                                           \
        return api_start(&arguments, options, comm, request);                                       \
    }                                                                                               \
    enum tutti_status tutti_##name##_prepare(parameters, const struct tutti_call_options *options,  \
                                             struct tutti_comm *comm,                               \
                                             struct tutti_prepared **prepared)                      \
    {                                                                                               \
        const struct arguments arguments = {__VA_ARGS__};                                           \
        return api_prepare(&arguments, options, comm, prepared);                                    \
    }

#endif
