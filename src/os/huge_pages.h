/* huge_pages.h - how much of some memory the kernel maps in huge pages at this moment.
 *
 * The kernel copies from another process's memory page by page, so small pages make such a copy two
 * to four times as slow. Nothing but speed may depend on the answer: it is out of
 * date as soon as it is given.
 */
#ifndef TUTTI_OS_HUGE_PAGES_H
#define TUTTI_OS_HUGE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

/* Whether at most a quarter of the pages in [address, address + bytes) is small or not there. Takes
 * about 3 us and 3 system calls. Before Linux 6.7 nobody can tell: then it is whether the kernel
 * takes huge pages for memory that did not ask for them. Any thread. */
bool huge_pages_hold(const void *address, size_t bytes);

/* Answers that were given before, for memory that is asked for again and again. One thread at a time.
 * All zero: empty. */
struct huge_pages_known {
    struct huge_pages_answer {
        uintptr_t place;    /* where one huge page may be: its address / HUGE_PAGE_BYTES */
        uint32_t uses_left; /* until the kernel is asked again */
        bool is_huge;
    } answers[32];
    uint32_t misses; /* one in 16 is worth the time to ask */
    bool last;       /* is taken for the others: most programs have their memory in one way */
};
/* Whether the middle of [address, address + bytes) lies in a huge page, did a moment ago, or
 * probably does. */
bool huge_pages_ask(struct huge_pages_known *known, const void *address, size_t bytes);

#endif
