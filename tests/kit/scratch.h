/* scratch.h - a folder of a test's own, which is gone afterwards with all that is in it. */
#ifndef TUTTI_TESTS_KIT_SCRATCH_H
#define TUTTI_TESTS_KIT_SCRATCH_H

enum { SCRATCH_BYTES = 64 };

/* A new, empty one; the program ends where there can be none. */
void scratch_make(char path[SCRATCH_BYTES]);
/* Removes it and all in it, without following links. None is allowed, too. */
void scratch_remove(const char *path);

#endif
