/* kept_text.h - texts that a process keeps for good, one copy of each: names that outlive what they
 * name. */
#ifndef TUTTI_BASE_KEPT_TEXT_H
#define TUTTI_BASE_KEPT_TEXT_H

/* The copy of that text, which is nobody's to free; two threads that ask at once may get one each.
 * NULL: no memory. Any thread, also in a child of fork(). */
const char *kept_text(const char *text);

#endif
