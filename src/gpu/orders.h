/* orders.h - kernel calls as orders to a worker (worker_protocol.h), and what has become of them:
 * one run's (executor.h).
 *
 *     start ──► job ──► order, order ... ──► parts in the rings of teams ──► said ──► copied out ──► job, group finished
 *                │        one piece each         one team each
 *                └── waits in a line while rings or arena are full
 *
 * A job is a kernel call. It becomes one order, or several where memory of the host that the device
 * does not reach takes part: each of these is as large as fits well into the arena, pinned memory
 * through which such elements go. An order that moves little has one part, in the ring of one team;
 * more of them make use of more teams.
 *
 * Only teams that are on the device get parts: a device that is busy may begin the others late.
 *
 * Beside its operation's kernels, a run reads memory of the device for others while its worker is
 * there (gpu_orders_read).
 *
 * One thread at a time. Memory is allocated when a run is made, and again only when more is started
 * at once than ever before.
 */
#ifndef TUTTI_GPU_ORDERS_H
#define TUTTI_GPU_ORDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/arena.h"
#include "gpu/worker_protocol.h"
#include "kernel/kernel.h"

enum { GPU_JOB_CLASSES = 11 };

/* The CPU's side of a control. */
struct gpu_worker {
    struct worker_control *control;
    struct worker_home *home;          /* in the device's memory */
    bool is_out;                       /* it was started, and nobody has seen that it has left */
    uint32_t issued[WORKER_TEAMS_MAX]; /* the number of each ring's last order */
};

struct gpu_order;
struct gpu_group;
struct gpu_job;

struct gpu_orders {
    unsigned team_count;
    struct gpu_worker *worker; /* NULL: no operation */
    struct gpu_worker *leaving; /* was told to leave in the middle of orders: may still use the arena */
    unsigned present_count, turn;
    uint8_t present[WORKER_TEAMS_MAX]; /* teams that are on the device */
    bool is_present[WORKER_TEAMS_MAX];
    uint32_t done[WORKER_TEAMS_MAX]; /* the number of each ring's last order that is done */
    uint16_t owners[WORKER_TEAMS_MAX][WORKER_SLOTS]; /* orders whose parts are in the rings */
    struct gpu_arena arena;
    struct gpu_order *orders; /* as many as all rings have places */
    uint16_t *idle_orders;
    uint32_t idle_order_count;
    struct gpu_group *groups;
    uint32_t group_count, idle_group; /* index of the first in a list; 0: none */
    uint32_t collecting;              /* the group that is being collected; 0: none */
    uint32_t serial;
    bool is_lost; /* out of memory, say: nothing of this operation is ever done, as if the device had stopped */
    struct gpu_job *line, *line_end; /* jobs that are not orders yet, or not all of them */
    struct gpu_job *idle_jobs[GPU_JOB_CLASSES];
};

/* Zeroed before. arena: pinned, 64-byte aligned, stays the caller's. NO_MEMORY: nothing needs to be
 * released. */
enum tutti_status gpu_orders_init(struct gpu_orders *orders, unsigned team_count, char *arena,
                                  size_t arena_bytes);
void gpu_orders_release(struct gpu_orders *orders);

/* Makes a control, which no worker uses, ready for the next one. */
void gpu_worker_prepare(struct gpu_worker *worker, unsigned team_count);
/* Tells it to leave, whether it has begun or not. */
void gpu_worker_end(struct gpu_worker *worker);
/* Whether no team of it is, or will be, on the device. */
bool gpu_worker_has_left(struct gpu_worker *worker, unsigned team_count);

/* Orders go to this worker, from when it has begun. */
void gpu_orders_begin(struct gpu_orders *orders, struct gpu_worker *worker);
/* The worker was told to leave. Jobs that have not finished never do. */
void gpu_orders_end(struct gpu_orders *orders);
/* Whether the worker has begun. */
bool gpu_orders_are_taken(struct gpu_orders *orders);

/* As kernel/executor.h. */
void gpu_orders_start(struct gpu_orders *orders, const struct kernel_call *call);
uint64_t gpu_orders_flush(struct gpu_orders *orders);
bool gpu_orders_are_done(struct gpu_orders *orders, uint64_t group);

/* Copies from memory of the device to the host's, through the arena. Returns its number; 0: there
 * is no worker on the device, an earlier one may still use the arena, or there is no memory. */
uint64_t gpu_orders_read(struct gpu_orders *orders, void *destination, const void *source,
                         size_t bytes);
enum gpu_reading {
    GPU_READING, /* it goes on */
    GPU_READ,    /* all is there */
    GPU_UNREAD   /* the worker was told to leave before that */
};
/* Once it is not GPU_READING any more, the number means nothing. */
enum gpu_reading gpu_orders_look(struct gpu_orders *orders, uint64_t reading);
/* Gives up a reading that is GPU_READING: nothing is stored to its destination from now on. */
void gpu_orders_drop(struct gpu_orders *orders, uint64_t reading);

#endif
