#include "tests/sim/sim_story.h"

#include <stdarg.h>
#include <stdio.h>

static double now_ms(const struct sim_story *story)
{
    return (double)sim_now_ns(story->sim) / 1e6;
}

void story_tell(const struct sim_story *story, const char *format, ...)
{
    if (!story->is_verbose) return;
    va_list arguments;
    va_start(arguments, format);
    printf("%10.3f ms  ", now_ms(story));
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
}

void story_fail(struct sim_story *story, const char *format, ...)
{
    if (story->has_failed) return;
    va_list arguments;
    va_start(arguments, format);
    story->has_failed = true;
    const int used =
        snprintf(story->message, sizeof story->message,
                 "seed %llu, %.3f ms: ", (unsigned long long)story->seed, now_ms(story));
    vsnprintf(story->message + used, sizeof story->message - (size_t)used, format, arguments);
    va_end(arguments);
    story_tell(story, "VIOLATION %s", story->message);
}
