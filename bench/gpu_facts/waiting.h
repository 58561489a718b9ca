/* waiting.h - the part of gpu_facts about calls that wait for a kernel that runs, and calls that
 * another thread cannot make while one waits so. */
#ifndef TUTTI_BENCH_GPU_FACTS_WAITING_H
#define TUTTI_BENCH_GPU_FACTS_WAITING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct waiting_question {
    const char *name;
    int (*call)(void);
    bool must_not_wait; /* this library makes it while calls are under way */
    pthread_t thread;
    int result;
    double seconds;
    atomic_bool is_over;
};

/* Makes each call while a kernel runs, and tells whether it waited. */
void waiting_try_all(struct waiting_question *questions, int count);

void waiting_part(void);

#endif
