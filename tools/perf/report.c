#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/printable.h"
#include "kernel/kernel.h"

static size_t size_of(const struct report *report, const struct perf_case *c)
{
    return operation_blocks(report->options->operation, report->rank_count) * c->count *
           tutti_dtype_size(c->dtype);
}

static double gigabytes_per_second(size_t bytes, double seconds)
{
    return seconds > 0 ? (double)bytes / seconds / 1e9 : 0;
}

static double bus_factor(const struct report *report)
{
    return report->options->operation->bus_factor(report->rank_count);
}

/* A column that means nothing for this operation shows "none", or -1. */
static const char *op_name(const struct report *report, const struct perf_case *c)
{
    return report->options->operation->reduces ? reduction_name(c->reduction) : "none";
}

static int root_number(const struct report *report, const struct perf_case *c)
{
    return report->options->operation->rooted ? c->root : -1;
}

static const char *memory_name(const struct perf_options *options)
{
    static const char *const names[] = {"private", "mapped", "device"};
    return names[options->memory];
}

static const char *kernels(void)
{
    return kernel_level_name(kernel_level_chosen());
}

struct number_text {
    char text[16];
};

static struct number_text tensors_text(const struct perf_options *options)
{
    struct number_text number = {"mixed"};
    if (options->tensors != TENSORS_MIXED)
        snprintf(number.text, sizeof number.text, "%d", options->tensors);
    return number;
}

/* ---------------------------------------------------------------------------------------- table */

static void table_half(const char *title)
{
    printf(" | %10s %8s %8s %7s %10s %10s", title, "algbw", "busbw", "#wrong", "p50", "p99");
}

static void table_units(void)
{
    printf(" | %10s %8s %8s %7s %10s %10s", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)");
}

static void table_start(const struct report *report)
{
    const struct perf_options *const o = report->options;
    char cpus[HARDWARE_CPUS_SIZE];
    hardware_print_cpus(&report->hardware, cpus);
    printf("# Tutti %s on host %s: %s, kernels %s\n", tutti_version_text(), report->host, cpus,
           kernels());
    printf("# tutti-perf %s: %d ranks (", o->operation->name, report->rank_count);
    if (o->launched)
        printf("from a launcher");
    else if (o->threads_per_process == 1)
        printf("processes");
    else
        printf("threads, %d in a process", o->threads_per_process);
    printf("%s), %ld cores here\n", o->pin ? ", pinned" : "", sysconf(_SC_NPROCESSORS_ONLN));
    printf("# %s memory, %s calls%s%s; time: back to back; p50, p99: one at a time %s\n",
           memory_name(o), perf_form_name(o->form), o->deterministic ? ", deterministic" : "",
           o->on_stream ? " in a stream" : "",
           o->one_clock ? "that all begin together" : "after a barrier");
    if (operation_has_counts(o->operation))
        printf("# counts: %s, displacements: %s\n", perf_skew_name(o->skew),
               perf_displs_name(o->displs));
    if (o->tensors != TENSORS_NONE) printf("# lists of %s tensors\n", tensors_text(o).text);
    if (o->misalign) printf("# off by %zu bytes, recv by twice as many\n", o->misalign);
    printf("#%11s %12s %11s %8s %5s", "size", "count", "type", "redop", "root");
    if (o->place & PLACE_OUT) table_half("time");
    if (o->place & PLACE_IN) table_half("in place");
    printf(" | algorithm\n#%11s %12s %11s %8s %5s", "(B)", "(elements)", "", "", "");
    if (o->place & PLACE_OUT) table_units();
    if (o->place & PLACE_IN) table_units();
    printf(" |\n");
}

static void table_measurement(const struct report *report, const struct report_row *row,
                              const struct measurement *m)
{
    if (!m->supported) {
        printf(" | %10s %8s %8s %7s %10s %10s", "-", "-", "-", "N/A", "-", "-");
        return;
    }
    const double algbw = gigabytes_per_second(size_of(report, row->c), m->loop);
    printf(" | %10.2f %8.3f %8.3f ", m->loop * 1e6, algbw, algbw * bus_factor(report));
    if (m->checked)
        printf("%7" PRId64, m->wrong);
    else
        printf("%7s", "N/A");
    printf(" %10.2f %10.2f", m->p50 * 1e6, m->p99 * 1e6);
}

static const char *ran(const struct measurement *m)
{
    return m != NULL && m->supported && m->ran[0] != '\0' ? m->ran : "-";
}

/* Out of place and in place, calls may get different algorithms. */
static void table_algorithm(const struct report_row *row)
{
    const char *const first = ran(row->out != NULL ? row->out : row->in), *const in = ran(row->in);
    if (row->in == NULL || strcmp(first, in) == 0)
        printf(" | %s\n", first);
    else
        printf(" | %s, in place %s\n", first, in);
}

