#include "json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "build.h"
#include "tutti/tutti.h"

/* ---------------------------------------------------------------------------------- its grammar */

static int depth;
static bool is_first; /* in the object or list that is open */

static void put_string(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        putchar(*text); /* texts of a report are printable */
    }
    putchar('"');
}

/* The text before a value; name NULL: of a list. */
static void put_name(const char *name)
{
    if (depth > 0) printf("%s\n%*s", is_first ? "" : ",", 2 * depth, "");
    is_first = false;
    if (name == NULL) return;
    put_string(name);
    fputs(": ", stdout);
}

static void begin(const char *name, char bracket)
{
    put_name(name);
    putchar(bracket);
    depth++;
    is_first = true;
}

static void end(char bracket)
{
    depth--;
    if (!is_first) printf("\n%*s", 2 * depth, "");
    putchar(bracket);
    is_first = false;
}

/* NULL and "": null. */
static void put_text(const char *name, const char *text)
{
    put_name(name);
    if (text != NULL && text[0] != '\0')
        put_string(text);
    else
        fputs("null", stdout);
}

static void put_boolean(const char *name, bool is_true)
{
    put_name(name);
    fputs(is_true ? "true" : "false", stdout);
}

static void put_number(const char *name, uint64_t number)
{
    put_name(name);
    printf("%" PRIu64, number);
}

/* Unlimited: null. */
static void put_limit(const char *name, uint64_t limit)
{
    if (limit == MACHINE_UNLIMITED)
        put_text(name, NULL);
    else
        put_number(name, limit);
}

/* 16 bits for each part; 0: null. */
static void put_version(const char *name, uint32_t version)
{
    char text[24];
    snprintf(text, sizeof text, "%u.%u", version >> 16, version & 0xffff);
    put_text(name, version != 0 ? text : NULL);
}

/* A list of the words between commas. */
static void put_words(const char *name, const char *words)
{
    begin(name, '[');
    while (*words != '\0') {
        char word[80];
        const size_t length = strcspn(words, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, words);
        put_text(NULL, word);
        words += length;
        words += strspn(words, ", ");
    }
    end(']');
}

/* ------------------------------------------------------------------------------------ its parts */

static void put_build(void)
{
    begin("build", '{');
    put_text("compiler", build.compiler);
    put_text("processor", build.processor);
    put_text("type", build.type);
    put_text("flags", build.flags);
    put_text("sanitizers", build.sanitizers);
    for (int i = 0; i < BUILD_PART_COUNT; i++)
        put_boolean(build.parts[i].key, build.parts[i].is_there);
    end('}');
}

static void put_machine(const struct machine *machine)
{
    begin("host", '{');
    put_text("name", machine->name);
    put_text("linux", machine->hardware.kernel_release);
    put_text("cpu", machine->hardware.cpu_model);
    put_number("cpus", (uint64_t)machine->hardware.cpu_count);
    put_number("cpus_usable", (uint64_t)machine->allowed_cpu_count);
    put_limit("cpu_limit",
              machine->cpu_limit > 0 ? (uint64_t)machine->cpu_limit : MACHINE_UNLIMITED);
    put_text("kernels", machine->kernels);
    put_words("network_cards", machine->hardware.cards);
    end('}');
    begin("limits", '{');
    put_limit("descriptors", machine->descriptors);
    put_limit("descriptors_max", machine->descriptors_max);
    put_limit("locked_bytes", machine->locked_bytes);
    put_limit("locked_bytes_max", machine->locked_bytes_max);
    put_limit("shm_bytes", machine->has_shm ? machine->shm_bytes : MACHINE_UNLIMITED);
    put_limit("shm_free_bytes", machine->has_shm ? machine->shm_free_bytes : MACHINE_UNLIMITED);
    end('}');
}

static void put_launch(const struct launch *launch)
{
    const bool is_launched = launch->launcher != NULL;
    begin("launcher", '{');
    put_text("name", launch->launcher);
    put_limit("rank", is_launched ? (uint64_t)launch->rank : MACHINE_UNLIMITED);
    put_limit("size", is_launched ? (uint64_t)launch->size : MACHINE_UNLIMITED);
    end('}');
}

