/* option_mistake.h - warns of mistakes in the environment that would otherwise go unnoticed: names
 * that begin with TUTTI_ and are no option, and wishes that mean nothing.
 *
 *     TUTTI_TIMOUT is set, but there is no such option: is TUTTI_TIMEOUT meant?
 *     TUTTI_LOG=verbose counts as not set: off, warn, info or debug is needed
 *
 * The value of an unknown variable is not shown: it may be a secret.
 */
#ifndef TUTTI_BASE_OPTION_MISTAKE_H
#define TUTTI_BASE_OPTION_MISTAKE_H

#include <stdbool.h>

/* Looks through the environment and warns in the log, in the first call of a process alone. Any
 * thread, while none changes the environment. */
void option_mistake_tell(void);
/* Whether a variable, NAME=VALUE or NAME alone, begins with TUTTI_ and is no option; variables of
 * single tests do not count. */
bool option_mistake_is_unknown(const char *variable);
/* In words, as above; the variable is unknown. */
enum { OPTION_MISTAKE_SIZE = 256 };
void option_mistake_print(const char *variable, char text[static OPTION_MISTAKE_SIZE]);
/* The name of the option for users that is most like `name`, which begins with TUTTI_ and ends at
 * '=' or with the text; NULL: none is much like it. */
const char *option_mistake_nearest(const char *name);

#endif
