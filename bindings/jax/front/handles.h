/* handles.h - numbers for communicators and requests, as MPI's callers hold them.
 *
 * A handle comes from foreign code, so it is looked up and never followed: a wrong one finds
 * nothing. Any thread may call anything; nothing blocks or allocates.
 */
#ifndef TUTTI_JAX_HANDLES_H
#define TUTTI_JAX_HANDLES_H

#include "front/front.h"

enum front_kind { FRONT_COMM, FRONT_REQUEST, FRONT_KIND_COUNT };

/* So many of a kind at once. */
enum { FRONT_HANDLES_MAX = 4096 };

/* A handle for the object, which is not NULL; 0: there are too many. */
front_handle front_keep(enum front_kind kind, void *object);
/* The object; NULL: no handle of this kind. */
void *front_find(enum front_kind kind, front_handle handle);
/* The same, and the handle is none any more: of several threads one gets the object. */
void *front_take(enum front_kind kind, front_handle handle);
/* Takes any that is left; NULL: none is. */
void *front_take_any(enum front_kind kind);

#endif
