/* msccl_import_refuse.c - refuses a step, a GPU or the whole file. */
#include <stdarg.h>
#include <stdio.h>

#include "studio/foreign/msccl_import_state.h"

bool msccl_import_refuse_step(const struct msccl_importer *importer, struct msccl_report *report,
                              enum msccl_verdict verdict, int step, const char *why)
{
    const struct msccl_block *block = msccl_import_block_at(importer, step);
    const struct msccl_step *of = &importer->algo->steps[step];
    return msccl_refuse(report, verdict, of->line, block->gpu,
                        msccl_import_number_of_block(importer, block), step - block->first_step,
                        "%s (%s)", why, msccl_types[of->type].name);
}

bool msccl_import_wrong_step(const struct msccl_importer *importer, int step, const char *format,
                             ...)
{
    char why[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    return msccl_import_refuse_step(importer, importer->report, MSCCL_WRONG, step, why);
}

void msccl_import_note_step(struct msccl_importer *importer, int step, const char *format, ...)
{
    char why[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    msccl_import_refuse_step(importer, &importer->note, MSCCL_NOT_EXPRESSIBLE, step, why);
}

bool msccl_import_refuse_all(const struct msccl_importer *importer, enum msccl_verdict verdict,
                             int gpu, const char *why)
{
    return msccl_refuse(importer->report, verdict, gpu < 0 ? 0 : importer->algo->gpus[gpu].line,
                        gpu, -1, -1, "%s", why);
}

bool msccl_import_out_of_memory(const struct msccl_importer *importer)
{
    return msccl_import_refuse_all(importer, MSCCL_NOT_KNOWN, -1, "out of memory");
}

struct msccl_step_name msccl_import_name_of(const struct msccl_importer *importer, int step, int gpu)
{
    const struct msccl_block *block = msccl_import_block_at(importer, step);
    const int number = msccl_import_number_of_block(importer, block), at = step - block->first_step;
    struct msccl_step_name name;
    if (block->gpu == gpu)
        snprintf(name.text, sizeof name.text, "tb %d step %d", number, at);
    else
        snprintf(name.text, sizeof name.text, "gpu %d tb %d step %d", block->gpu, number, at);
    return name;
}
