/* watch.h - the end of the work, whatever it is: searches look at the time themselves, but not
 * the solver's library, the readers of files and the proof of a plan.
 *
 * A search that ends by itself may still have a result to show, so the watch waits for it a little.
 */
#ifndef TUTTI_TOOLS_SYNTH_WATCH_H
#define TUTTI_TOOLS_SYNTH_WATCH_H

#include <stdint.h>

enum { WATCH_GRACE_S = 2 }; /* how long a search may still be busy with its end */

/* Ends the process with EXIT_UNDECIDED, and says so, when so much time has passed; the last call
 * counts. Replaces the handler of SIGALRM. From the main thread. */
void watch_start(uint64_t time_ns);
/* Stops the watch: whatever follows is done to its end, such as the replacement of a file. */
void watch_stop(void);

#endif
