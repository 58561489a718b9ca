#include "report.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "os/file.h"
#include "report_bars.h"
#include "report_job.h"
#include "report_page.h"
#include "report_tables.h"
#include "report_words.h"
#include "studio/page/page.h"

/* -------------------------------------------------------------------------------------- options */

static bool misused(const char *what, const char *why)
{
    return trace_complain("report: %s%s (see tutti-trace --help)", what, why);
}

bool report_parse(int argc, char **argv, struct report_options *options)
{
    static const struct option list[] = {{"calibration", required_argument, NULL, 'c'},
                                         {"output", required_argument, NULL, 'o'},
                                         {0}};
    *options = (struct report_options){.output = NULL};
    opterr = 0;
    for (int letter; (letter = getopt_long(argc, argv, ":o:", list, NULL)) != -1;) switch (letter) {
        case 'c': options->calibration = optarg; break;
        case 'o': options->output = optarg; break;
        case ':': return misused(argv[optind - 1], " needs a value");
        default: return misused(argv[optind - 1], " is no option, or takes no value");
        }
    options->paths = argv + optind;
    options->path_count = argc - optind;
    return options->path_count > 0 || misused("it takes dumps, or folders of them", "");
}

/* ----------------------------------------------------------------------------------------- page */

/* Chooses the communicator that is shown, if there are several. */
static void write_chooser(FILE *file, const struct report_job *job)
{
    if (job->count < 2) return;
    fputs("<nav class=\"chooser\" hidden><label for=\"chooser\">Communicator</label>\n"
          "<select id=\"chooser\">\n",
          file);
    for (size_t c = 0; c < job->count; c++) {
        const struct report_comm *comm = &job->comms[c];
        fprintf(file, "<option value=\"comm-%zu\">", c);
        page_print(file, "%s, %d ranks: %s", comm->traces->communicator, comm->size,
                   comm->verdict.text);
        fputs("</option>\n", file);
    }
    fputs("</select></nav>\n", file);
}

static void write_omitted(FILE *file, const struct report_omitted *omitted)
{
    if (omitted->rows > 0)
        fprintf(file, "<li>The timeline shows %d ranks and leaves out %zu.</li>\n", REPORT_ROWS_MAX,
                omitted->rows);
    if (omitted->bars > 0)
        fprintf(file,
                "<li>The timeline leaves out %zu calls and messages of the dumps, the oldest "
                "ones.</li>\n",
                omitted->bars);
}

static void begin_part(FILE *file, const char *title)
{
    fprintf(file, "<section>\n<h2>%s</h2>\n", title);
}

static void end_part(FILE *file)
{
    fputs("</section>\n", file);
}

static enum tutti_status write_comm(FILE *file, const struct report_comm *comm, size_t number,
                                    const struct report_omitted *omitted, const char *calibration)
{
    fprintf(file, "<section class=\"comm\" id=\"comm-%zu\" aria-label=\"Communicator ", number);
    page_print(file, "%s", comm->traces->communicator);
    fputs("\">\n", file);
    if (number > 0) { /* the head has the verdict of the first one */
        fputs("<p class=\"verdict\">", file);
        page_print(file, "Communicator %s: %s.", comm->traces->communicator, comm->verdict.text);
        fputs("</p>\n", file);
    }
    begin_part(file, "Evidence");
    report_write_evidence(file, comm);
    end_part(file);
    begin_part(file, "Timeline");
    fprintf(file,
            "<div class=\"timeline\" data-number=\"%zu\"><noscript>The timeline needs "
            "JavaScript.</noscript></div>\n",
            number);
    end_part(file);
    begin_part(file, "Slow ranks");
    report_write_slow(file, comm);
    end_part(file);
    begin_part(file, "Measured and predicted times");
    TRY(report_write_measured(file, comm, calibration));
    end_part(file);
    begin_part(file, "Not known");
    fputs("<ul class=\"unknown\">\n", file);
    report_write_unknown(file, comm);
    write_omitted(file, omitted);
    fputs("</ul>\n", file);
    end_part(file);
    end_part(file);
    return TUTTI_OK;
}

