/* last_word.h - a word in shared memory that the kernel changes when the process that gave it ends,
 * however it ends.
 *
 *     the process that gives it           kernel                     any process that has that memory
 *     last_word_give   ── alive ──►       at the end of the          last_word_is_spoken
 *     last_word_take_back ── 0            process: spoken
 *
 * It serves processes that cannot have a descriptor of the process that gave it, because that is in
 * another PID namespace and they do not see it. A look is a read of memory, a word costs no
 * descriptor, and a child of fork() does not keep its parent's word alive.
 *
 * The word is a robust futex (set_robust_list) of one thread of the process, which sleeps as long
 * as there are words. The kernel finds the words along a list that leads through the words
 * themselves; this process never reads a part of the list that others could have changed.
 *
 * Any thread. A child of fork() has given no word; it may take back a word that its parent gave,
 * which does nothing.
 */
#ifndef TUTTI_OS_LAST_WORD_H
#define TUTTI_OS_LAST_WORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* In shared memory; zeros: not given. */
struct last_word {
    _Atomic uint64_t next; /* the kernel's: an address in the process that gave it */
    _Atomic uint32_t word;
    uint32_t unused;
};

struct last_word_giver; /* a word that a process gave, as that process keeps it */

/* The word must stay where it is until it is taken back. The first call starts the thread, and
 * waits for nothing else. */
enum tutti_status last_word_give(struct last_word *word, struct last_word_giver **giver);
/* NULL is allowed. */
void last_word_take_back(struct last_word_giver *giver);
/* Whether the process that gave the word has ended. Also false if the word was not given, or was
 * taken back. */
bool last_word_is_spoken(const struct last_word *word);

#endif
