#include "studio/load.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"

/* Below the first bound, or above one of the others, other programs affect the measurements. Other
 * processes of a quiet machine use about 1 %. The kernel counts in hundredths of a second, so other
 * programs must have used more than a few hundredths. */
static const double got_percent_min = 95, others_percent_max = 10, stolen_percent_max = 2;
static const double others_ns_min = 200e6;

uint64_t load_thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t usage_ns(int who)
{
    struct rusage usage;
    if (getrusage(who, &usage) != 0) return 0;
    return ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * 1000u;
}

static uint64_t used_ns(void)
{
    return usage_ns(RUSAGE_SELF) + usage_ns(RUSAGE_CHILDREN);
}

/* Reads the time of all processors together since the machine started; 0: the kernel does not tell.
 * Interrupts are not counted: interrupts of network cards may be for messages of the processes that
 * measure. */
static void read_busy(uint64_t *busy_ns, uint64_t *stolen_ns)
{
    enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, FIELDS };
    uint64_t fields[FIELDS] = {0};
    const long ticks = sysconf(_SC_CLK_TCK);
    const uint64_t tick_ns = 1000000000u / (uint64_t)(ticks > 0 ? ticks : 100);
    FILE *file = fopen("/proc/stat", "re");
    if (file != NULL) {
        if (fscanf(file, "cpu") == 0)
            for (int i = 0; i < FIELDS && fscanf(file, "%" SCNu64, &fields[i]) == 1; i++)
                ;
        fclose(file);
    }
    *busy_ns = (fields[USER] + fields[NICE] + fields[SYSTEM]) * tick_ns;
    *stolen_ns = fields[STEAL] * tick_ns;
}

void load_begin(struct load *load)
{
    *load = (struct load){.began_ns = clock_now_ns(), .began_own_ns = used_ns()};
    read_busy(&load->began_busy_ns, &load->began_stolen_ns);
}

void load_computed(struct load *load, uint64_t wall_ns, uint64_t cpu_ns)
{
    load->computed_ns += wall_ns;
    load->got_ns += cpu_ns;
}

static double above_zero(double value)
{
    return value > 0 ? value : 0;
}

uint64_t load_own_ns(const struct load *load)
{
    return used_ns() - load->began_own_ns;
}

struct load_verdict load_end(const struct load *load, uint64_t own_ns)
{
    uint64_t busy_ns, stolen_ns;
    read_busy(&busy_ns, &stolen_ns);
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    const double all_ns =
        (double)(clock_now_ns() - load->began_ns) * (double)(cpus > 0 ? cpus : 1) + 1;
    const double others_ns =
        above_zero((double)busy_ns - (double)load->began_busy_ns - (double)own_ns);
    struct load_verdict verdict = {
        .got_percent =
            load->computed_ns > 0 ? 100 * (double)load->got_ns / (double)load->computed_ns : 100,
        .others_percent = 100 * others_ns / all_ns,
        .stolen_percent =
            above_zero(100 * ((double)stolen_ns - (double)load->began_stolen_ns) / all_ns)};
    const bool is_used = verdict.others_percent > others_percent_max && others_ns > others_ns_min;
    verdict.is_loaded = verdict.got_percent < got_percent_min || is_used ||
                        verdict.stolen_percent > stolen_percent_max;
    return verdict;
}

void load_machine(char machine[static LOAD_MACHINE_SIZE])
{
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = fd >= 0 ? read(fd, machine, LOAD_MACHINE_SIZE - 1) : 0;
    machine[bytes > 0 ? bytes : 0] = '\0';
    if (fd >= 0) close(fd);
}
