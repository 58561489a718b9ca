/* elastic.h - a job that goes on when ranks die (--elastic): which ranks are started again, and when.
 *
 * Ranks and processes that join find each other in a directory (TUTTI_ELASTIC_STORE). A process that
 * has become a rank leaves a file there, by its pid: as long as one of these runs, a process that is
 * started again finds a team to join.
 */
#ifndef TUTTI_TOOLS_RUN_ELASTIC_H
#define TUTTI_TOOLS_RUN_ELASTIC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Makes the directory and sets the variable, unless the user has set it. Writes the path of what it
 * made, or "". False after it was said why not. */
enum { ELASTIC_STORE_BYTES = 4096 };
bool elastic_make_store(char path[ELASTIC_STORE_BYTES]);
/* Removes what was made; "" is allowed. */
void elastic_remove_store(const char *path);

/* Whether the process is, or was, a rank of the team. */
bool elastic_is_member(pid_t pid);
/* The time after which a rank is started again that lived for so long, and was started so often
 * already: a program that cannot run must not be started without a pause. */
uint64_t elastic_pause_ns(uint64_t lived_ns, int restart_count);

#endif
