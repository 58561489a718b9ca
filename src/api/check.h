/* check.h - from the arguments of a public function to a checked call: nothing is sent before all
 * of them are found good, and a bad one changes nothing.
 */
#ifndef TUTTI_API_CHECK_H
#define TUTTI_API_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "api/define_forms.h"
#include "base/dtype.h"
#include "call/arguments.h"
#include "tutti/tutti.h"

/* The forms. */
enum tutti_status api_call(const struct arguments *arguments,
                           const struct tutti_call_options *options, struct tutti_comm *comm);
enum tutti_status api_start(const struct arguments *arguments,
                            const struct tutti_call_options *options, struct tutti_comm *comm,
                            struct tutti_request **request);
enum tutti_status api_prepare(const struct arguments *arguments,
                              const struct tutti_call_options *options, struct tutti_comm *comm,
                              struct tutti_prepared **prepared);

/* The checks that messages have in common with collectives. */
enum tutti_status api_refuse_dtype(const char *call, enum tutti_dtype dtype);
static inline enum tutti_status api_check_dtype(const char *call, enum tutti_dtype dtype)
{
    return dtype_is_valid(dtype) ? TUTTI_OK : api_refuse_dtype(call, dtype);
}
enum tutti_status api_refuse_buffer(const char *call, const char *name, size_t bytes);
static inline enum tutti_status api_check_buffer(const char *call, const char *name,
                                                 const void *buffer, size_t bytes)
{
    return bytes == 0 || buffer != NULL ? TUTTI_OK : api_refuse_buffer(call, name, bytes);
}

/* The four forms of one collective; what follows the parameters initialises its struct
 * arguments. */
#define API_DEFINE(name, parameters, ...) \
    FORMS_DEFINE(api, struct arguments, name, API_PARAMETERS(parameters), __VA_ARGS__)
#define API_PARAMETERS(...) __VA_ARGS__

#endif
