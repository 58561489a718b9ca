/* form.h - one call in each of its forms, for tests that bring their own scenario and call. */
#ifndef TUTTI_TESTS_FORM_H
#define TUTTI_TESTS_FORM_H

#include <stddef.h>

#include "tutti/tutti.h"

enum form { BLOCKING, STARTED, PREPARED, GROUPED, FORM_COUNT };

static inline const char *form_name(enum form form)
{
    static const char *const names[FORM_COUNT] = {"blocking", "started", "prepared", "grouped"};
    return names[form];
}

/* The form that is wanted of tutti_NAME; GROUPED is a plain call in a group. Uses `c`, `request` and `prepared` of a
 * form_issue. */
#define FORM_ISSUE(form, name, ...)                                                            \
    ((form) == STARTED    ? tutti_##name##_start(__VA_ARGS__, c->options, c->comm, request)    \
     : (form) == PREPARED ? tutti_##name##_prepare(__VA_ARGS__, c->options, c->comm, prepared) \
                          : tutti_##name##_with(__VA_ARGS__, c->options, c->comm))

struct scenario; /* the test's own */
struct call;
typedef enum tutti_status form_issue(const struct scenario *s, const struct call *c,
                                     struct tutti_request **request,
                                     struct tutti_prepared **prepared);

/* Runs it once, to its end. *prepared is made when it is NULL, and belongs to the caller. */
static inline enum tutti_status form_run(enum form form, form_issue *issue, const struct scenario *s,
                                         const struct call *c, struct tutti_prepared **prepared)
{
    struct tutti_request *request = NULL;
    enum tutti_status status = TUTTI_OK;
    if (form == GROUPED) status = tutti_group_begin();
    if (status == TUTTI_OK && (form != PREPARED || *prepared == NULL))
        status = issue(s, c, &request, prepared);
    if (form == GROUPED) {
        const enum tutti_status ended = tutti_group_end();
        return status != TUTTI_OK ? status : ended;
    }
    if (status == TUTTI_OK && form == PREPARED) status = tutti_start(*prepared, &request);
    return status == TUTTI_OK && request != NULL ? tutti_wait(&request) : status;
}

#endif
