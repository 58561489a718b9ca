/* option_mistake.h - tells of variables that begin with TUTTI_ and that nobody reads, which are mistyped as a rule:
 *
 *     TUTTI_TIMOUT is set, but there is no such option: is TUTTI_TIMEOUT meant?
 *     TUTTI_LOG=verbose counts as not set: off, warn, info or debug is needed
 *
 * Values of the first sort are not shown: they may be secrets.
 */
#ifndef TUTTI_BASE_OPTION_MISTAKE_H
#define TUTTI_BASE_OPTION_MISTAKE_H

/* Looks through the environment and warns in the log, in the first call of a process alone. Any thread, while none changes the
 * environment. */
void option_mistake_tell(void);
/* The name of the option for users that is most like `name`, which begins with TUTTI_ and ends at '=' or with the text; NULL: none is much
 * like it. */
const char *option_mistake_nearest(const char *name);

#endif
