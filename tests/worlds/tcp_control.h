/* tcp_control.h - control (transport/control.h) over a transport of transport/tcp/tcp.h whose
 * connections the test makes: peers are never found to be gone, and nobody connects.
 */
#ifndef TUTTI_TESTS_WORLDS_TCP_CONTROL_H
#define TUTTI_TESTS_WORLDS_TCP_CONTROL_H

#include "transport/control.h"
#include "transport/transport.h"

struct tcp_control {
    struct control base;
    struct transport *tcp; /* the caller's */
};

void tcp_control_init(struct tcp_control *control, struct transport *tcp);

#endif
