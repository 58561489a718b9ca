#include "engine/start.h"

#include "engine/buffer.h"
#include "engine/cut_unit.h"
#include "kernel/executor.h"

void start_kernel(const struct operation *operation, kernel_reduce *kernel,
                  const struct kernel_call *call)
{
    struct kernel_executor *executor = operation->executor;
    if (executor != NULL)
        executor->ops->start(executor, kernel, call);
    else
        kernel(call);
}

uint64_t start_end(const struct operation *operation, bool any)
{
    struct kernel_executor *executor = operation->executor;
    return any && executor != NULL ? executor->ops->flush(executor) : 0;
}

bool start_is_finished(const struct operation *operation, uint64_t group)
{
    struct kernel_executor *executor = operation->executor;
    return executor->ops->is_finished(executor, group);
}

void start_copy(struct operation *operation, struct run_send *send, void *place,
                const struct memory_kind *memory, size_t bytes)
{
    const struct program *program = operation->program;
    const struct kernel_format from = {NULL, program->kinds[send->buffer]};
    const struct kernel_encoding *const encoding =
        program->tx_links[send - operation->sends].encoding;
    const bool has_formats = program->has_formats || encoding != NULL || send->rounds;
    const struct kernel_formats formats = {.destination = {encoding, memory},
                                           .sources = &from,
                                           .through = send->rounds ? program->encoding : NULL};
    for (size_t done = 0, run; done < bytes; done += run) {
        run = bytes - done;
        const void *source =
            buffer_at(&operation->buffers[send->buffer], send->offset + send->done + done, &run);
        if (run < bytes - done && has_formats && cut_unit_may_be(program) &&
            cut_unit_is_next(program, bytes - done, &run))
            source = cut_unit_gather(&operation->buffers[send->buffer],
                                     send->offset + send->done + done, run, operation->unit_room);
        const struct kernel_call call = {
            .destination = (char *)place + wire_bytes(encoding, program->element_bytes, done),
            .sources = &source,
            .source_count = 1,
            .count = run / program->element_bytes,
            .operation = program->op,
            .dtype = program->dtype,
            .formats = has_formats ? &formats : NULL};
        start_kernel(operation,
                     has_formats ? program->format_kernels.reduce : program->kernels.reduce, &call);
    }
    send->group = start_end(operation, bytes > 0);
    send->computing = send->group != 0 ? bytes : 0;
}

bool start_is_copied(struct operation *operation, struct run_send *send)
{
    if (send->group != 0 && !start_is_finished(operation, send->group)) return false;
    send->group = 0;
    return true;
}
