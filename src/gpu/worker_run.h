/* worker_run.h - what a block of a worker does (worker.h), on the device and, for tests, on the
 * host (device_code.h). Only kernels.cu and tests/gpu/twins.c include it, after reduce_run.h.
 *
 *     first warp of the leader                      of a member                           all threads
 *     looks in the ring for an order, or the end    looks in the inbox
 *     brings it to shared memory, and to the inbox  brings it to shared memory
 *     fence                                         fence                 ── barrier ──
 *                                                                                         leave, or
 *                                                                                         do their
 *                                                                                         part
 *                                                                         ── barrier ──
 *     waits for the members, fence, says that       fence, adds to `done`
 *     it is done
 */
#ifndef TUTTI_GPU_WORKER_RUN_H
#define TUTTI_GPU_WORKER_RUN_H

#include "gpu/device_code.h"
#include "gpu/worker_protocol.h"

/* The number of times that a block looks for an order without a nap. Then it naps between two
 * looks, ever longer: each look costs the bus 160 bytes. */
enum { WORKER_LOOKS = 1024, WORKER_NAP_NS = 64, WORKER_NAP_NS_MAX = 1024 };
/* So many pointers are brought to shared memory; if there are more, they are read where they
 * lie. */
enum { WORKER_POINTERS_NEAR = 256 };

/* Memory that the threads of a block share. */
struct worker_shared {
    union {
        struct worker_order order;
        uint32_t words[WORKER_WORDS];
    };
    uint32_t must_leave;
    uint32_t member_count; /* that have a part in the order */
    uint32_t number;       /* of the order */
    uint64_t ticket;
    uint64_t pointers[WORKER_POINTERS_NEAR];
};

#if defined(__CUDA_ARCH__)

/* Whether it holds for all threads of the warp, all of which ask. */
DEVICE_FUNCTION bool worker_all(bool mine)
{
    uint32_t all;
    __asm__ volatile("{\n\t.reg .pred mine, all;\n\t"
                     "setp.ne.u32 mine, %1, 0;\n\t"
                     "vote.sync.all.pred all, mine, 0xffffffff;\n\t"
                     "selp.u32 %0, 1, 0, all;\n\t}"
                     : "=r"(all)
                     : "r"((uint32_t)mine)
                     : "memory");
    return all != 0;
}

/* The value that the first thread of the warp has; all threads of the warp ask. */
DEVICE_FUNCTION uint32_t worker_first(uint32_t mine)
{
    uint32_t first;
    __asm__ volatile("shfl.sync.idx.b32 %0, %1, 0, 0x1f, 0xffffffff;"
                     : "=r"(first)
                     : "r"(mine)
                     : "memory");
    return first;
}

/* Loads a word that the CPU stored with release; what the CPU saw before is only seen after
 * worker_acquire. */
DEVICE_FUNCTION uint64_t worker_load(uint64_t address)
{
    return device_load64(address);
}
DEVICE_FUNCTION void worker_acquire(void)
{
    device_fence();
}
DEVICE_FUNCTION const uint64_t *worker_reach(uint64_t address, uint64_t bytes)
{
    (void)bytes;
    return (const uint64_t *)(uintptr_t)address;
}

#else

DEVICE_FUNCTION bool worker_all(bool mine)
{
    return mine;
}
DEVICE_FUNCTION uint32_t worker_first(uint32_t mine)
{
    return mine;
}
/* With acquire at once: the thread sanitizer knows no fences. */
DEVICE_FUNCTION uint64_t worker_load(uint64_t address)
{
    return device_load64_acquire(address);
}
DEVICE_FUNCTION void worker_acquire(void)
{
}
DEVICE_FUNCTION const uint64_t *worker_reach(uint64_t address, uint64_t bytes)
{
    return (const uint64_t *)gpu_twin_reach(address, bytes);
}

#endif

/* The place of a block, as it knows it. */
struct worker_place {
    uint64_t control, inbox;
    uint32_t team, member; /* 0: the leader */
    uint32_t team_size;
    uint64_t serial; /* of the worker, from 1 on */
    uint64_t done; /* the leader's: what `done` will be when all members have done what was passed on */
};

/* The first warp of the leader looks once, each thread at words of its own. Whether it found the
 * order, all of it, or the end. *must_leave: for the warp, whose threads see what the first one
 * stores in shared memory only after a barrier. */
