/* jansson.h - jansson, loaded when the first JSON is read: a process that reads none needs no such
 * library on the machine.
 *
 * Files that read JSON include <jansson.h> and call its functions as ever; jansson.c has functions
 * of these names, which call those of the library. A function that is used for the first time is
 * added to the list there, otherwise the linker misses it.
 */
#ifndef TUTTI_FORMAT_JANSSON_H
#define TUTTI_FORMAT_JANSSON_H

#include "tutti/tutti.h"

/* UNSUPPORTED: it is not here, and its functions return nothing. Any thread. */
enum tutti_status jansson_load(void);

#endif
