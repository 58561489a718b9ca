#include "watch.h"

#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "options.h"

enum { SECOND_NS = 1000000000 };

static void end(int number)
{
    static const char words[] = "\ntutti-synth: the time is over, and nothing is written\n";
    (void)number;
    if (write(STDERR_FILENO, words, sizeof words - 1) < 0) _exit(EXIT_UNDECIDED);
    _exit(EXIT_UNDECIDED);
}

static void set(uint64_t time_ns)
{
    const struct itimerval once = {
        .it_value = {.tv_sec = (time_t)(time_ns / SECOND_NS),
                     .tv_usec = (suseconds_t)(time_ns % SECOND_NS / 1000)}};
    setitimer(ITIMER_REAL, &once, NULL);
}

void watch_start(uint64_t time_ns)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = end;
    sigaction(SIGALRM, &action, NULL);
    set(time_ns);
}

void watch_stop(void)
{
    set(0);
}
