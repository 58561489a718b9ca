/* tutti-schedule - draws, checks and simulates schedules of pipelines. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "options.h"

static bool is_standard(const char *path)
{
    return strcmp(path, "-") == 0;
}

static enum tutti_status open_schedule(const struct options *options,
                                       struct tutti_schedule **schedule)
{
    if (!options->is_file) return tutti_schedule_create(options->name, &options->shape, schedule);
    return tutti_schedule_load(is_standard(options->name) ? "/dev/stdin" : options->name, schedule);
}

/* The output of tutti_schedule_text (where picture is NULL) or tutti_schedule_draw; to be freed. */
static enum tutti_status write_out(const struct tutti_schedule *schedule,
                                   const struct tutti_schedule_times *times,
                                   const enum tutti_schedule_picture *picture, char **text)
{
    size_t bytes = 0;
    *text = NULL;
    for (int turn = 0; turn < 2; turn++) {
        if (turn == 1 && (*text = malloc(bytes)) == NULL)
            return error_set(TUTTI_NO_MEMORY, "out of memory");
        const size_t room = turn == 1 ? bytes : 0;
        TRY(picture == NULL ? tutti_schedule_text(schedule, *text, room, &bytes)
                            : tutti_schedule_draw(schedule, times, *picture, *text, room, &bytes));
    }
    return TUTTI_OK;
}

static enum tutti_status write_file(const char *path, const char *text)
{
    FILE *const file = fopen(path, "we");
    bool is_written = file != NULL && fputs(text, file) >= 0;
    if (file != NULL) is_written = fclose(file) == 0 && is_written;
    return is_written ? TUTTI_OK : error_set(TUTTI_SYSTEM, "%s: %s", path, strerror(errno));
}

static enum tutti_status draw(const struct tutti_schedule *schedule, const struct options *options)
{
    const enum tutti_schedule_picture svg = TUTTI_SCHEDULE_PICTURE_SVG;
    char *text;
    enum tutti_status status = write_out(schedule, &options->times, &svg, &text);
    if (status == TUTTI_OK && is_standard(options->picture))
        fputs(text, stdout); /* run looks whether it could be written */
    else if (status == TUTTI_OK)
        status = write_file(options->picture, text);
    free(text);
    return status;
}

static enum tutti_status print_text(const struct tutti_schedule *schedule)
{
    char *text;
    const enum tutti_status status = write_out(schedule, NULL, NULL, &text);
    if (status == TUTTI_OK) fputs(text, stdout);
    free(text);
    return status;
}

/* The picture for a terminal; without it where it is too large. */
static enum tutti_status show_picture(const struct tutti_schedule *schedule,
                                      const struct tutti_schedule_times *times)
{
    const enum tutti_schedule_picture picture = TUTTI_SCHEDULE_PICTURE_TEXT;
    char *text;
    const enum tutti_status status = write_out(schedule, times, &picture, &text);
    if (status == TUTTI_OK) printf("%s\n", text);
    free(text);
    if (status != TUTTI_UNSUPPORTED) return status;
    printf("(%s)\n\n", tutti_error_message());
    return TUTTI_OK;
}

static enum tutti_status show(const struct tutti_schedule *schedule, const struct options *options)
{
    struct tutti_schedule_shape shape;
    double step_time, idle = 0;
    tutti_schedule_describe(schedule, &shape);
    double *const idle_times = calloc((size_t)shape.stage_count, sizeof *idle_times);
    if (idle_times == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    enum tutti_status status =
        tutti_schedule_simulate(schedule, &options->times, &step_time, idle_times);
    if (status == TUTTI_OK) status = show_picture(schedule, &options->times);
    if (status != TUTTI_OK) goto free_times;
    printf("%8s %10s %10s %12s\n", "stage", "busy", "idle", "activations");
    for (int s = 0; s < shape.stage_count; s++) {
        printf("%8d %10g %10g %12d\n", s, step_time - idle_times[s], idle_times[s],
               tutti_schedule_in_flight(schedule, s));
        idle += idle_times[s];
    }
    const double busy = step_time * shape.stage_count - idle;
    printf("step %g, idle over busy %.2f %%\n", step_time, 100 * idle / busy);
free_times:
    free(idle_times);
    return status;
}

static enum tutti_status write_wanted(const struct tutti_schedule *schedule,
                                      const struct options *options)
{
    TRY(tutti_schedule_check(schedule));
    if (options->prints_text) return print_text(schedule);
    if (options->picture != NULL) TRY(draw(schedule, options));
    if (options->picture != NULL && is_standard(options->picture)) return TUTTI_OK;
    return show(schedule, options);
}

static enum tutti_status run(const struct options *options)
{
    struct tutti_schedule *schedule;
    TRY(open_schedule(options, &schedule));
    const enum tutti_status status = write_wanted(schedule, options);
    tutti_schedule_free(schedule);
    if (status == TUTTI_OK && (fflush(stdout) != 0 || ferror(stdout)))
        return error_set(TUTTI_SYSTEM, "standard output: %s", strerror(errno));
    return status;
}

int main(int argc, char **argv)
{
    struct options options;
    const enum exit_code code = options_parse(argc, argv, &options);
    if (code != EXIT_FINE || options.done) return (int)code;
    if (run(&options) == TUTTI_OK) return EXIT_FINE;
    fprintf(stderr, "tutti-schedule: %s\n", tutti_error_message());
    return EXIT_WRONG;
}
