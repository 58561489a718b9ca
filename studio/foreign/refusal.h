/* refusal.h - why an exporter does not write a plan: the first reason counts. */
#ifndef TUTTI_STUDIO_FOREIGN_REFUSAL_H
#define TUTTI_STUDIO_FOREIGN_REFUSAL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "tutti/tutti.h"

struct refusal {
    char *message; /* the caller's */
    size_t message_bytes;
    enum tutti_status status; /* TUTTI_OK as long as there is no reason */
};

/* A limit that is broken, or a thing that the format cannot say. Returns false. */
__attribute__((format(printf, 2, 3))) static inline bool refuse(struct refusal *refusal,
                                                                const char *format, ...)
{
    va_list arguments;
    if (refusal->status != TUTTI_OK) return false;
    refusal->status = TUTTI_INVALID_ALGORITHM;
    va_start(arguments, format);
    vsnprintf(refusal->message, refusal->message_bytes, format, arguments);
    va_end(arguments);
    return false;
}

static inline bool refuse_out_of_memory(struct refusal *refusal)
{
    refuse(refusal, "out of memory");
    refusal->status = TUTTI_NO_MEMORY;
    return false;
}

#endif
