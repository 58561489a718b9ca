/* shortage.h - tells a refusal of libfabric that means a shortage from one that means that
 * something cannot be done here.
 *
 * Where descriptors are at an end, some providers say so, some return another error such as EIO,
 * and some are not among those that are offered. So after any refusal of a process that can hardly
 * open any more, descriptors are what it lacks.
 *
 * Any thread. */
#ifndef TUTTI_TRANSPORT_OFI_SHORTAGE_H
#define TUTTI_TRANSPORT_OFI_SHORTAGE_H

#include <stdbool.h>

#include "tutti/tutti.h"

/* The status for an error of libfabric or the system: NO_MEMORY, NO_DESCRIPTORS; any other:
 * UNSUPPORTED. */
enum tutti_status ofi_status_of(int error);
/* Whether a later attempt may succeed: the status is one of the first two. */
bool ofi_is_shortage(enum tutti_status status);
/* Whether this process can open no more of them. */
bool ofi_descriptors_are_at_an_end(void);
/* Sets this thread's error to the text, after a refusal. error: as above; 0: there is none. Returns
 * the status, with a look at the descriptors that are left. */
enum tutti_status ofi_refuse(int error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
