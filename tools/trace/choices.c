#include "choices.h"

#include <inttypes.h>

#include "text.h"

static void show_call(const struct trace_choice *choice, FILE *file)
{
    fprintf(file, "    %s", choice->call);
    if (choice->has_count) fprintf(file, " of %" PRIu64, choice->count);
    if (choice->dtype[0] != '\0')
        fprintf(file, "%s%s", choice->has_count ? " " : " of ", choice->dtype);
    if (choice->bytes_are_assumed)
        fprintf(file, ", whose blocks are taken to have %" PRIu64 " bytes", choice->bytes);
    else if (choice->dtype[0] != '\0')
        fprintf(file, ", %" PRIu64 " bytes", choice->bytes);
    if (choice->is_mapped) fputs(", mapped memory", file);
}

static void show_time(const char *before, uint64_t ns, FILE *file)
{
    char text[DURATION_TEXT_SIZE];
    if (ns == 0) return;
    describe_duration(0, ns, text);
    fprintf(file, "%s%s", before, text);
}

static const char *levels_text(bool only_hosts)
{
    return only_hosts ? " (hosts)" : "";
}

static void show_algorithm(const struct trace_choice *choice, FILE *file)
{
    fprintf(file, ": %s", choice->algorithm);
    if (choice->radix != 0) fprintf(file, "/%d", choice->radix);
    fputs(levels_text(choice->only_hosts), file);
    show_time(", about ", choice->expected_ns, file);
    fprintf(file, ", because %s", choice->reason);
    if (choice->next.algorithm[0] == '\0') return;
    fprintf(file, "; next best %s%s", choice->next.algorithm, levels_text(choice->next.only_hosts));
    show_time(", ", choice->next.expected_ns, file);
}

static void show_calls(const struct trace_choice *choice, FILE *file)
{
    if (choice->calls == 0) return;
    fprintf(file, "; %" PRIu64 " recent call%s", choice->calls, choice->calls > 1 ? "s" : "");
    show_time(choice->calls > 1 ? ", the middle one " : ", ", choice->median_ns, file);
}

static void show_rival(const struct trace_rival *rival, FILE *file)
{
    fprintf(file, "%s is not used: %s", rival->algorithm, rival->reason);
    show_time("about ", rival->expected_ns, file);
    fputc('\n', file);
}

/* Plans of the user that are not named. */
static void show_left_out(const char *before, uint64_t count, const char *after, FILE *file)
{
    if (count == 0) return;
    fprintf(file, "%s%" PRIu64 " more plan%s not used%s\n", before, count,
            count > 1 ? "s are" : " is", after);
}

void show_choices(const struct trace_json *trace, FILE *file)
{
    for (size_t i = 0; i < trace->choice_count; i++) {
        const struct trace_choice *choice = &trace->choices[i];
        show_call(choice, file);
        show_algorithm(choice, file);
        show_calls(choice, file);
        fputc('\n', file);
        for (size_t k = 0; k < choice->unused_count; k++) {
            fputs("        ", file);
            show_rival(&choice->unused[k], file);
        }
        show_left_out("        ", choice->unused_left_out, "", file);
    }
    for (size_t i = 0; i < trace->unused_plan_count; i++) {
        fputs("    ", file);
        show_rival(&trace->unused_plans[i], file);
    }
    show_left_out("    ", trace->unused_plans_left_out,
                  ": with TUTTI_LOG=info, the log of rank 0 says which, and why", file);
}