static void table_row(struct report *report, const struct report_row *row)
{
    const struct perf_case *const c = row->c;
    if (c->algorithm && c->algorithm != report->algorithm) printf("# algorithm %s\n", c->algorithm);
    report->algorithm = c->algorithm;
    printf("%12zu %12zu %11s %8s %5d", size_of(report, c), c->count, tutti_dtype_name(c->dtype),
           op_name(report, c), root_number(report, c));
    if (row->out) table_measurement(report, row, row->out);
    if (row->in) table_measurement(report, row, row->in);
    table_algorithm(row);
}

static void table_end(const struct report *report, bool is_whole)
{
    if (!is_whole) puts("# Not everything was measured: FAILED");
    if (report->options->check_iterations && (is_whole || report->wrong))
        printf("# Wrong elements    : %" PRId64 " %s\n", report->wrong,
               report->wrong ? "FAILED" : "OK");
    if (report->busbw_count)
        printf("# Avg bus bandwidth : %.4f\n", report->busbw_sum / report->busbw_count);
}

/* ------------------------------------------------------------------------------ formats by line */

static void csv_start(void)
{
    puts("op,ranks,algorithm,size,count,dtype,redop,root,in_place,iterations,time_us,min_us,p50_us,"
         "p99_us,max_us,"
         "algbw,busbw,wrong,form,memory,skew,displs,tensors,misalign,priority,stream,ran,version,"
         "host,cpu,cpus,kernels");
}

static void csv_text(const char *text)
{
    const bool is_quoted = strpbrk(text, ",\"") != NULL;
    if (is_quoted) putchar('"');
    for (; *text; text++) {
        if (*text == '"') putchar('"');
        putchar(*text);
    }
    if (is_quoted) putchar('"');
}

static void csv_line(const struct report *report, const struct perf_case *c,
                     const struct measurement *m, bool in)
{
    const size_t size = size_of(report, c);
    const double algbw = gigabytes_per_second(size, m->loop);
    printf("%s,%d,%s,%zu,%zu,%s,%s,%d,%d,%d,%.3f,%.3f,%.3f,%.3f,%.3f,%.4f,%.4f,",
           report->options->operation->name, report->rank_count, c->algorithm ? c->algorithm : "",
           size, c->count, tutti_dtype_name(c->dtype), op_name(report, c), root_number(report, c),
           in, m->iterations, m->loop * 1e6, m->min * 1e6, m->p50 * 1e6, m->p99 * 1e6, m->max * 1e6,
           algbw, algbw * bus_factor(report));
    if (m->checked) printf("%" PRId64, m->wrong);
    const struct perf_options *const o = report->options;
    printf(",%s,%s,%s,%s,%s,%zu,%d,%d,", perf_form_name(o->form), memory_name(o),
           perf_skew_name(o->skew), perf_displs_name(o->displs), tensors_text(o).text, o->misalign,
           o->priority, o->on_stream);
    csv_text(m->ran);
    printf(",%s,", tutti_version_text());
    csv_text(report->host);
    putchar(',');
    csv_text(report->hardware.cpu_model);
    printf(",%d,%s\n", report->hardware.cpu_count, kernels());
}

static void json_string(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        if ((unsigned char)*text < 0x20)
            printf("\\u%04x", (unsigned)*text);
        else
            putchar(*text);
    }
    putchar('"');
}

static void json_start(const struct report *report)
{
    const struct perf_options *const o = report->options;
    printf("{\"version\": \"%s\", \"host\": ", tutti_version_text());
    json_string(report->host);
    printf(", \"cpu\": ");
    json_string(report->hardware.cpu_model);
    printf(", \"cpus\": %d, \"kernels\": \"%s\", ", report->hardware.cpu_count, kernels());
    printf("\"op\": \"%s\", \"ranks\": %d, \"memory\": \"%s\", \"form\": \"%s\", "
           "\"deterministic\": %s, \"skew\": \"%s\", \"displs\": \"%s\", "
           "\"tensors\": \"%s\", \"misalign\": %zu, \"priority\": %d, \"stream\": %s, "
           "\"results\": [",
           o->operation->name, report->rank_count, memory_name(o), perf_form_name(o->form),
           o->deterministic ? "true" : "false", perf_skew_name(o->skew), perf_displs_name(o->displs),
           tensors_text(o).text, o->misalign, o->priority, o->on_stream ? "true" : "false");
}

static void json_line(const struct report *report, const struct perf_case *c,
                      const struct measurement *m, bool in)
{
    const size_t size = size_of(report, c);
    const double algbw = gigabytes_per_second(size, m->loop);
    printf("%s\n  {\"algorithm\": ", report->row_count ? "," : "");
    if (c->algorithm)
        json_string(c->algorithm);
    else
        printf("null");
    printf(", \"ran\": ");
    if (m->ran[0] != '\0')
        json_string(m->ran);
    else
        printf("null");
    printf(", \"size\": %zu, \"count\": %zu, \"dtype\": \"%s\", \"redop\": \"%s\", \"root\": %d, "
           "\"in_place\": %s, "
           "\"iterations\": %d, ",
           size, c->count, tutti_dtype_name(c->dtype), op_name(report, c), root_number(report, c),
           in ? "true" : "false", m->iterations);
    printf("\"time_us\": %.3f, \"min_us\": %.3f, \"p50_us\": %.3f, \"p99_us\": %.3f, \"max_us\": "
           "%.3f, "
           "\"algbw\": %.4f, \"busbw\": %.4f, \"wrong\": ",
           m->loop * 1e6, m->min * 1e6, m->p50 * 1e6, m->p99 * 1e6, m->max * 1e6, algbw,
           algbw * bus_factor(report));
    if (m->checked)
        printf("%" PRId64 "}", m->wrong);
    else
        printf("null}");
}

