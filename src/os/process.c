#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/fork.h"

uint32_t process_generation_now;

static void be_another(bool is_held)
{
    (void)is_held;
    process_generation_now++;
}

__attribute__((constructor)) static void watch_forks(void)
{
    static const struct fork_participant generation = {.child = be_another};
    fork_watch(FORK_PROCESS, &generation);
}

uint32_t process_pid_namespace(void)
{
    struct stat space;
    if (stat("/proc/self/ns/pid", &space) != 0) return 0;
    return (uint32_t)((uint64_t)space.st_ino ^ (uint64_t)space.st_ino >> 32);
}

bool process_has_own_proc(void)
{
    char self[16] = "";
    return readlink("/proc/self", self, sizeof self - 1) > 0 && atoi(self) == getpid();
}

/* Reads /proc/PID/stat: "PID (name) S ...". The name may contain anything, also parentheses.
 * Returns the text behind it; NULL: the system does not tell. */
static const char *read_stat(pid_t pid, char *text, size_t text_bytes)
{
    char path[32];
    if (!process_has_own_proc()) return NULL;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    const ssize_t bytes = read(fd, text, text_bytes - 1);
    close(fd);
    if (bytes <= 0) return NULL;
    text[bytes] = '\0';
    const char *end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' ? end + 2 : NULL;
}

/* '\0': it is not told. */
static char state_of(pid_t pid)
{
    char text[128];
    const char *state = read_stat(pid, text, sizeof text);
    return state != NULL ? *state : '\0';
}

uint64_t process_program(pid_t pid)
{
    enum { STATE = 3, TEXT_BEGIN = 26, STACK_BEGIN = 28 }; /* numbers of fields, see proc(5) */
    char text[1024];
    uint64_t program = 0;
    const char *field = read_stat(pid, text, sizeof text);
    for (int number = STATE; field != NULL && number <= STACK_BEGIN; number++) {
        const uint64_t place = number >= TEXT_BEGIN ? strtoull(field, NULL, 10) : 0;
        if (number == STACK_BEGIN && place == 0) return 0;
        program = program * 0x100000001b3u + place;
        field = strchr(field, ' ');
        if (field != NULL) field++;
    }
    return field != NULL ? program : 0;
}

uint64_t process_waited_ns(pid_t pid, pid_t thread)
{
    char path[64], text[80];
    unsigned long long waited_ns;
    if (!process_has_own_proc()) return 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", (int)pid, (int)thread);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    if (bytes <= 0) return 0;
    text[bytes] = '\0';
    return sscanf(text, "%*u %llu", &waited_ns) == 1 ? waited_ns : 0;
}

bool process_is_stopped(pid_t pid)
{
    const char state = state_of(pid);
    return state == 'T' || state == 't';
}

/* Nothing can be read there, but of a process without memory that is not even tried. */
static bool has_no_memory(pid_t pid)
{
    char byte;
    const struct iovec to = {&byte, 1}, from = {NULL, 1};
    return process_vm_readv(pid, &to, 1, &from, 1, 0) < 0 && errno == ESRCH;
}

/* A process that has no descriptor left cannot ask /proc. */
bool process_has_ended(pid_t pid)
{
    const char state = state_of(pid);
    if (state != '\0') return state == 'Z' || state == 'X';
    return (kill(pid, 0) != 0 && errno == ESRCH) || has_no_memory(pid);
}

bool process_is_ending(pid_t pid)
{
    return has_no_memory(pid) || process_has_ended(pid);
}

static bool has_number(pid_t pid, uint64_t place, uint64_t number)
{
    uint64_t found = 0;
    const struct iovec from = {(void *)(uintptr_t)place, sizeof found}, to = {&found, sizeof found};
    const ssize_t bytes = process_vm_readv(pid, &to, 1, &from, 1, 0);
    if (bytes >= 0) errno = ESRCH;
    return bytes == (ssize_t)sizeof found && found == number;
}

int process_copy_descriptor(pid_t pid, int descriptor, uint64_t proof_at, uint64_t proof)
{
    int copy = -1;
    const int process = (int)syscall(SYS_pidfd_open, pid, 0);
    if (process < 0) return -1;
    /* The proof is read after the process was opened, so the pid did not belong to another process
     * before. */
    if (has_number(pid, proof_at, proof))
        copy = (int)syscall(SYS_pidfd_getfd, process, descriptor, 0);
    const int why = errno;
    close(process);
    errno = why;
    return copy;
}