DEVICE_FUNCTION bool worker_look(const struct worker_place *place, uint64_t slot,
                                 struct worker_shared *shared, uint32_t number, bool *must_leave)
{
    bool is_there = true, may_stay = true;
    for (uint32_t w = device_thread(); w <= WORKER_WORDS; w += DEVICE_WARP) {
        const uint64_t word =
            worker_load(w < WORKER_WORDS ? slot + w * sizeof(uint64_t)
                                         : place->control + offsetof(struct worker_control, end));
        if (w == WORKER_WORDS)
            may_stay = word == 0;
        else if (word >> 32 == number)
            shared->words[w] = (uint32_t)word;
        else
            is_there = false;
    }
    is_there = worker_all(is_there);
    may_stay = worker_all(may_stay);
    if (device_thread() == 0) shared->must_leave = !may_stay;
    *must_leave = !may_stay;
    return is_there || !may_stay;
}

/* As worker_look, of a member, in the inbox: for any order but the one that it saw last. *number:
 * becomes the order's. */
DEVICE_FUNCTION bool worker_look_inside(const struct worker_place *place,
                                        struct worker_shared *shared, uint32_t *number,
                                        bool *must_leave)
{
    const uint64_t slot = place->inbox + offsetof(struct worker_inbox, order);
    const uint64_t count = worker_load(place->inbox + offsetof(struct worker_inbox, member_count));
    const uint32_t found = worker_first((uint32_t)(count >> 32)); /* threads may see several */
    bool is_there = found != *number, may_stay = true;
    for (uint32_t w = device_thread(); w <= WORKER_WORDS; w += DEVICE_WARP) {
        const uint64_t word =
            worker_load(w < WORKER_WORDS ? slot + w * sizeof(uint64_t)
                                         : place->inbox + offsetof(struct worker_inbox, end));
        if (w == WORKER_WORDS)
            may_stay = word != place->serial;
        else if (word >> 32 == found)
            shared->words[w] = (uint32_t)word;
        else
            is_there = false;
    }
    is_there = worker_all(is_there);
    may_stay = worker_all(may_stay);
    if (device_thread() == 0) {
        shared->must_leave = !may_stay;
        shared->member_count = (uint32_t)count;
    }
    *must_leave = !may_stay;
    if (!is_there && may_stay) return false;
    *number = found;
    return true;
}

/* The first warp: returns when it has found the order, or the end; whether it is the end. */
DEVICE_FUNCTION bool worker_wait(const struct worker_place *place, struct worker_shared *shared,
                                 uint32_t *number)
{
    const uint64_t slot = place->control + offsetof(struct worker_control, rings) +
                          ((uint64_t)place->team * WORKER_SLOTS + *number % WORKER_SLOTS) *
                              sizeof(struct worker_slot);
    uint32_t looks = 0, nap_ns = WORKER_NAP_NS;
    bool must_leave;
    while (place->member == 0 ? !worker_look(place, slot, shared, *number, &must_leave)
                              : !worker_look_inside(place, shared, number, &must_leave)) {
        if (looks < WORKER_LOOKS) {
            looks++;
            continue;
        }
        device_sleep(nap_ns);
        if (nap_ns < WORKER_NAP_NS_MAX) nap_ns *= 2;
    }
    worker_acquire(); /* and by the barrier that comes all threads see what the CPU saw before the order */
    return must_leave;
}

/* The first warp of the leader, which has the order in shared memory: for all members that are
 * there by now. */
DEVICE_FUNCTION void worker_pass_on(const struct worker_place *place, struct worker_shared *shared,
                                    uint32_t number)
{
    const uint64_t slot = place->inbox + offsetof(struct worker_inbox, order);
    const uint32_t members =
        (uint32_t)(device_load64_acquire(place->inbox + offsetof(struct worker_inbox, tickets)) -
                   (place->serial - 1) * place->team_size);
    for (uint32_t w = device_thread(); w < WORKER_WORDS; w += DEVICE_WARP)
        device_store64_release(slot + w * sizeof(uint64_t),
                               (uint64_t)number << 32 | shared->words[w]);
    if (device_thread() != 0) return;
    shared->member_count = members;
    device_store64_release(place->inbox + offsetof(struct worker_inbox, member_count),
                           (uint64_t)number << 32 | members);
}

/* The order's pointers, where all threads can read them. */
DEVICE_FUNCTION const uint64_t *worker_pointers(struct worker_shared *shared)
{
    const uint64_t count =
        (uint64_t)shared->order.reduce.source_count + shared->order.reduce.destination_count;
    const uint64_t elsewhere = shared->order.elsewhere;
    if (count <= WORKER_POINTERS) return shared->order.pointers;
    if (count > WORKER_POINTERS_NEAR) return worker_reach(elsewhere, count * sizeof(uint64_t));
    for (uint64_t i = device_thread(); i < count; i += device_thread_count())
        shared->pointers[i] = device_load64(elsewhere + i * sizeof(uint64_t));
    device_barrier();
    return shared->pointers;
}