static void peers_start(void)
{
    printf("%-14s %-16s %3s %2s %11s %6s %11s %11s %11s %11s %8s %8s %5s\n", "#lib", "op", "n", "ip",
           "bytes", "iters", "min_us", "med_us", "max_us", "loop_us", "algbw", "busbw", "check");
}

static void peers_line(const struct report *report, const struct perf_case *c,
                       const struct measurement *m, bool in)
{
    const size_t size = size_of(report, c);
    const double algbw = gigabytes_per_second(size, m->p50);
    printf("%-14s %-16s %3d %2s %11zu %6d %11.2f %11.2f %11.2f %11.2f %8.3f %8.3f %5s\n",
           report->options->label, report->options->operation->name, report->rank_count,
           in ? "y" : "n", size, m->iterations, m->min * 1e6, m->p50 * 1e6, m->max * 1e6,
           m->loop * 1e6, algbw, algbw * bus_factor(report),
           !m->checked ? "-"
           : m->wrong  ? "BAD"
                       : "ok");
}

static void line(struct report *report, const struct perf_case *c, const struct measurement *m,
                 bool in)
{
    if (!m || !m->supported) return;
    switch (report->options->format) {
    case FORMAT_TABLE: return;
    case FORMAT_JSON: json_line(report, c, m, in); break;
    case FORMAT_CSV: csv_line(report, c, m, in); break;
    case FORMAT_PEERS: peers_line(report, c, m, in); break;
    }
    report->row_count++;
}

/* --------------------------------------------------------------------------------------- report */

void report_start(struct report *report, const struct perf_options *options, int rank_count)
{
    *report = (struct report){.options = options, .rank_count = rank_count};
    if (gethostname(report->host, sizeof report->host - 1) != 0) strcpy(report->host, "?");
    printable_make(report->host);
    hardware_of_host(&report->hardware);
    switch (options->format) {
    case FORMAT_TABLE: table_start(report); break;
    case FORMAT_JSON: json_start(report); break;
    case FORMAT_CSV: csv_start(); break;
    case FORMAT_PEERS: peers_start(); break;
    }
    fflush(stdout);
}

static void set_number(struct plot_point *point, enum plot_field field, int64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, number);
    plot_set(point, field, text);
}

static void draw(struct report *report, const struct perf_case *c, const struct measurement *m,
                 bool in)
{
    const struct perf_options *const o = report->options;
    const size_t size = size_of(report, c);
    struct plot_point point = {.size = (double)size,
                               .time_us = m->loop * 1e6,
                               .busbw = gigabytes_per_second(size, m->loop) * bus_factor(report)};
    plot_set(&point, PLOT_OP, o->operation->name);
    set_number(&point, PLOT_RANKS, report->rank_count);
    plot_set(&point, PLOT_ALGORITHM, c->algorithm ? c->algorithm : "");
    plot_set(&point, PLOT_DTYPE, tutti_dtype_name(c->dtype));
    plot_set(&point, PLOT_REDOP, op_name(report, c));
    set_number(&point, PLOT_ROOT, root_number(report, c));
    set_number(&point, PLOT_IN_PLACE, in);
    if (!plot_add(&report->plot, &point)) report->plot_failed = true;
}

static void summarise(struct report *report, const struct perf_case *c, const struct measurement *m,
                      bool in)
{
    if (!m || !m->supported) return;
    report->wrong += m->wrong;
    report->busbw_sum += gigabytes_per_second(size_of(report, c), m->loop) * bus_factor(report);
    report->busbw_count++;
    if (report->options->plot) draw(report, c, m, in);
}

void report_add(struct report *report, const struct report_row *row)
{
    summarise(report, row->c, row->out, false);
    summarise(report, row->c, row->in, true);
    if (report->options->format == FORMAT_TABLE) table_row(report, row);
    line(report, row->c, row->out, false);
    line(report, row->c, row->in, true);
    fflush(stdout);
}

bool report_end(struct report *report, bool is_whole)
{
    if (report->options->format == FORMAT_TABLE) table_end(report, is_whole);
    if (report->options->format == FORMAT_JSON)
        printf("\n], \"complete\": %s}\n", is_whole ? "true" : "false");
    fflush(stdout);
    bool fine = !report->plot_failed;
    if (report->options->plot) fine = plot_write(&report->plot, report->options->plot) && fine;
    plot_release(&report->plot);
    return fine;
}
