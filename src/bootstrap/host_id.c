#include "bootstrap/host_id.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/option.h"
#include "base/status.h"

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    return hash; /* FNV-1a */
}

/* A process that cannot read it for want of a descriptor fails, or it would take itself for another
 * machine. */
static enum tutti_status read_boot(char *boot, size_t bytes)
{
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        return error_system("looking which machine this is");
    const ssize_t got = fd >= 0 ? read(fd, boot, bytes - 1) : 0;
    boot[got > 0 ? got : 0] = '\0';
    if (fd >= 0) close(fd);
    return TUTTI_OK;
}

enum tutti_status host_id_machine(uint64_t *machine)
{
    char boot[64];
    struct stat space = {0};
    TRY(read_boot(boot, sizeof boot));
    if (stat("/proc/self/ns/net", &space) != 0) space.st_ino = 0;
    const uint64_t space_hash =
        ((0xcbf29ce484222325u ^ space.st_ino) * 0x100000001b3u ^ space.st_dev) * 0x100000001b3u;
    *machine = hash_text(space_hash, boot);
    return TUTTI_OK;
}

enum tutti_status host_id_cores(uint64_t *cores)
{
    char boot[64];
    cpu_set_t own;
    CPU_ZERO(&own);
    TRY(read_boot(boot, sizeof boot));
    *cores = hash_text(0xcbf29ce484222325u, boot);
    const bool is_known = sched_getaffinity(0, sizeof own, &own) == 0;
    const bool is_part =
        is_known && CPU_COUNT(&own) > 1 && CPU_COUNT(&own) < sysconf(_SC_NPROCESSORS_ONLN);
    for (int cpu = 0; is_part && cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &own)) *cores = (*cores ^ (uint64_t)(cpu + 1)) * 0x100000001b3u;
    if (*cores == 0) *cores = 1;
    return TUTTI_OK;
}

static const char *said_by_user(void)
{
    const char *said = option_text(OPTION_HOSTID);
    return said != NULL ? said : "";
}

enum tutti_status host_id_read(uint64_t *host)
{
    TRY(host_id_machine(host));
    *host = host_id_of(*host, host_id_option());
    return TUTTI_OK;
}

uint64_t host_id_of(uint64_t machine, uint64_t option)
{
    return option == 0 ? machine : (machine ^ option) * 0x100000001b3u;
}

uint64_t host_id_option(void)
{
    const char *said = said_by_user();
    return *said == '\0' ? 0 : hash_text(0xcbf29ce484222325u, said);
}
