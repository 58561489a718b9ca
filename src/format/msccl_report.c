#include "format/msccl_report.h"

#include <stdarg.h>
#include <stdio.h>

static int append(char *text, int used, int size, const char *what, int number)
{
    return number < 0 ? used : used + snprintf(text + used, (size_t)(size - used), what, number);
}

bool msccl_refuse(struct msccl_report *report, enum msccl_verdict verdict, int line, int gpu,
                  int block, int step, const char *format, ...)
{
    const int size = (int)sizeof report->message;
    if (report->verdict != MSCCL_PROVEN) return false;
    report->verdict = verdict;
    report->line = line;
    report->gpu = gpu;
    report->block = block;
    report->step = step;
    int used = line > 0 ? snprintf(report->message, sizeof report->message, "line %d: ", line) : 0;
    used = append(report->message, used, size, "gpu %d", gpu);
    used = append(report->message, used, size, " tb %d", block);
    used = append(report->message, used, size, " step %d", step);
    if (gpu >= 0) used += snprintf(report->message + used, (size_t)(size - used), ": ");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(report->message + used, sizeof report->message - (size_t)used, format, arguments);
    va_end(arguments);
    return false;
}
