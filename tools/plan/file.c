#include "file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/file.h"
#include "plan/text.h"
#include "plan/verify.h"
#include "studio/foreign/msccl_depth.h"
#include "studio/foreign/msccl_export.h"
#include "studio/foreign/msccl_xml.h"
#include "studio/foreign/mscclpp_export.h"

enum { FILE_BYTES_MAX = 1 << 28 };

enum exit_code file_fail(const char *what, const char *why)
{
    fprintf(stderr, "tutti-plan: %s: %s\n", what, why);
    return EXIT_WRONG;
}

/* A plan as text never begins with that. */
static bool is_xml(const char *text, size_t size)
{
    size_t i = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (i < size && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n'))
        i++;
    return i < size && text[i] == '<';
}

static void print_faults(const char *name, const char *verdict, const struct msccl_report *report)
{
    const int count = report->further_count;
    fprintf(stderr, "tutti-plan: %s: %s: %s\n", name, verdict, report->message);
    for (int i = 0; i < count && i < MSCCL_FURTHER_MAX; i++)
        fprintf(stderr, "tutti-plan: %s: %s: %s\n", name, verdict, report->further[i]);
    if (count > MSCCL_FURTHER_MAX)
        fprintf(stderr, "tutti-plan: %s: %s: and %d more\n", name, verdict,
                count - MSCCL_FURTHER_MAX);
}

static struct plan *read_xml(const char *name, const char *text, size_t size, bool *in_place)
{
    static const char *const verdicts[] = {[MSCCL_PROVEN] = "",
                                           [MSCCL_WRONG] = "WRONG",
                                           [MSCCL_NOT_EXPRESSIBLE] = "not expressible as a plan",
                                           [MSCCL_NOT_KNOWN] = "not known"};
    struct plan *plan;
    struct msccl_report report;
    msccl_xml_load(text, size, &plan, &report);
    if (plan == NULL)
        print_faults(name, verdicts[report.verdict], &report);
    else
        *in_place = report.in_place;
    return plan;
}

struct plan *file_read_plan(const char *name, bool *in_place)
{
    const bool standard = strcmp(name, "-") == 0;
    size_t size = 0;
    char message[200];
    struct plan *plan = NULL;
    FILE *file = standard ? stdin : fopen(name, "rbe");
    char *text = file == NULL ? NULL : file_read_all(file, FILE_BYTES_MAX, &size);
    if (text == NULL)
        file_fail(name, strerror(errno));
    else if (is_xml(text, size))
        plan = read_xml(name, text, size, in_place);
    else if (plan_parse(text, size, &plan, message, sizeof message) != TUTTI_OK)
        file_fail(name, message);
    free(text);
    if (file != NULL && !standard) fclose(file);
    return plan;
}

enum exit_code file_write(const char *name, const char *text, size_t size)
{
    FILE *file = name == NULL ? stdout : fopen(name, "wbe");
    if (file == NULL) return file_fail(name, strerror(errno));
    bool written = fwrite(text, 1, size, file) == size && fflush(file) == 0;
    int error = errno;
    if (name != NULL && fclose(file) != 0 && written) {
        written = false;
        error = errno;
    }
    return written ? EXIT_FINE : file_fail(name == NULL ? "standard output" : name, strerror(error));
}

/* A plan that is wrong is not written down for others to run. */
static bool prove(const struct plan *plan, bool in_place)
{
    struct verify_report report;
    const struct verify_options how = {.in_place = in_place};
    if (plan_verify(plan, &how, &report) == VERIFY_PROVEN) return true;
    file_fail("export", report.message);
    return false;
}

/* The name in the file has it as well, but few look there. */
static void say_depth(int depth)
{
    if (depth == 1) return; /* every plan needs that */
    fprintf(stderr,
            "tutti-plan: export: each connection must hold %s%d messages where a fused step "
            "takes one only when it can send\n",
            depth == 0 ? "more than " : "", depth == 0 ? MSCCL_DEPTH_MAX : depth);
}

static enum tutti_status export_to(FILE *file, const struct plan *plan,
                                   const struct options *options, char *message,
                                   size_t message_bytes)
{
    char name[160];
    snprintf(name, sizeof name, "%s %s of %d ranks",
             options->algorithm != NULL ? options->algorithm->name : "plan",
             collective_name(plan->shape.collective), plan->shape.rank_count);
    if (strcmp(options->format, FORMAT_MSCCLPP) == 0) {
        const struct mscclpp_export_options how = {
            .name = name, .in_place = options->in_place, .host_of = options->hosts.host_of};
        return mscclpp_export(plan, &how, file, message, message_bytes);
    }
    int depth;
    const struct msccl_export_options how = {.profile = msccl_profile_find(options->format),
                                             .name = name,
                                             .in_place = options->in_place,
                                             .depth = &depth,
                                             .may_have_fewer_pieces = options->algorithm == NULL};
    const enum tutti_status status = msccl_export(plan, &how, file, message, message_bytes);
    if (status == TUTTI_OK) say_depth(depth);
    return status;
}

enum exit_code file_export_plan(const struct plan *plan, const struct options *options)
{
    char message[200];
    char *text = NULL;
    size_t size;
    if (options->hosts.rank_count > 0 && options->hosts.rank_count != plan->shape.rank_count)
        return file_fail("export", "the hosts have another number of ranks than the plan");
    if (!prove(plan, options->in_place)) return EXIT_WRONG;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) return file_fail("export", strerror(errno));
    const enum tutti_status status = export_to(file, plan, options, message, sizeof message);
    const bool written = fclose(file) == 0;
    enum exit_code code;
    if (status != TUTTI_OK)
        code = file_fail("export", message);
    else
        code = written ? file_write(options->output, text, size)
                       : file_fail("export", "out of memory");
    free(text);
    return code;
}
