/* executor.h - runs kernels that finish later than they are started: on a device beside this CPU.
 *
 *     start, start, start ─ flush ──► group 1 ─── runs ─── is_finished
 *     start ─────────────── flush ──► group 2 ─────── runs ─────── is_finished
 *
 * Without an executor a kernel is a call, and done when it returns. With one, what a kernel reads
 * must stay as it is and what it stores is not there until its group is finished. Groups finish in
 * any order. The kernels of one group run in any order or at once, because none touches what
 * another of its group stores.
 *
 * One thread at a time calls an executor. The end of a group wakes no sleeping thread by itself: an
 * executor wakes the transport (`wake`) if it can.
 */
#ifndef TUTTI_KERNEL_EXECUTOR_H
#define TUTTI_KERNEL_EXECUTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel/kernel.h"

struct kernel_executor {
    const struct kernel_executor_ops *ops;
};

struct kernel_executor_ops {
    /* Starts a kernel of the group that is being collected. `kernel` is the program's: the kernel
     * that this CPU would run, or a kernel that knows the program's formats. Copies all that *call
     * points to but elements, the operation, kinds of memory and encodings. Never waits. */
    void (*start)(struct kernel_executor *executor, kernel_reduce *kernel,
                  const struct kernel_call *call);
    /* Everything started since the last flush, one kernel at least, is a group. Returns its number,
     * never 0. */
    uint64_t (*flush)(struct kernel_executor *executor);
    /* Whether the whole group is finished; once it said so the number means nothing any more. Never
     * waits. */
    bool (*is_finished)(struct kernel_executor *executor, uint64_t group);
};

#endif
