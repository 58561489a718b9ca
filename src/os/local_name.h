/* local_name.h - names of local sockets (local_socket.h) that other users cannot keep a process
 * from having.
 *
 *     name                  if nobody else has it: found by connecting
 *     name-0123456789abcdef if another user has it: 16 random digits, which nobody can take before;
 *     found in the kernel's list of
 *                           all sockets of this network namespace
 *
 * Any user can guess a name and take it first, and any user can add names to that list. So a
 * process that connects believes a listener only when the kernel says that it belongs to this user,
 * and passes all others by.
 *
 * It keeps away neither users who flood a listener with connections, nor processes of the same
 * user.
 */
#ifndef TUTTI_OS_LOCAL_NAME_H
#define TUTTI_OS_LOCAL_NAME_H

#include <stdbool.h>

#include "tutti/tutti.h"

enum { LOCAL_NAME_MAX = 100 }; /* with the addition, and a zero byte at the end */

/* The findings of a call on its way. */
struct local_name_look {
    bool is_taken; /* another user has the name */
    bool is_busy;  /* somebody has it, but cannot be reached now */
};

/* IN_PROGRESS: a process of this user already listens under that name. */
enum tutti_status local_name_listen(const char *name, int *fd, struct local_name_look *look);
/* One attempt, which does not wait. searches: also looks in the list, which takes a while if there
 * are many sockets. INIT_TIMEOUT: no process of this user listens. */
enum tutti_status local_name_reach(const char *name, bool searches, int *fd,
                                   struct local_name_look *look);
/* Whether a line of the kernel's list, which is foreign, shows a listening socket with that name
 * and an addition; *found: the full name. */
bool local_name_in_line(const char *line, const char *name, char found[LOCAL_NAME_MAX]);

#endif
