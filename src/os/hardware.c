#include "os/hardware.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/printable.h"
#include "os/cpu.h"

enum { FILE_SIZE = 4096, CACHE_INDEXES = 8, CARDS_MAX = 32, CARD_NAME_SIZE = 32 };

/* The beginning of a file as text, without the line break at its end; false: there is none. */
__attribute__((format(printf, 3, 4))) static bool read_file(char *text, size_t text_bytes,
                                                            const char *format, ...)
{
    char path[PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    text[0] = '\0';
    if (length < 0 || (size_t)length >= sizeof path) return false;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const ssize_t got = read(fd, text, text_bytes - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    if (got > 0 && text[got - 1] == '\n') text[got - 1] = '\0';
    return got > 0;
}

/* Finds the first line that begins with the key, and copies the text behind its colon. */
static bool find_line(const char *text, const char *key, char *value, size_t value_bytes)
{
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, strlen(key)) != 0) continue;
        const char *colon = line + strlen(key);
        colon += strspn(colon, " \t");
        if (*colon != ':') continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(value, value_bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
        return true;
    }
    return false;
}

/* Processors without names, such as those with Arm cores, have numbers for their maker and part
 * instead. */
static void read_cpu_model(const char *proc, char model[HARDWARE_CPU_SIZE])
{
    static const char *const keys[] = {"model name", "Model", "cpu model", "cpu"};
    char text[FILE_SIZE], maker[16], part[16];
    if (!read_file(text, sizeof text, "%s/cpuinfo", proc)) return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (find_line(text, keys[i], model, HARDWARE_CPU_SIZE)) return;
    if (find_line(text, "CPU implementer", maker, sizeof maker) &&
        find_line(text, "CPU part", part, sizeof part))
        snprintf(model, HARDWARE_CPU_SIZE, "implementer %s part %s", maker, part);
}

static int count_cpus(const char *text)
{
    cpu_set_t cpus;
    return cpu_list_read(text, &cpus) ? CPU_COUNT(&cpus) : 0;
}

/* "512K" */
static uint64_t read_size(const char *text)
{
    char *end;
    const uint64_t size = strtoull(text, &end, 10);
    return *end == 'K' ? size << 10 : *end == 'M' ? size << 20 : size;
}

/* Reads the caches of CPU 0, which is there if any CPU is. */
static void read_caches(const char *sys, struct hardware *hardware)
{
    int last = 0;
    for (int i = 0; i < CACHE_INDEXES; i++) {
        char folder[PATH_MAX], text[FILE_SIZE];
        snprintf(folder, sizeof folder, "%.3000s/devices/system/cpu/cpu0/cache/index%d", sys, i);
        if (!read_file(text, sizeof text, "%.4000s/type", folder) ||
            strcmp(text, "Instruction") == 0 ||
            !read_file(text, sizeof text, "%.4000s/level", folder))
            continue;
        const int level = atoi(text);
        if (level < 1 || level > HARDWARE_CACHE_LEVELS ||
            !read_file(text, sizeof text, "%.4000s/size", folder))
            continue;
        hardware->cache_bytes[level - 1] = read_size(text);
        if (level > last && read_file(text, sizeof text, "%.4000s/shared_cpu_list", folder)) {
            last = level;
            hardware->cpus_a_cache = count_cpus(text);
        }
    }
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Interfaces with a device behind them; containers and bridges come and go. */
static int list_cards(const char *sys, char names[CARDS_MAX][CARD_NAME_SIZE])
{
    char path[PATH_MAX];
    int count = 0;
    snprintf(path, sizeof path, "%.3000s/class/net", sys);
    DIR *folder = opendir(path);
    if (folder == NULL) return 0;
    for (const struct dirent *entry; count < CARDS_MAX && (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= CARD_NAME_SIZE) continue;
        snprintf(path, sizeof path, "%.3000s/class/net/%s/device", sys, entry->d_name);
        if (access(path, F_OK) == 0) strcpy(names[count++], entry->d_name);
    }
    closedir(folder);
    qsort(names, (size_t)count, sizeof *names, compare_names);
    return count;
}

static void read_cards(const char *sys, char cards[HARDWARE_CARDS_SIZE])
{
    char names[CARDS_MAX][CARD_NAME_SIZE], text[32];
    size_t used = 0;
    const int count = list_cards(sys, names);
    for (int i = 0; i < count && used < HARDWARE_CARDS_SIZE; i++) {
        const bool is_told =
            read_file(text, sizeof text, "%.3000s/class/net/%s/speed", sys, names[i]);
        const long speed = is_told ? atol(text) : 0;
        used += (size_t)snprintf(cards + used, HARDWARE_CARDS_SIZE - used, "%s%s",
                                 i > 0 ? ", " : "", names[i]);
        if (speed > 0 && used < HARDWARE_CARDS_SIZE)
            used += (size_t)snprintf(cards + used, HARDWARE_CARDS_SIZE - used, " %ld Mb/s", speed);
    }
}

void hardware_within(const char *proc, const char *sys, struct hardware *hardware)
{
    char text[FILE_SIZE];
    memset(hardware, 0, sizeof *hardware);
    read_cpu_model(proc, hardware->cpu_model);
    if (read_file(text, sizeof text, "%s/devices/system/cpu/online", sys))
        hardware->cpu_count = count_cpus(text);
    read_caches(sys, hardware);
    read_cards(sys, hardware->cards);
    printable_make(hardware->cpu_model);
    printable_make(hardware->cards);
}

void hardware_of_host(struct hardware *hardware)
{
    struct utsname about;
    hardware_within("/proc", "/sys", hardware);
    if (hardware->cpu_count == 0) {
        const long count = sysconf(_SC_NPROCESSORS_ONLN);
        hardware->cpu_count = count > 0 && count <= CPU_COUNT_MAX ? (int)count : 1;
    }
    if (uname(&about) != 0) return;
    snprintf(hardware->kernel_release, sizeof hardware->kernel_release, "%.64s", about.release);
    printable_make(hardware->kernel_release);
}

void hardware_print_cpus(const struct hardware *hardware, char text[static HARDWARE_CPUS_SIZE])
{
    const bool is_known = hardware->cpu_model[0] != '\0';
    snprintf(text, HARDWARE_CPUS_SIZE, "%s%s%d CPU%s", hardware->cpu_model, is_known ? ", " : "",
             hardware->cpu_count, hardware->cpu_count == 1 ? "" : "s");
}
