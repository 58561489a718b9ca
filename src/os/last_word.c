#include "os/last_word.h"

#include <assert.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/status.h"
#include "os/fork.h"
#include "os/futex.h"
#include "os/process.h"
#include "os/thread.h"

static_assert(offsetof(struct last_word, next) == 0 && sizeof(struct robust_list) == sizeof(uint64_t),
              "the kernel follows `next`");

/* In the order of the kernel's list, the last one given first. */
struct last_word_giver {
    struct last_word_giver *next;
    struct last_word *word;
    uint32_t generation; /* of the process */
};

enum keeper_state { STARTING, KEEPING, REFUSED, ENDING };
static const uint64_t WHILE_NS = UINT64_C(3600000000000); /* then it looks whether it is to end */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects all below */
static struct last_word_giver *givers;
static pthread_t keeper; /* while there are givers */
static uint32_t keeper_id;
static _Atomic uint32_t keeper_state;
/* Shared, so that a kernel that is out of memory and takes the memory which a process had alone
 * still finds the words; not inherited. */
static struct robust_list_head *head;

/* The words are the parent's. */
static void forget(bool is_held)
{
    (void)is_held;
    givers = NULL;
    head = NULL;
}

__attribute__((constructor)) static void watch_forks(void)
{
    static const struct fork_participant words = {.lock = &lock, .child = forget};
    fork_watch(FORK_LAST_WORD, &words);
}

/* --------------------------------------------------------------------------------------- thread */

static void *keep(void *unused)
{
    (void)unused;
    const bool can = syscall(SYS_set_robust_list, head, sizeof *head) == 0;
    keeper_id = (uint32_t)syscall(SYS_gettid);
    uint32_t state = can ? KEEPING : REFUSED;
    atomic_store_explicit(&keeper_state, state, memory_order_release); /* pairs with start */
    futex_wake(&keeper_state);
    while (state == KEEPING) {
        futex_wait(&keeper_state, KEEPING, WHILE_NS);
        state = atomic_load_explicit(&keeper_state, memory_order_acquire);
    }
    return NULL;
}

static void give_back_head(void)
{
    munmap(head, sizeof *head);
    head = NULL;
}

static enum tutti_status start(void)
{
    void *const memory =
        mmap(NULL, sizeof *head, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return error_system("a word for when this process ends");
    (void)madvise(memory, sizeof *head, MADV_DONTFORK);
    head = memory;
    head->list.next = &head->list;
    head->futex_offset = (long)offsetof(struct last_word, word);
    atomic_store_explicit(&keeper_state, STARTING, memory_order_relaxed);
    enum tutti_status status =
        thread_start(&keeper, keep, NULL, NULL, "the thread that ends with this process");
    if (status != TUTTI_OK) {
        give_back_head();
        return status;
    }
    uint32_t state;
    while ((state = atomic_load_explicit(&keeper_state, memory_order_acquire)) == STARTING)
        futex_wait(&keeper_state, STARTING, WHILE_NS);
    if (state == KEEPING) return TUTTI_OK;
    pthread_join(keeper, NULL);
    give_back_head();
    return error_set(TUTTI_UNSUPPORTED, "this system has no robust futexes");
}

static void stop(void)
{
    atomic_store_explicit(&keeper_state, ENDING, memory_order_release);
    futex_wake(&keeper_state);
    pthread_join(keeper, NULL);
    give_back_head();
}

/* ---------------------------------------------------------------------------------------- words */

static struct robust_list *node_of(struct last_word_giver *giver)
{
    return giver != NULL ? (struct robust_list *)(void *)giver->word : &head->list;
}

static void set_next(struct last_word *word, struct robust_list *next)
{
    atomic_store_explicit(&word->next, (uint64_t)(uintptr_t)next, memory_order_release);
}

/* The process may be killed at any of these stores: the kernel also sees to the pending word. */
static void set_pending(struct last_word_giver *giver)
{
    struct robust_list *const node = giver != NULL ? node_of(giver) : NULL;
    __atomic_store_n(&head->list_op_pending, node, __ATOMIC_SEQ_CST);
}

static void put_first(struct last_word_giver *giver)
{
    giver->next = givers;
    set_pending(giver);
    set_next(giver->word, node_of(givers));
    atomic_store_explicit(&giver->word->word, keeper_id, memory_order_seq_cst);
    __atomic_store_n(&head->list.next, node_of(giver), __ATOMIC_SEQ_CST);
    set_pending(NULL);
    givers = giver;
}

static void take_out(struct last_word_giver *giver)
{
    struct last_word_giver *previous = NULL;
    for (struct last_word_giver *g = givers; g != giver; g = g->next) previous = g;
    set_pending(giver);
    atomic_store_explicit(&giver->word->word, 0, memory_order_seq_cst);
    if (previous != NULL)
        set_next(previous->word, node_of(giver->next));
    else
        __atomic_store_n(&head->list.next, node_of(giver->next), __ATOMIC_SEQ_CST);
    set_pending(NULL);
    if (previous != NULL)
        previous->next = giver->next;
    else
        givers = giver->next;
}

enum tutti_status last_word_give(struct last_word *word, struct last_word_giver **giver)
{
    *giver = NULL;
    struct last_word_giver *const made = calloc(1, sizeof *made);
    if (made == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    made->word = word;
    made->generation = process_generation();
    pthread_mutex_lock(&lock);
    const enum tutti_status status = givers == NULL ? start() : TUTTI_OK;
    if (status == TUTTI_OK) put_first(made);
    pthread_mutex_unlock(&lock);
    if (status != TUTTI_OK) {
        free(made);
        return status;
    }
    *giver = made;
    return TUTTI_OK;
}

void last_word_take_back(struct last_word_giver *giver)
{
    if (giver == NULL) return;
    if (giver->generation == process_generation()) {
        pthread_mutex_lock(&lock);
        take_out(giver);
        if (givers == NULL) stop();
        pthread_mutex_unlock(&lock);
    }
    free(giver);
}

bool last_word_is_spoken(const struct last_word *word)
{
    return (atomic_load_explicit(&word->word, memory_order_relaxed) & FUTEX_OWNER_DIED) != 0;
}
