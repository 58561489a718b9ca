/* descendants.h - ends every descendant of this process, in whatever process group or
 * session.
 *
 * Both processes of tutti-run are child subreapers: a process that a rank leaves behind becomes our
 * child as soon as its parent has gone. So it is enough to end children until there are none. A
 * child that is not reaped keeps its pid, so no foreign process can be hit.
 */
#ifndef TUTTI_TOOLS_RUN_DESCENDANTS_H
#define TUTTI_TOOLS_RUN_DESCENDANTS_H

/* From now on orphaned descendants become children of this process. 0, or -1 with errno. */
int descendants_adopt(void);
/* Kills and reaps children until there are none. Needs SIGCHLD blocked. Returns how many could not
 * be ended within two seconds (in an uninterruptible wait in the kernel, or not ours to kill), or
 * at least 1 if that is unknown; 0: all have ended. */
int descendants_kill(void);

#endif
