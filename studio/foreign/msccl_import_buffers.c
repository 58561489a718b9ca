/* msccl_import_buffers.c - which memory a chunk of a buffer is, in place and with separate
 * buffers. */
#include "studio/foreign/msccl_import_state.h"

/* In place, a rank without a part of the input reads the memory that will be its output. */
int msccl_import_output_of_input(const struct msccl_importer *importer, int gpu, int chunk)
{
    const struct plan_shape *const shape = &importer->shape;
    if (!importer->algo->in_place || (shape->collective == COLLECTIVE_SCATTER && gpu != shape->root))
        return -1;
    const int output = chunk + (int)plan_begin_in_place(shape, gpu, PLAN_INPUT) -
                       (int)plan_begin_in_place(shape, gpu, PLAN_OUTPUT);
    return output >= 0 && output < (int)plan_chunk_count(shape, gpu, PLAN_OUTPUT) ? output : -1;
}

int msccl_import_input_of_output(const struct msccl_importer *importer, int gpu, int chunk)
{
    const struct plan_shape *const shape = &importer->shape;
    const int inputs = (int)plan_chunk_count(shape, gpu, PLAN_INPUT);
    const int input = chunk + (int)plan_begin_in_place(shape, gpu, PLAN_OUTPUT) -
                      (int)plan_begin_in_place(shape, gpu, PLAN_INPUT);
    return input >= 0 && input < inputs && msccl_import_output_of_input(importer, gpu, input) == chunk
               ? input
               : -1;
}

int msccl_import_chunks_of(const struct msccl_importer *importer, int gpu, enum msccl_buffer buffer)
{
    if (buffer == MSCCL_SCRATCH) return importer->algo->gpus[gpu].chunks[MSCCL_SCRATCH];
    return (int)plan_chunk_count(&importer->shape, gpu,
                                 buffer == MSCCL_INPUT ? PLAN_INPUT : PLAN_OUTPUT);
}

enum plan_buffer msccl_import_buffer_of(enum msccl_buffer buffer)
{
    return buffer == MSCCL_INPUT ? PLAN_INPUT : buffer == MSCCL_OUTPUT ? PLAN_OUTPUT : PLAN_SCRATCH;
}

struct msccl_cell *msccl_import_cell_at(const struct msccl_importer *importer, int gpu,
                                        enum msccl_buffer buffer, int chunk)
{
    size_t index = importer->first_cells[gpu] + (size_t)chunk;
    if (buffer != MSCCL_INPUT) index += (size_t)msccl_import_chunks_of(importer, gpu, MSCCL_INPUT);
    if (buffer == MSCCL_SCRATCH)
        index += (size_t)msccl_import_chunks_of(importer, gpu, MSCCL_OUTPUT);
    if (buffer == MSCCL_INPUT) {
        const int output = msccl_import_output_of_input(importer, gpu, chunk);
        if (output >= 0) return msccl_import_cell_at(importer, gpu, MSCCL_OUTPUT, output);
    }
    return &importer->cells[index];
}
