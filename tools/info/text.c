#include "text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "build.h"
#include "tutti/tutti.h"

enum { LABEL_WIDTH = 15, SIZE_TEXT = 24, UNITS = 5, VALUE_SIZE = 400, VALUE_WIDTH_MAX = 50 };

/* A line; "" continues what is above. */
__attribute__((format(printf, 2, 3))) static void line(const char *label, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%-*s", LABEL_WIDTH, label);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

struct size_text {
    char text[SIZE_TEXT];
};

static struct size_text print_bytes(uint64_t bytes)
{
    static const char *const units[UNITS] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    struct size_text size = {"unlimited"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < UNITS - 1; unit++) value /= 1024;
    if (bytes != MACHINE_UNLIMITED) snprintf(size.text, SIZE_TEXT, "%.4g %s", value, units[unit]);
    return size;
}

static struct size_text print_count(uint64_t count)
{
    struct size_text number = {"unlimited"};
    if (count != MACHINE_UNLIMITED) snprintf(number.text, SIZE_TEXT, "%" PRIu64, count);
    return number;
}

/* ------------------------------------------------------------------------------------- the host */

static void print_machine(const struct machine *machine)
{
    char cpus[HARDWARE_CPUS_SIZE], limit[48] = "";
    hardware_print_cpus(&machine->hardware, cpus);
    if (machine->cpu_limit > 0) snprintf(limit, sizeof limit, ", time of %d", machine->cpu_limit);
    line("host", "%s, Linux %s", machine->name, machine->hardware.kernel_release);
    line("processors", "%s; usable here: %d%s", cpus, machine->allowed_cpu_count, limit);
    line("kernels", "%s", machine->kernels);
    line("network cards", "%s",
         machine->hardware.cards[0] != '\0' ? machine->hardware.cards
                                            : "none, or none visible here");
}

static void print_limits(const struct machine *machine)
{
    line("limits", "descriptors %s (at most %s)", print_count(machine->descriptors).text,
         print_count(machine->descriptors_max).text);
    line("", "locked memory %s (at most %s)", print_bytes(machine->locked_bytes).text,
         print_bytes(machine->locked_bytes_max).text);
    if (machine->has_shm)
        line("", "/dev/shm %s, free %s (not used by Tutti)", print_bytes(machine->shm_bytes).text,
             print_bytes(machine->shm_free_bytes).text);
    else
        line("", "/dev/shm is not there (not used by Tutti)");
}

static void print_launch(const struct launch *launch)
{
    if (launch->launcher == NULL)
        line("launcher", "none");
    else
        line("launcher", "%s, rank %d of %d", launch->launcher, launch->rank, launch->size);
}

/* ----------------------------------------------------------------------------------- transports */

static void print_path_between(const struct transports_found *paths)
{
    if (paths->has_card)
        line("between hosts", "RDMA: %s, %s (%s)", paths->provider, paths->cards, paths->why_card);
    else if (paths->has_address)
        line("between hosts", "%s by %s (%s)", paths->protocol_name, paths->rails, paths->address);
    else
        line("between hosts", "none: %s", paths->why_address);
    if (!paths->has_card && paths->has_address && paths->why_card[0] != '\0')
        line("", "no RDMA used: %s", paths->why_card);
    if (paths->has_card && paths->has_address)
        line("", "control: TCP by %s (%s)", paths->interface, paths->address);
}

static void print_paths(const struct report *report)
{
    if (report->paths_trouble[0] != '\0') {
        line("transports", "%s", report->paths_trouble);
        return;
    }
    if (report->paths->problem[0] != '\0') {
        line("transports", "not known: %s", report->paths->problem);
        return;
    }
    line("within a host", "%s", report->paths->is_tcp_within ? "TCP" : "shared memory");
    print_path_between(report->paths);
}

/* -------------------------------------------------------------------------- libraries of others */

static void print_device(const struct device *device, int at)
{
    line(at == 0 ? "GPUs" : "", "%d: %s, %s, %u multiprocessors, %s", device->number, device->name,
         print_bytes(device->memory_bytes).text, device->processor_count, device->bus);
}

static void print_cuda(const struct report *report)
{
    const struct cuda_devices *const cuda = report->cuda;
    if (report->cuda_trouble[0] != '\0') {
        line("GPUs", "CUDA: %s", report->cuda_trouble);
        return;
    }
    for (int i = 0; i < cuda->count; i++) print_device(&cuda->devices[i], i);
    if (cuda->why[0] != '\0')
        line(cuda->count == 0 ? "GPUs" : "", "none: %s", cuda->why);
    else if (cuda->count == 0)
        line("GPUs", "none, says CUDA's driver %s", cuda->file);
}

static void print_rocm(const struct report *report)
{
    if (report->rocm_trouble[0] != '\0')
        line("", "ROCm: %s", report->rocm_trouble);
    else if (report->rocm->is_there || report->rocm->count > 0)
        line("", "ROCm: %s is %s, GPUs: %d; Tutti does not use them", report->rocm->file,
             report->rocm->is_there ? "here" : "not here", report->rocm->count);
}

static void print_provider(const struct fabric_provider *provider)
{
    printf("  %-*s %u.%u", LABEL_WIDTH - 3, provider->name, provider->version >> 16,
           provider->version & 0xffff);
    if (provider->lacks[0] != '\0')
        printf("  not for Tutti: it lacks %s\n", provider->lacks);
    else
        printf("  %s%s\n", provider->cards,
               provider->is_automatic ? "" : " (only where TUTTI_FABRIC names it)");
}

static void print_fabric(const struct report *report)
{
    const struct fabric *const fabric = report->fabric;
    if (report->fabric_trouble[0] != '\0') {
        line("libfabric", "%s", report->fabric_trouble);
        return;
    }
    if (fabric->is_there)
        line("libfabric", "%u.%u", fabric->version >> 16, fabric->version & 0xffff);
    if (fabric->why[0] != '\0') line(fabric->is_there ? "" : "libfabric", "%s", fabric->why);
    for (int i = 0; i < fabric->provider_count; i++) print_provider(&fabric->providers[i]);
}

static void print_pmix(const struct report *report)
{
    if (report->pmix_trouble[0] != '\0')
        line("PMIx", "%s", report->pmix_trouble);
    else
        line("PMIx", "%s", report->pmix->is_there ? report->pmix->version : report->pmix->why);
}

/* ------------------------------------------------------------------------------------ the build */

static void print_parts(const char *label, bool is_there)
{
    const char *between = "";
    for (int i = 0; i < BUILD_PART_COUNT; i++) {
        if (build.parts[i].is_there != is_there) continue;
        if (between[0] == '\0') printf("%-*s%s ", LABEL_WIDTH, "", label);
        printf("%s%s", between, build.parts[i].name);
        between = ", ";
    }
    if (between[0] != '\0') putchar('\n');
}

static void print_build(void)
{
    line("build", "%s for %s, %s: %s%s%s", build.compiler, build.processor, build.type, build.flags,
         build.sanitizers[0] != '\0' ? ", sanitizers " : "", build.sanitizers);
    print_parts("with", true);
    print_parts("without", false);
}

/* -------------------------------------------------------------------------------------- options */

/* NAME=VALUE */
static void print_value(const struct setting *setting, char text[static VALUE_SIZE])
{
    if (setting->value != NULL)
        snprintf(text, VALUE_SIZE, "%s=%s", option_name(setting->option), setting->value);
    else
        snprintf(text, VALUE_SIZE, "%s (a secret)", option_name(setting->option));
}

static int width_of_values(const struct settings *settings)
{
    char text[VALUE_SIZE];
    int width = 0;
    for (int i = 0; i < settings->count; i++) {
        print_value(&settings->list[i], text);
        const int length = (int)strlen(text);
        if (length > width && length <= VALUE_WIDTH_MAX) width = length;
    }
    return width;
}

static void print_setting(const struct setting *setting, int width)
{
    const char *const value = option_default(setting->option);
    char text[VALUE_SIZE];
    print_value(setting, text);
    printf("%c %-*s  ", setting->problem[0] != '\0' ? '!' : ' ', width, text);
    if (value[0] == '\0')
        puts("(default: none)");
    else if (value[0] == '(') /* words for readers */
        printf("(default: %s\n", value + 1);
    else
        printf("(default %s)\n", value);
}

static void print_settings(const struct settings *settings)
{
    const int width = width_of_values(settings);
    if (settings->count + settings->unknown_count == 0)
        line("options set", "none");
    else
        puts("options set");
    for (int i = 0; i < settings->count; i++) print_setting(&settings->list[i], width);
    for (int i = 0; i < settings->unknown_count; i++)
        printf("! %-*s  (not known)\n", width, settings->unknown[i].name);
}

static void print_problem(const char *problem, void *context)
{
    int *const count = context;
    if ((*count)++ == 0) puts("problems");
    printf("  %s\n", problem);
}

void text_print(const struct report *report)
{
    int problem_count = 0;
    line("Tutti", "%s", tutti_version_text());
    print_machine(&report->machine);
    print_cuda(report);
    print_rocm(report);
    print_launch(&report->launch);
    print_paths(report);
    print_limits(&report->machine);
    print_fabric(report);
    print_pmix(report);
    print_build();
    print_settings(&report->settings);
    report_problems(report, print_problem, &problem_count);
}
