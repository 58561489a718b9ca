/* ways.h - the same tests over several transports: setups of cmocka, of a case or of a group, that
 * say which transport the ranks will take. */
#ifndef TUTTI_TESTS_WORLDS_WAYS_H
#define TUTTI_TESTS_WORLDS_WAYS_H

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

/* Each of up to four ranks is alone on its host. */
static inline int on_four_hosts(void **state)
{
    (void)state;
    unsetenv("TUTTI_TRANSPORT");
    setenv("TUTTI_TEST_HOSTS", "4", 1);
    return 0;
}

#endif
