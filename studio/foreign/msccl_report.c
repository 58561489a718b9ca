#include "studio/foreign/msccl_report.h"

#include <stdarg.h>
#include <stdio.h>

static int append(char *text, int used, int size, const char *what, int number)
{
    return number < 0 ? used : used + snprintf(text + used, (size_t)(size - used), what, number);
}

static char *make_room(struct msccl_report *report, enum msccl_verdict verdict)
{
    if (report->verdict == MSCCL_PROVEN) return report->message;
    if (report->verdict != MSCCL_WRONG || verdict != MSCCL_WRONG) return NULL;
    const int index = report->further_count++;
    return index < MSCCL_FURTHER_MAX ? report->further[index] : NULL;
}

bool msccl_refuse(struct msccl_report *report, enum msccl_verdict verdict, int line, int gpu,
                  int block, int step, const char *format, ...)
{
    const int size = MSCCL_MESSAGE_BYTES;
    char *const text = make_room(report, verdict);
    if (text == NULL) return false;
    if (text == report->message) {
        report->verdict = verdict;
        report->line = line;
        report->gpu = gpu;
        report->block = block;
        report->step = step;
    }
    int used = line > 0 ? snprintf(text, MSCCL_MESSAGE_BYTES, "line %d: ", line) : 0;
    used = append(text, used, size, "gpu %d", gpu);
    used = append(text, used, size, " tb %d", block);
    used = append(text, used, size, " step %d", step);
    if (gpu >= 0) used += snprintf(text + used, (size_t)(size - used), ": ");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, (size_t)(size - used), format, arguments);
    va_end(arguments);
    return false;
}
