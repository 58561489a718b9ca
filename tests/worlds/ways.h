/* paths.h - the same tests over several transports: group setups of cmocka that say which one the
 * ranks will take. */
#ifndef TUTTI_TESTS_WORLDS_PATHS_H
#define TUTTI_TESTS_WORLDS_PATHS_H

#include <stdlib.h>

static inline int in_shared_memory(void **state)
{
    (void)state;
    unsetenv("TUTTI_TRANSPORT");
    unsetenv("TUTTI_TEST_HOSTS");
    return 0;
}

static inline int over_tcp_on_one_host(void **state)
{
    (void)state;
    setenv("TUTTI_TRANSPORT", "tcp", 1);
    unsetenv("TUTTI_TEST_HOSTS");
    return 0;
}

static inline int on_two_hosts(void **state)
{
    (void)state;
    unsetenv("TUTTI_TRANSPORT");
    setenv("TUTTI_TEST_HOSTS", "2", 1);
    return 0;
}

#endif
