#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

uint32_t process_generation_now;

static void be_another(void)
{
    process_generation_now++;
}

/* It fails only for want of a few bytes; then a child is not told from its parent, and nothing else is lost. */
static void watch(void)
{
    pthread_atfork(NULL, NULL, be_another);
}

void process_watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
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

/* Of /proc; '\0': it is not told. "PID (name) S ...": the name may have anything in it, also parentheses. */
static char state_of(pid_t pid)
{
    char path[32], text[128];
    if (!process_has_own_proc()) return '\0';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return '\0';
    const ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    if (bytes <= 0) return '\0';
    text[bytes] = '\0';
    const char *end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' ? end[2] : '\0';
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

/* Who has no descriptor left cannot ask /proc. */
bool process_has_ended(pid_t pid)
{
    const char state = state_of(pid);
    if (state != '\0') return state == 'Z' || state == 'X';
    return (kill(pid, 0) != 0 && errno == ESRCH) || has_no_memory(pid);
}
