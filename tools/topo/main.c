/* tutti-topo - shows this machine, or the topology in a file, to people and to programs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "between.h"
#include "calibrate.h"
#include "fabric.h"
#include "gpus.h"
#include "options.h"
#include "os/file.h"
#include "probe.h"
#include "studio/foreign/nccl_xml.h"
#include "studio/topo/discover.h"
#include "studio/topo/draw.h"
#include "studio/topo/topo_json.h"
#include "text.h"
#include "topo/racks.h"

enum { FILE_BYTES_MAX = TOPO_JSON_BYTES_MAX };

static enum exit_code fail(const char *what, const char *why)
{
    fprintf(stderr, "tutti-topo: %s: %s\n", what, why);
    return EXIT_WRONG;
}

/* --------------------------------------------------------------------------- getting a topology */

static void print_note(const char *note, void *file_name)
{
    fprintf(stderr, "tutti-topo: %s: %s\n", (const char *)file_name, note);
}

/* The name of the first element of an XML text: what stands behind the first < that is followed by
 * a letter. */
static bool is_first_element(const char *text, const char *name)
{
    while ((text = strchr(text, '<')) != NULL && (text[1] == '?' || text[1] == '!')) text++;
    const size_t length = strlen(name);
    return text != NULL && strncmp(text + 1, name, length) == 0 &&
           strchr(" \t\r\n/>", text[1 + length]) != NULL;
}

/* JSON begins with a brace, lines of racks do not; of XML, hwloc's first element is <topology>. */
static enum tutti_status read_text(const char *text, size_t size, const char *name,
                                   struct topo *topo)
{
    const char *begin = text + strspn(text, " \t\r\n");
    if (*begin != '<' && *begin != '{') return topo_racks_load(text, size, topo);
    if (*begin == '{') return topo_json_load(text, size, topo);
    if (is_first_element(begin, "topology")) return topo_discover_xml(text, size, topo);
    return nccl_xml_load(text, size, topo, print_note, (void *)(uintptr_t)name);
}

static enum exit_code read_file(const char *name, struct topo *topo)
{
    const bool standard = strcmp(name, "-") == 0;
    enum exit_code code = EXIT_FINE;
    size_t size = 0;
    FILE *file = standard ? stdin : fopen(name, "rbe");
    char *text = file == NULL ? NULL : file_read_all(file, FILE_BYTES_MAX, &size);
    if (text == NULL)
        code = fail(name, strerror(errno));
    else if (read_text(text, size, name, topo) != TUTTI_OK)
        code = fail(name, tutti_error_message());
    free(text);
    if (file != NULL && !standard) fclose(file);
    return code;
}

/* Rank r on the r-th core, or on what else there is, and around again. */
static enum exit_code add_ranks(struct topo *topo, int ranks)
{
    static const enum topo_kind places[] = {TOPO_CORE, TOPO_PU, TOPO_ACCELERATOR, TOPO_MACHINE};
    const int node_count = topo->node_count;
    if (topo_rank_count(topo) > 0) return fail("--ranks", "the topology has ranks of its own");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int rank = 0;
        for (bool found = true; found && rank < ranks;) {
            found = false;
            for (int node = 0; node < node_count && rank < ranks; node++) {
                if (topo->nodes[node].kind != places[i]) continue;
                found = true;
                const struct topo_node added = {.kind = TOPO_RANK, .parent = node, .number = rank++};
                if (topo_add_node(topo, &added, NULL) != TUTTI_OK)
                    return fail("--ranks", tutti_error_message());
            }
        }
        if (rank == ranks) return EXIT_FINE;
    }
    return fail("--ranks", "the topology has nothing to put ranks on");
}

static enum exit_code get_topo(const struct options *options, struct topo *topo)
{
    enum exit_code code = EXIT_FINE;
    if (options->file != NULL)
        code = read_file(options->file, topo);
    else if (topo_discover(topo) != TUTTI_OK || gpus_add(topo) != TUTTI_OK)
        code = fail("this machine", tutti_error_message());
    if (code == EXIT_FINE && options->ranks > 0) code = add_ranks(topo, options->ranks);
    return code;
}

/* ----------------------------------------------------------------------------------- showing it */

static enum tutti_status print(const struct topo *topo, const struct options *options, FILE *file)
{
    if (options->levels) return print_levels(topo, file);
    switch (options->format) {
    case FORMAT_MATRIX: return print_matrix(topo, file);
    case FORMAT_SVG: return topo_draw_svg(topo, options->title, file);
    case FORMAT_JSON: return topo_json_dump(topo, file);
    case FORMAT_RACKS: return topo_racks_dump(topo, file);
    case FORMAT_TREE:
    case FORMAT_COUNT: break;
    }
    return print_tree(topo, file);
}

static enum tutti_status print_probe(const struct probe_result *result,
                                     const struct options *options, FILE *file)
{
    return options->format == FORMAT_MATRIX ? probe_print(result, file)
                                            : print(&result->topo, options, file);
}

/* The text is complete before the file is touched. */
static enum exit_code write_out(const char *name, const char *text, size_t size)
{
    FILE *file = name == NULL ? stdout : fopen(name, "wbe");
    if (file == NULL) return fail(name, strerror(errno));
    bool written = fwrite(text, 1, size, file) == size && fflush(file) == 0;
    int error = errno;
    if (name != NULL && fclose(file) != 0 && written) {
        written = false;
        error = errno;
    }
    return written ? EXIT_FINE : fail(name == NULL ? "standard output" : name, strerror(error));
}

