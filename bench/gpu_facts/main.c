/* gpu_facts - what a driver of CUDA's does where its documentation leaves that open, or where this
 * library relies on it: one run on a machine with a device tells all of it, in half a minute.
 *
 *     gpu_facts [DRIVER] [memory|waiting|processes]...
 *
 * DRIVER is a file with CUDA's driver, libcuda.so.1 by default; without the names of parts all run.
 *
 *     memory      of memory of each sort: what kind it is, its number, its range, its names and handles; also from a thread without a context
 *     waiting     which calls wait for a kernel that runs, and which other calls another thread cannot make while one waits so
 *     processes   what another process can map, what it finds there, what it waits for, and what is there when the owner has freed it
 *
 * Facts on which this library relies are marked with "expected"; a line that begins with UNEXPECTED
 * says that it is otherwise.
 *
 * Exit status 0: all is as expected; 1: not; 2: a mistake of the driver's or ours; 77: there is no
 * driver, or no device.
 */
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver.h"
#include "memory.h"
#include "processes.h"
#include "waiting.h"

enum { ALL_S = 140 };

int main(int argc, char **argv)
{
    const char *file = "libcuda.so.1";
    bool has_memory = false, has_waiting = false, has_processes = false;
    int ends[2];
    pid_t other = -1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "memory") == 0)
            has_memory = true;
        else if (strcmp(argv[i], "waiting") == 0)
            has_waiting = true;
        else if (strcmp(argv[i], "processes") == 0)
            has_processes = true;
        else
            file = argv[i];
    }
    const bool has_all = !has_memory && !has_waiting && !has_processes;
    alarm(ALL_S); /* a call of the driver may never return */
    /* Before the driver is there: a child of one that has used it could not use it. */
    if (has_all || has_processes) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || (other = fork()) < 0) return 2;
        if (other == 0) {
            close(ends[0]);
            alarm(ALL_S); /* a child has none of its parent's */
            return processes_other(file, ends[1]);
        }
        close(ends[1]);
    }
    const int status = driver_open(file);
    if (status != 0) return status;
    if (has_all || has_memory) memory_part();
    if (has_all || has_waiting) waiting_part();
    if (has_all || has_processes) processes_part(ends[0], other);
    facts_say(facts_unexpected == 0 ? "all is as expected" : "UNEXPECTED: see above");
    return facts_unexpected != 0;
}