/* One thread, after a barrier: what all threads of the block stored, anywhere, comes before. */
DEVICE_FUNCTION void worker_say(const struct worker_place *place, enum worker_state state,
                                uint32_t number)
{
    device_store64_release(place->control + offsetof(struct worker_control, said) +
                               place->team * sizeof(uint64_t),
                           (uint64_t)state << 32 | number);
}

/* The leader's first thread: until a count of the inbox is so far. Members come to that by
 * themselves. */
DEVICE_FUNCTION void worker_await(const struct worker_place *place, uint64_t offset, uint64_t count)
{
    for (uint32_t looks = 0; device_load64_acquire(place->inbox + offset) != count; looks++)
        if (looks >= WORKER_LOOKS) device_sleep(WORKER_NAP_NS);
    device_fence();
}

/* The first thread of a block that has done its part of an order. */
DEVICE_FUNCTION void worker_finish(const struct worker_place *place, uint32_t number)
{
    if (place->member > 0) {
        device_fence();
        device_add64(place->inbox + offsetof(struct worker_inbox, done), 1);
        return;
    }
    worker_await(place, offsetof(struct worker_inbox, done), place->done);
    worker_say(place, WORKER_PRESENT, number);
}

/* The first thread of a block that leaves. */
DEVICE_FUNCTION void worker_leave(const struct worker_place *place, uint32_t number)
{
    if (place->member > 0) {
        device_add64(place->inbox + offsetof(struct worker_inbox, left), 1);
        return;
    }
    device_store64_release(place->inbox + offsetof(struct worker_inbox, end), place->serial);
    worker_await(place, offsetof(struct worker_inbox, left), place->serial * (place->team_size - 1));
    worker_say(place, WORKER_LEFT, number);
}

/* The kernel: all threads of all blocks, with the address of a struct worker_home. */
DEVICE_FUNCTION void worker_run(uint64_t home)
{
    DEVICE_SHARED struct worker_shared shared;
    const uint32_t thread = device_thread(), threads = device_thread_count();
    struct worker_place place = {.control =
                                     device_load64(home + offsetof(struct worker_home, control))};
    place.team_size = (uint32_t)device_load64(home + offsetof(struct worker_home, team_size));
    place.team = device_block() / place.team_size;
    place.inbox =
        home + offsetof(struct worker_home, inboxes) + place.team * sizeof(struct worker_inbox);
    /* Before the ticket: what is passed on to it comes after that. */
    uint32_t number =
        (uint32_t)(device_load64(place.inbox + offsetof(struct worker_inbox, member_count)) >> 32);
    place.done = device_load64(place.inbox + offsetof(struct worker_inbox, done));
    device_barrier(); /* all have read it */
    if (thread == 0)
        shared.ticket = device_add64(place.inbox + offsetof(struct worker_inbox, tickets), 1);
    device_barrier();
    place.member = (uint32_t)(shared.ticket % place.team_size);
    place.serial = shared.ticket / place.team_size + 1;
    if (place.member == 0) {
        if (thread == 0)
            shared.number =
                (uint32_t)device_load64(place.control + offsetof(struct worker_control, said) +
                                        place.team * sizeof(uint64_t));
        device_barrier();
        number = shared.number;
        device_barrier(); /* all have read it */
        if (thread == 0) worker_say(&place, WORKER_PRESENT, number);
    }
    for (;;) {
        if (place.member == 0) number++;
        if (thread < DEVICE_WARP) {
            const bool must_leave = worker_wait(&place, &shared, &number);
            if (place.member == 0 && !must_leave && place.team_size > 1)
                worker_pass_on(&place, &shared, number);
            else if (place.member == 0 && thread == 0)
                shared.member_count = 1;
            if (thread == 0) shared.number = number;
        }
        device_barrier();
        if (shared.must_leave) break;
        number = shared.number;
        const uint32_t members = shared.member_count;
        if (place.member == 0) place.done += members - 1;
        if (place.member < members) {
            /* Teams share it out by rows, whichever of them has how many members. */
            const uint32_t share = shared.order.reduce.share >> 4, parts = share * members,
                           part = (shared.order.reduce.share & 0xf) + share * place.member;
            gpu_reduce_run(&shared.order.reduce, worker_pointers(&shared), part * threads + thread,
                           parts * threads);
        }
        device_barrier();
        if (thread == 0 && place.member < members) worker_finish(&place, number);
    }
    if (thread == 0) worker_leave(&place, number - 1);
}

#endif
