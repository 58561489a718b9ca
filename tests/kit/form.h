/* form.h - any collective in any of its forms through one function: plain, on lists of tensors, or
 * with blocks of different counts. */
#ifndef TUTTI_TESTS_KIT_FORM_H
#define TUTTI_TESTS_KIT_FORM_H

#include <stddef.h>

#include "tests/kit/call.h"
#include "tutti/tutti.h"

enum form { BLOCKING, STARTED, PREPARED, GROUPED, FORM_COUNT };
enum call_shape { CALL_PLAIN, CALL_LIST, CALL_VARYING };

const char *form_name(enum form form);

struct form_call {
    struct test_call call; /* of lists, without its buffers; of a v form, the count is the rank's own */
    enum call_shape shape;
    const struct tutti_list *send_list, *recv_list;
    const size_t *send_counts, *send_displs, *recv_counts, *recv_displs;
};

/* tutti_NAME of the shape, or its _with, _start or _prepare form; GROUPED is a blocking call, in a
 * group of the caller's. */
enum tutti_status form_issue(enum form form, const struct form_call *c, struct tutti_comm *comm,
                             struct tutti_request **request, struct tutti_prepared **prepared);
/* Runs the call once, to its end. If *prepared is NULL it is made; it belongs to the caller. */
enum tutti_status form_run(enum form form, const struct form_call *c, struct tutti_comm *comm,
                           struct tutti_prepared **prepared);

#endif