static void put_paths(const struct report *report)
{
    static const struct transports_found unknown;
    const bool is_known = report->paths_trouble[0] == '\0';
    const struct transports_found *const paths = is_known ? report->paths : &unknown;
    const char *const between = paths->has_card ? "rdma" : paths->has_address ? "tcp" : NULL;
    begin("transports", '{');
    put_text("within_host", !is_known ? NULL : paths->is_tcp_within ? "tcp" : "shared memory");
    put_text("between_hosts", between);
    put_text("provider", paths->provider);
    put_words("cards", paths->cards);
    put_text("why_rdma", paths->why_card);
    put_text("interface", paths->interface);
    put_text("address", paths->address);
    put_words("rails", paths->rails);
    put_text("protocol", paths->protocol);
    put_text("problem", !is_known                       ? report->paths_trouble
                        : paths->problem[0] != '\0'     ? paths->problem
                        : paths->why_address[0] != '\0' ? paths->why_address
                                                        : NULL);
    end('}');
}

static void put_cuda(const struct report *report)
{
    static const struct cuda_devices unknown;
    const bool is_known = report->cuda_trouble[0] == '\0';
    const struct cuda_devices *const cuda = is_known ? report->cuda : &unknown;
    begin("cuda", '{');
    put_boolean("found", cuda->is_there);
    put_text("file", cuda->file);
    begin("gpus", '[');
    for (int i = 0; i < cuda->count; i++) {
        const struct device *const device = &cuda->devices[i];
        begin(NULL, '{');
        put_number("number", (uint64_t)device->number);
        put_text("name", device->name);
        put_text("bus", device->bus);
        put_number("memory_bytes", device->memory_bytes);
        put_number("multiprocessors", device->processor_count);
        end('}');
    }
    end(']');
    put_text("problem", is_known ? cuda->why : report->cuda_trouble);
    end('}');
}

static void put_rocm(const struct report *report)
{
    static const struct rocm_devices unknown;
    const bool is_known = report->rocm_trouble[0] == '\0';
    const struct rocm_devices *const rocm = is_known ? report->rocm : &unknown;
    begin("rocm", '{');
    put_boolean("found", rocm->is_there);
    put_text("file", rocm->file);
    put_number("gpu_count", (uint64_t)rocm->count);
    put_text("problem", report->rocm_trouble);
    end('}');
}

static void put_fabric(const struct report *report)
{
    static const struct fabric unknown;
    const bool is_known = report->fabric_trouble[0] == '\0';
    const struct fabric *const fabric = is_known ? report->fabric : &unknown;
    begin("libfabric", '{');
    put_boolean("found", fabric->is_there);
    put_version("version", fabric->version);
    begin("providers", '[');
    for (int i = 0; i < fabric->provider_count; i++) {
        const struct fabric_provider *const provider = &fabric->providers[i];
        begin(NULL, '{');
        put_text("name", provider->name);
        put_version("version", provider->version);
        put_words("cards", provider->cards);
        put_boolean("automatic", provider->is_automatic);
        put_text("lacks", provider->lacks);
        end('}');
    }
    end(']');
    put_text("problem", is_known ? fabric->why : report->fabric_trouble);
    end('}');
}

static void put_pmix(const struct report *report)
{
    static const struct pmix unknown;
    const bool is_known = report->pmix_trouble[0] == '\0';
    const struct pmix *const pmix = is_known ? report->pmix : &unknown;
    begin("pmix", '{');
    put_boolean("found", pmix->is_there);
    put_text("version", pmix->version);
    put_text("problem", is_known ? pmix->why : report->pmix_trouble);
    end('}');
}

/* Words in parentheses, for readers, are no value. */
static void put_default(enum option_id option)
{
    const char *const value = option_default(option);
    put_text("default", value[0] != '(' ? value : NULL);
}

static void put_settings(const struct settings *settings)
{
    begin("options", '[');
    for (int i = 0; i < settings->count; i++) {
        const struct setting *const setting = &settings->list[i];
        begin(NULL, '{');
        put_text("name", option_name(setting->option));
        put_text("value", setting->value);
        put_default(setting->option);
        put_boolean("secret", option_is_secret(setting->option));
        put_boolean("valid", setting->problem[0] == '\0');
        put_text("problem", setting->problem);
        end('}');
    }
    end(']');
    begin("unknown_options", '[');
    for (int i = 0; i < settings->unknown_count; i++) {
        begin(NULL, '{');
        put_text("name", settings->unknown[i].name);
        put_text("meant", settings->unknown[i].meant);
        end('}');
    }
    end(']');
}

static void put_problem(const char *problem, void *context)
{
    (void)context;
    put_text(NULL, problem);
}

void json_print(const struct report *report)
{
    begin(NULL, '{');
    put_text("version", tutti_version_text());
    put_build();
    put_machine(&report->machine);
    put_launch(&report->launch);
    put_paths(report);
    put_cuda(report);
    put_rocm(report);
    put_fabric(report);
    put_pmix(report);
    put_settings(&report->settings);
    begin("problems", '[');
    report_problems(report, put_problem, NULL);
    end(']');
    end('}');
    putchar('\n');
}
