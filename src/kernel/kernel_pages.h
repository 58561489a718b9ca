/* kernel_pages.h - whether stores past the caches go by pages as loads do (kernel_element.h).
 *
 * It depends on the processor. On Intel's, stores by pages take less time. On AMD's (seen on Zen 3)
 * they take about as long as straight on, but several times as long where source and destination
 * lie at the same distance into a page, as large buffers mostly do: a load then waits until the
 * store before it has left for memory (measured: docs/develop/kernels.md).
 */
#ifndef TUTTI_KERNEL_KERNEL_PAGES_H
#define TUTTI_KERNEL_KERNEL_PAGES_H

#include <stdbool.h>

enum kernel_paging { PAGING_BY_PROCESSOR, PAGING_NEVER, PAGING_ALWAYS };

/* Any thread. */
bool kernel_streams_by_pages(void);
/* For tests and benchmarks, before kernels run. */
void kernel_set_paging(enum kernel_paging paging);

#endif
