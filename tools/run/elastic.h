/* elastic.h - a job that goes on when ranks die (--elastic): which ranks are started again, and when.
 *
 * Ranks and processes that join find each other in a directory (TUTTI_ELASTIC_STORE). A process that
 * has become a rank leaves a file there, by a name that its start alone has, as hosts that share the
 * directory may have equal pids: as long as one of these runs, a process that is started again finds a
 * team to join. A team that lets processes in leaves its address there, in one
 * file. On several hosts each host has its own directory, and the address goes from host to host.
 */
#ifndef TUTTI_TOOLS_RUN_ELASTIC_H
#define TUTTI_TOOLS_RUN_ELASTIC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "orders.h"

/* Makes the directory and sets the variable, unless the user has set it. Writes the path of what it
 * made, or "". False after it was said why not. */
enum { ELASTIC_STORE_BYTES = 4096 };
bool elastic_make_store(char path[ELASTIC_STORE_BYTES]);
/* Removes what was made; "" is allowed. */
void elastic_remove_store(const char *path);

/* A new name for a start of a rank. False: with errno. */
enum { ELASTIC_NAME_BYTES = 20 };
bool elastic_make_name(char name[ELASTIC_NAME_BYTES]);
/* Whether the process of that name is, or was, a rank of the team. */
bool elastic_is_member(const char *name);
/* Whether this host has no interface that is up, and ranks need one: none of them can start. */
bool elastic_is_cut_off(const char *master_address);

/* A descriptor that is readable when a file has come into the directory; -1 with errno. */
int elastic_watch(void);
/* Takes what has come from it. */
void elastic_watch_drain(int watch_fd);
/* The address that lies in the directory. False: there is none. */
bool elastic_read_address(unsigned char address[ADDRESS_BYTES]);
/* False: with errno. */
bool elastic_write_address(const unsigned char address[ADDRESS_BYTES]);
/* The time after which a rank is started again that lived for so long, and was started so often
 * already: a program that cannot run must not be started without a pause. */
uint64_t elastic_pause_ns(uint64_t lived_ns, int restart_count);

#endif
