/* excluded.h - whether a team has put this process out, so that it joins no team any more: its state
 * is not the job's, and what made it sick may still be there. A new process may join.
 *
 * Threads: any. */
#ifndef TUTTI_PROCESS_EXCLUDED_H
#define TUTTI_PROCESS_EXCLUDED_H

#include <stdbool.h>

void excluded_note(void);
bool excluded_is_noted(void);

#endif