/* One of topo and result. */
static enum exit_code show(const struct topo *topo, const struct probe_result *result,
                           const struct options *options)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) return fail("output", strerror(errno));
    const enum tutti_status status =
        result != NULL ? print_probe(result, options, file) : print(topo, options, file);
    const bool whole = fclose(file) == 0;
    enum exit_code code;
    if (status != TUTTI_OK)
        code = fail(options->probe          ? "--probe"
                    : options->file != NULL ? options->file
                                            : "this machine",
                    tutti_error_message());
    else
        code = whole ? write_out(options->output, text, size) : fail("output", "out of memory");
    free(text);
    return code;
}

static enum exit_code show_calibration(const struct calibration *calibration, const char *output)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) return fail("output", strerror(errno));
    const enum tutti_status status = calibrate_print(calibration, file);
    const bool whole = fclose(file) == 0 && status == TUTTI_OK;
    const enum exit_code code =
        whole ? write_out(output, text, size) : fail("output", "out of memory");
    free(text);
    return code;
}

/* Numbers that were measured on a busy machine are written, too, and the file says so. links: a
 * job's, or NULL. shows: prints the calibration as well. */
static enum exit_code calibrate(const struct options *options, const struct probe_result *links,
                                bool shows)
{
    struct calibration calibration;
    char path[CALIBRATE_PATH_SIZE], why[CALIBRATE_WHY_SIZE];
    if (calibrate_host(options->file, &calibration, why) != TUTTI_OK ||
        (links != NULL && measure_between(links, &calibration) != TUTTI_OK) ||
        calibrate_write(options->output, path, &calibration) != TUTTI_OK)
        return fail("--calibrate", tutti_error_message());
    const enum exit_code code = shows ? show_calibration(&calibration, NULL) : EXIT_FINE;
    if (code != EXIT_FINE) return code;
    fprintf(stderr, "tutti-topo: %s is written\n", path);
    if (!calibration.is_loaded) return EXIT_FINE;
    fprintf(stderr, "tutti-topo: this machine is loaded, and the file says so: %s\n", why);
    return EXIT_LOADED;
}

/* First all ranks measure the links. Then the other ranks of each host end, which takes a moment,
 * so that the first rank of a host has the host for itself. Rank 0 writes a file that is named. */
static enum exit_code calibrate_job(const struct options *options)
{
    struct probe_result links;
    bool shows;
    enum exit_code code = EXIT_FINE;
    if (probe_measure(&links, &shows) != TUTTI_OK)
        code = fail("--calibrate --probe", tutti_error_message());
    else if (links.latency_ns != NULL && (shows || options->output == NULL)) {
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
        code = calibrate(options, &links, shows);
    }
    probe_release(&links);
    return code;
}

/* A file of another machine is shown, too. */
static enum exit_code check_calibration(const struct options *options)
{
    struct calibration read;
    char path[CALIBRATE_PATH_SIZE];
    if (calibrate_read(options->file, path, &read) != TUTTI_OK)
        return fail("--calibration", tutti_error_message());
    const enum exit_code code = show_calibration(&read, options->output);
    if (code == EXIT_FINE && calibrate_check(path, &read) != TUTTI_OK)
        return fail("--calibration", tutti_error_message());
    return code;
}

/* Every rank says why it failed, as ranks do; one shows what all found. */
static enum exit_code probe(const struct options *options)
{
    struct probe_result result;
    bool shows;
    enum exit_code code = EXIT_FINE;
    if (probe_measure(&result, &shows) != TUTTI_OK)
        code = fail("--probe", tutti_error_message());
    else if (shows)
        code = show(NULL, &result, options);
    probe_release(&result);
    return code;
}

/* The root folder is this host. */
static enum exit_code check_fabric(const char *folder)
{
    const bool is_here = folder == NULL || strcmp(folder, "/") == 0;
    char sys[4096];
    if (!is_here && (snprintf(sys, sizeof sys, "%s/sys", folder) >= (int)sizeof sys ||
                     access(sys, R_OK | X_OK) != 0))
        return fail(folder, "it has no folder sys to look at");
    const bool is_fine = fabric_check(is_here ? "" : folder, stdout);
    if (fflush(stdout) != 0) return fail("standard output", strerror(errno));
    return is_fine ? EXIT_FINE : EXIT_WRONG;
}

int main(int argc, char **argv)
{
    struct options options;
    struct topo topo = {0};
    enum exit_code code = options_parse(argc, argv, &options);
    if (code != EXIT_FINE || options.done) return (int)code;
    if (options.check_fabric) return (int)check_fabric(options.file);
    if (options.calibrate && options.probe) return (int)calibrate_job(&options);
    if (options.calibrate) return (int)calibrate(&options, NULL, true);
    if (options.probe) return (int)probe(&options);
    if (options.calibration) return (int)check_calibration(&options);
    code = get_topo(&options, &topo);
    if (code == EXIT_FINE) code = show(&topo, NULL, &options);
    topo_release(&topo);
    return (int)code;
}
