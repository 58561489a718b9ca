/* lent_variables.h - environment variables that are there for the time of a few calls: for a
 * library that can be told something in no other way.
 *
 *     before    PATH=... HOME=...
 *     lent      PATH=... HOME=... NAME=value      in another array; the one before stays as it was
 *
 * Another thread may read the environment at any time (getenv). setenv may free the array that such
 * a thread reads, which is why it is not used here: no array that was in use is ever freed, and
 * each of them is complete at any moment.
 */
#ifndef TUTTI_OS_LENT_VARIABLES_H
#define TUTTI_OS_LENT_VARIABLES_H

#include <stdbool.h>

/* Puts variables into the environment: texts NAME=value, which must last as long as the process. A
 * name that is there already keeps its value. False: memory is lacking, or another thread changes
 * the environment all the time; then none was put there. Any thread. */
bool lent_variables_put(const char *const *variables, unsigned count);
/* Takes the same texts away again, as far as they are there. Any thread. */
void lent_variables_take_back(const char *const *variables, unsigned count);

#endif
