/* define_forms.h - the four public functions of one operation. */
#ifndef TUTTI_API_DEFINE_FORMS_H
#define TUTTI_API_DEFINE_FORMS_H

/* Defines tutti_NAME, _with, _start and _prepare. They fill a `type` with what follows the
 * parameters and hand it to FAMILY_call, FAMILY_start and FAMILY_prepare. */
#define FORMS_DEFINE(family, type, name, parameters, ...)                                           \
    enum tutti_status tutti_##name(parameters, struct tutti_comm *comm)                             \
    {                                                                                               \
        const type given = {__VA_ARGS__};                                                           \
        return family##_call(&given, NULL, comm);                                                   \
    }                                                                                               \
    enum tutti_status tutti_##name##_with(parameters, const struct tutti_call_options *options,     \
                                          struct tutti_comm *comm)                                  \
    {                                                                                               \
        const type given = {__VA_ARGS__};                                                           \
        return family##_call(&given, options, comm);                                                \
    }                                                                                               \
    enum tutti_status tutti_##name##_start(parameters, const struct tutti_call_options *options,    \
                                           struct tutti_comm *comm, struct tutti_request **request) \
    {                                                                                               \
        const type given = {__VA_ARGS__};                                                           \
        return family##_start(&given, options, comm, request);                                      \
    }                                                                                               \
    enum tutti_status tutti_##name##_prepare(parameters, const struct tutti_call_options *options,  \
                                             struct tutti_comm *comm,                               \
                                             struct tutti_prepared **prepared)                      \
    {                                                                                               \
        const type given = {__VA_ARGS__};                                                           \
        return family##_prepare(&given, options, comm, prepared);                                   \
    }

#endif
