/* process.h - telling this process from the one that it was forked from.
 *
 * A child of fork() has its parent's memory, but neither its threads nor its place among the ranks. What must not
 * be used there is stamped with the generation in which it was made, and the stamp is compared when it is used.
 */
#ifndef TUTTI_OS_PROCESS_H
#define TUTTI_OS_PROCESS_H

#include <stdint.h>

/* Written only in a child, before its fork() returns: never while somebody reads. */
extern uint32_t process_generation_now;

/* How many forks lie between this process and the one that loaded the library, as far as they were watched. */
static inline uint32_t process_generation(void)
{
    return process_generation_now;
}

/* From now on forks count. Any thread, any number of times. */
void process_watch_forks(void);

#endif
