#include "os/process.h"

#include <pthread.h>

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
