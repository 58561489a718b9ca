/* Whatever the knobs are set to, NAME=value a line: they are refused with INVALID_OPTIONS, or what
 * they mean is within bounds; and which network interfaces are chosen by them are some of those
 * that there are. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/environment_fuzz.h"
#include "bootstrap/interface.h"
#include "team/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_status(enum tutti_status status)
{
    if (status != TUTTI_OK && status != TUTTI_INVALID_OPTIONS) abort();
}

static void check_options(void)
{
    struct tutti_comm_options options;
    enum tutti_status status;
    if (options_for_comm(NULL, &options, &status) != TUTTI_OK) abort();
    check_status(status);
    if (options.timeout_ns == 0 || options.init_timeout_ns == 0) abort();
    size_t bytes;
    bool is_set;
    uint64_t period_ns = 0;
    check_status(options_heartbeat(&period_ns));
    if (period_ns > UINT64_C(10000000000)) abort();
    check_status(options_unexpected(&bytes));
    check_status(options_probe(&is_set));
    check_status(options_transport(&is_set));
}

static void check_interfaces(void)
{
    static const struct {
        const char *name, *address;
        bool is_loopback;
    } here[] = {{"lo", "127.0.0.1", true},        {"lo", "::1", true},
                {"eth0", "10.0.0.5", false},      {"eth0", "fe80::5", false},
                {"eth1", "10.1.0.5", false},      {"eth1", "2001:db8::5", false},
                {"docker0", "172.17.0.1", false}, {"ib0", "192.168.7.5", false}};
    enum { COUNT = sizeof here / sizeof *here };
    struct interface interfaces[COUNT];
    memset(interfaces, 0, sizeof interfaces);
    for (size_t i = 0; i < COUNT; i++) {
        memcpy(interfaces[i].name, here[i].name, strlen(here[i].name) + 1);
        if (!net_address_parse(here[i].address, &interfaces[i].address)) abort();
        interfaces[i].is_up = true;
        interfaces[i].is_loopback = here[i].is_loopback;
    }
    struct interface_wish wish;
    unsigned rail_max = 1;
    enum tutti_status status = interface_wish_read(&wish);
    check_status(status);
    if (status == TUTTI_OK) status = interface_rails_read(&rail_max);
    check_status(status);
    if (status != TUTTI_OK) return;
    if (rail_max < 1 || rail_max > INTERFACE_RAILS_MAX) abort();
    wish.is_beyond_host = true;
    struct interface_choice choices[INTERFACE_RAILS_MAX];
    size_t rail_count = 0;
    status = interface_choose(interfaces, COUNT, &wish, rail_max, choices, &rail_count);
    check_status(status);
    if (status != TUTTI_OK) return;
    if (rail_count < 1 || rail_count > rail_max) abort();
    for (size_t r = 0; r < rail_count; r++) {
        bool is_one = false;
        for (size_t i = 0; i < COUNT; i++)
            is_one |= memcmp(&choices[r].interface, &interfaces[i], sizeof interfaces[i]) == 0;
        if (!is_one || memchr(choices[r].why, '\0', sizeof choices[r].why) == NULL) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct environment environment;
    environment_replace(&environment, data, size);
    check_options();
    check_interfaces();
    environment_restore(&environment);
    return 0;
}
