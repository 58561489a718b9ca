#include "waiting.h"

#include <unistd.h>

#include "calls.h"
#include "driver.h"
#include "runner.h"

enum { WAIT_MS = 300 };

static void *run_question(void *argument)
{
    struct waiting_question *const question = argument;
    facts_need(further.context_set(driver.context), "cuCtxSetCurrent");
    const double begin = facts_seconds_now();
    question->result = question->call();
    question->seconds = facts_seconds_now() - begin;
    atomic_store(&question->is_over, true);
    return NULL;
}

/* Whether it is over in a while. */
static bool try_question(struct waiting_question *question)
{
    const double begin = facts_seconds_now();
    atomic_store(&question->is_over, false);
    if (pthread_create(&question->thread, NULL, run_question, question) != 0) _exit(2);
    while (!atomic_load(&question->is_over) && facts_seconds_now() < begin + WAIT_MS * 1e-3)
        usleep(200);
    return atomic_load(&question->is_over);
}

static void finish_question(struct waiting_question *question, bool was_prompt)
{
    pthread_join(question->thread, NULL);
    if (question->result != CUDA_OK)
        facts_say("while a kernel runs, %s: %s", question->name, driver_name_of(question->result));
    else if (was_prompt)
        facts_say("while a kernel runs, %s takes %.1f us", question->name, question->seconds * 1e6);
    else
        facts_say("while a kernel runs, %s WAITS FOR IT", question->name);
    if (!was_prompt && question->must_not_wait) {
        facts_unexpected++;
        facts_say("UNEXPECTED: %s must not wait", question->name);
    }
}

/* Tells which calls of another thread go on while one waits. */
static void try_beside(const char *waiting)
{
    static struct waiting_question beside[] = {
        {.name = "cuPointerGetAttributes", .call = calls_ask},
        {.name = "cuMemRetainAllocationHandle", .call = calls_retain},
        {.name = "cuMemGetAddressRange", .call = calls_range},
        {.name = "cuStreamQuery", .call = calls_query},
        {.name = "a copy", .call = calls_copy}};
    enum { COUNT = sizeof beside / sizeof *beside };
    bool was_prompt[COUNT] = {false};
    for (int b = 0; b < COUNT; b++)
        if (beside[b].call != calls_retain || calls.mapped != 0)
            was_prompt[b] = try_question(&beside[b]);
    runner_end();
    for (int b = 0; b < COUNT; b++) {
        if (beside[b].call == calls_retain && calls.mapped == 0) continue;
        pthread_join(beside[b].thread, NULL);
        facts_say("while %s waits so, %s of another thread %s%s", waiting, beside[b].name,
                  was_prompt[b] ? "goes on" : "WAITS, TOO",
                  beside[b].result == CUDA_OK ? "" : ", and fails");
    }
}

void waiting_try_all(struct waiting_question *questions, int count)
{
    for (int q = 0; q < count; q++) {
        runner_begin();
        const bool is_prompt = try_question(&questions[q]);
        if (is_prompt)
            runner_end();
        else
            try_beside(questions[q].name);
        finish_question(&questions[q], is_prompt);
    }
}

void waiting_part(void)
{
    static struct waiting_question plain[] = {
        {.name = "cuPointerGetAttributes", .call = calls_ask, .must_not_wait = true},
        {.name = "cuMemGetAddressRange", .call = calls_range},
        {.name = "cuStreamQuery", .call = calls_query, .must_not_wait = true},
        {.name = "a copy in another stream", .call = calls_copy},
        {.name = "cuMemAllocAsync", .call = calls_allocate_later},
        {.name = "cuStreamCreate", .call = calls_make_stream},
        {.name = "cuStreamDestroy", .call = calls_free_stream},
        {.name = "cuIpcGetMemHandle", .call = calls_ipc_export},
        {.name = "cuMemAlloc", .call = calls_allocate},
        {.name = "cuMemFree", .call = calls_release},
        {.name = "cuMemHostAlloc", .call = calls_host_allocate},
        {.name = "cuMemFreeHost", .call = calls_host_release},
        {.name = "cuModuleLoadDataEx", .call = calls_load}};
    static struct waiting_question by_hand[] = {
        {.name = "cuMemRetainAllocationHandle", .call = calls_retain, .must_not_wait = true},
        {.name = "cuMemCreate", .call = calls_create},
        {.name = "cuMemExportToShareableHandle", .call = calls_export},
        {.name = "cuMemAddressReserve", .call = calls_reserve},
        {.name = "cuMemMap", .call = calls_map},
        {.name = "cuMemSetAccess", .call = calls_give_access},
        {.name = "cuMemUnmap", .call = calls_unmap}};
    runner_make();
    calls.plain = driver_allocated(FACTS_LARGE);
    calls.device = driver_allocated(FACTS_LARGE);
    if (driver_has_mappings()) {
        const cuda_memory mapped = driver_created(true);
        calls.mapped = driver_reserved(1);
        driver_map(calls.mapped, mapped);
    }
    waiting_try_all(plain, sizeof plain / sizeof *plain);
    if (driver_has_mappings()) waiting_try_all(by_hand, sizeof by_hand / sizeof *by_hand);
}
