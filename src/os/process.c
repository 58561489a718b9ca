#include "os/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
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

/* "PID (name) S ...": the name may have anything in it, also parentheses. */
bool process_is_stopped(pid_t pid)
{
    char path[32], text[128];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    if (bytes <= 0) return false;
    text[bytes] = '\0';
    const char *end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' && (end[2] == 'T' || end[2] == 't');
}
