/* late.h - whether the time that a search was given is over. Every loop that may take long asks so
 * often that little comes between. */
#ifndef TUTTI_STUDIO_SYNTH_LATE_H
#define TUTTI_STUDIO_SYNTH_LATE_H

#include <stdbool.h>
#include <stdint.h>

#include "os/clock.h"

/* The deadline is a time of clock_now_ns(); 0 never comes. */
static inline bool synth_is_late(uint64_t deadline_ns)
{
    return deadline_ns != 0 && clock_now_ns() >= deadline_ns;
}

#endif