/* The sections of all communicators, and the data of their timelines. */
static enum tutti_status write_comms(FILE *sections, FILE *data, const struct report_job *job,
                                     const char *calibration)
{
    fputs("[", data);
    for (size_t c = 0; c < job->count; c++) {
        struct report_omitted omitted;
        if (c > 0) fputs(",\n", data);
        TRY(report_write_bars(data, &job->comms[c], REPORT_BARS_MAX / job->count, &omitted));
        TRY(write_comm(sections, &job->comms[c], c, &omitted, calibration));
    }
    fputs("]", data);
    return TUTTI_OK;
}

/* A text that grows. */
struct growing {
    FILE *file;
    char *text;
    size_t size;
};

static bool open_all(struct growing *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        all[i].file = open_memstream(&all[i].text, &all[i].size);
        if (all[i].file == NULL) return false;
    }
    return true;
}

static bool close_all(struct growing *all, size_t count)
{
    bool are_whole = true;
    for (size_t i = 0; i < count; i++) {
        are_whole = all[i].file != NULL && fclose(all[i].file) == 0 && are_whole;
        all[i].file = NULL;
    }
    return are_whole;
}

enum { TITLE, HEAD, CHOOSER, SECTIONS, UNREAD, DATA, TEXTS };

static enum tutti_status write_texts(struct growing *texts, const struct report_job *job,
                                     const char *calibration)
{
    report_write_title(texts[TITLE].file, job);
    report_write_head(texts[HEAD].file, job);
    write_chooser(texts[CHOOSER].file, job);
    report_write_unread(texts[UNREAD].file, job);
    return write_comms(texts[SECTIONS].file, texts[DATA].file, job, calibration);
}

static void write_page(FILE *file, const struct growing *texts)
{
    const struct page_part parts[] = {{"title", texts[TITLE].text},
                                      {"css", report_css},
                                      {"head", texts[HEAD].text},
                                      {"chooser", texts[CHOOSER].text},
                                      {"sections", texts[SECTIONS].text},
                                      {"unread", texts[UNREAD].text},
                                      {"data", texts[DATA].text},
                                      {"data_js", report_data_js},
                                      {"timeline_js", report_timeline_js},
                                      {"js", report_js},
                                      {.name = NULL}};
    page_write(report_html, parts, file);
}

char *report_make_page(const struct report_job *job, const char *calibration, size_t *size)
{
    struct growing texts[TEXTS] = {{.file = NULL}}, page = {.file = NULL};
    const bool are_open = open_all(texts, TEXTS);
    enum tutti_status status = are_open ? write_texts(texts, job, calibration) : TUTTI_NO_MEMORY;
    if (!close_all(texts, TEXTS)) status = error_set(TUTTI_NO_MEMORY, "out of memory");
    if (status == TUTTI_OK && open_all(&page, 1)) write_page(page.file, texts);
    if (status == TUTTI_OK && !close_all(&page, 1))
        status = error_set(TUTTI_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < TEXTS; i++) free(texts[i].text);
    if (status != TUTTI_OK) {
        free(page.text);
        return NULL;
    }
    *size = page.size;
    return page.text;
}

/* --------------------------------------------------------------------------------------- output */

static bool write_out(const char *name, const char *text, size_t size)
{
    if (name != NULL)
        return file_replace(name, text, size) == TUTTI_OK ||
               trace_complain("%s: %s", name, tutti_error_message());
    if (fwrite(text, 1, size, stdout) == size && fflush(stdout) == 0) return true;
    return trace_complain("standard output: %s", strerror(errno));
}

static enum report_outcome report_job(const struct report_options *options,
                                      const struct report_job *job)
{
    size_t size;
    char *text = report_make_page(job, options->calibration, &size);
    if (text == NULL) {
        trace_complain("report: %s", tutti_error_message());
        return REPORT_NONE;
    }
    const bool is_written = write_out(options->output, text, size);
    free(text);
    if (!is_written) return REPORT_NONE;
    return job->traces.unread_count > 0 ? REPORT_LACKS_FILES : REPORT_WHOLE;
}

enum report_outcome report_dumps(const struct report_options *options)
{
    struct report_job job;
    enum report_outcome outcome = REPORT_NONE;
    if (report_job_read(&job, options->paths, options->path_count))
        outcome = report_job(options, &job);
    report_job_release(&job);
    return outcome;
}
