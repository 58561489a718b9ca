/* Whatever dumps say, the page of a report has the elements of its frame and its data are JSON:
 * names stay text. The bytes are dumps, with a form feed between two of them, which no JSON has. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "report_job.h"
#include "report_page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DUMPS_MAX = 4 };

static size_t count(const char *text, const char *words)
{
    size_t found = 0;
    for (; (text = strstr(text, words)) != NULL; text++) found++;
    return found;
}

static void check_page(const char *page)
{
    static const char begin[] = "<script type=\"application/json\" id=\"data\">";
    json_error_t error;
    if (count(page, "<script") != count(report_html, "<script")) abort();
    if (count(page, "</script") != count(report_html, "</script")) abort();
    if (count(page, "<style") != 1 || count(page, "<!--") != 0) abort();
    const char *data = strstr(page, begin);
    if (data == NULL) abort();
    data += strlen(begin);
    json_t *root = json_loadb(data, (size_t)(strstr(data, "</script") - data), 0, &error);
    if (!json_is_array(root)) abort();
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace_json *all = calloc(DUMPS_MAX, sizeof *all);
    struct report_job job = {.traces = {.all = all}};
    size_t page_bytes;
    if (all == NULL) abort();
    for (const uint8_t *end; size > 0 && job.traces.count < DUMPS_MAX;
         size -= (size_t)(end - data), data = end) {
        const uint8_t *feed = memchr(data, '\f', size);
        end = feed != NULL ? feed + 1 : data + size;
        const size_t bytes = (size_t)((feed != NULL ? feed : end) - data);
        struct trace_json *trace = &all[job.traces.count];
        if (trace_json_load((const char *)data, bytes, trace) == TUTTI_OK) job.traces.count++;
    }
    if (job.traces.count > 0 && report_job_judge(&job)) {
        char *page = report_make_page(&job, NULL, &page_bytes);
        if (page == NULL) abort();
        check_page(page);
        free(page);
    }
    report_job_release(&job);
    return 0;
}
