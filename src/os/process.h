/* process.h - telling this process from the one that it was forked from, and asking how another
 * process is.
 *
 * A child of fork() has its parent's memory, but neither its threads nor its place among the ranks.
 * An object that must not be used there is stamped with the generation in which it was made, and
 * the stamp is compared when the object is used.
 */
#ifndef TUTTI_OS_PROCESS_H
#define TUTTI_OS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Written only in a child, before its fork() returns: never while a thread reads. */
extern uint32_t process_generation_now;

/* The number of forks between this process and the one that loaded the library. */
static inline uint32_t process_generation(void)
{
    return process_generation_now;
}

/* A number for the PID namespace of this process. Two processes with the same number mean the same
 * process by a pid. 0: not known. */
uint32_t process_pid_namespace(void);
/* Whether /proc/PID is the process that this one calls PID. False if /proc was mounted for another
 * namespace. */
bool process_has_own_proc(void);
/* Whether a process is there and stopped, by a signal or a debugger. */
bool process_is_stopped(pid_t pid);
/* How long a thread of a process has waited for a processor on which it could have run, since it
 * began. 0: the system does not tell. */
uint64_t process_waited_ns(pid_t pid, pid_t thread);
/* Whether there is no such process, or it has ended and its parent has not waited for it yet. Works
 * without a descriptor of the process (pidfd_open), and without any descriptor if this process may
 * read the other one's memory. */
bool process_has_ended(pid_t pid);
/* The same for a process that has not ended yet, but is about to and runs no code of its own any
 * more: others may see its connections gone before it has ended. */
bool process_is_ending(pid_t pid);
/* A number that a process keeps until it executes another program (execve), or the same one again:
 * it follows from where the text and stack of the process lie. 0: the system does not tell, as for
 * processes of other users, or the process has ended. */
uint64_t process_program(pid_t pid);

/* A copy of a descriptor of another process, if that has the number `proof` at that address; -1: it
 * has not, or it is gone, or this process may not read its memory or take its descriptors, and
 * errno says so (ESRCH: no proof). Prompt. */
int process_copy_descriptor(pid_t pid, int descriptor, uint64_t proof_at, uint64_t proof);

#endif
