/* calls.h - calls of the driver that are made while a kernel runs, each as a function without
 * parameters. They return the driver's result. */
#ifndef TUTTI_BENCH_GPU_FACTS_CALLS_H
#define TUTTI_BENCH_GPU_FACTS_CALLS_H

#include <stdint.h>

#include "gpu/cuda_library.h"

/* The memory and streams that they use. */
extern struct calls {
    uint64_t device, extra, reserved, mapped, plain;
    cuda_memory physical;
    void *host;
    struct cuda_stream *stream;
    struct cuda_ipc_handle handle; /* another process's */
    int descriptor;                /* of another process's memory; -1: none */
} calls;

int calls_allocate(void);
int calls_release(void);
int calls_allocate_later(void);
int calls_host_allocate(void);
int calls_host_release(void);
int calls_ask(void);
int calls_range(void);
int calls_retain(void);
int calls_ipc_export(void);
int calls_export(void);
int calls_create(void);
int calls_reserve(void);
int calls_map(void);
int calls_give_access(void);
int calls_unmap(void);
int calls_make_stream(void);
int calls_free_stream(void);
int calls_query(void);
int calls_copy(void);
int calls_load(void);
int calls_ipc_open(void);
int calls_ipc_close(void);
int calls_import(void);

#endif
