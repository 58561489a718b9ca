#include "transports.h"

#include <stdio.h>
#include <string.h>

#include "base/option.h"
#include "base/printable.h"
#include "base/status.h"
#include "bootstrap/interface.h"
#include "os/tcp_socket.h"
#include "transport/ofi/choice.h"

/* As a communicator does, it takes the card that was chosen, unless data is to be protected. */
static enum tutti_status look_for_card(struct transports_found *paths)
{
    struct ofi_choice choice;
    const char *protection = NULL;
    char names[OFI_REASON_MAX] = "";
    enum tutti_status status = ofi_choose_anew(option_text(OPTION_FABRIC), NULL, &choice);
    if (status == TUTTI_OK) status = ofi_find_protection(&protection);
    snprintf(paths->why_card, sizeof paths->why_card, "%s", choice.reason);
    if (status == TUTTI_OK && choice.library != NULL && protection == NULL) {
        ofi_name_cards(&choice, names);
        paths->has_card = true;
        snprintf(paths->provider, sizeof paths->provider, "%s", choice.provider);
        snprintf(paths->cards, sizeof paths->cards, "%s", names);
    } else if (status == TUTTI_OK && choice.library != NULL) {
        snprintf(paths->why_card, sizeof paths->why_card, "%s cannot protect data as %s says",
                 choice.provider, protection);
    }
    ofi_choice_release(&choice);
    printable_make(paths->cards);
    printable_make(paths->why_card);
    return status;
}

static void name_rails(struct transports_found *paths, const struct interface_choice *choices,
                       size_t count)
{
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof paths->rails; i++)
        used += (size_t)snprintf(paths->rails + used, sizeof paths->rails - used, "%s%s",
                                 i > 0 ? ", " : "", choices[i].interface.name);
    printable_make(paths->rails);
}

/* Nothing is known of other hosts here, so a job may find another interface on the way to its first
 * host. */
static enum tutti_status look_for_address(struct transports_found *paths)
{
    const struct net_address nowhere = {.family = AF_UNSPEC};
    struct interface_choice choices[INTERFACE_RAILS_MAX];
    char address[NET_ADDRESS_TEXT_MAX];
    size_t count;
    unsigned rail_max;
    int protocol;
    TRY(option_choice(OPTION_SOCKET_PROTOCOL, &protocol));
    TRY(interface_rails_read(&rail_max));
    snprintf(paths->protocol, sizeof paths->protocol, "%s", option_text(OPTION_SOCKET_PROTOCOL));
    snprintf(paths->protocol_name, sizeof paths->protocol_name, "%s",
             tcp_protocol_name((enum tcp_protocol)protocol));
    if (interface_find(&nowhere, true, rail_max, choices, &count) != TUTTI_OK) {
        snprintf(paths->why_address, sizeof paths->why_address, "%.255s", tutti_error_message());
        return TUTTI_OK;
    }
    paths->has_address = true;
    snprintf(paths->interface, sizeof paths->interface, "%s", choices[0].interface.name);
    printable_make(paths->interface);
    net_address_print_host(&choices[0].interface.address, address);
    snprintf(paths->address, sizeof paths->address, "%.63s", address);
    name_rails(paths, choices, count);
    return TUTTI_OK;
}

static enum tutti_status look(struct transports_found *paths)
{
    int transport;
    TRY(option_choice(OPTION_TRANSPORT, &transport));
    paths->is_tcp_within = transport == 1;
    TRY(look_for_address(paths));
    return look_for_card(paths);
}

void transports_ask(void *answer, int question)
{
    struct transports_found *const paths = answer;
    (void)question;
    if (look(paths) != TUTTI_OK)
        snprintf(paths->problem, sizeof paths->problem, "%.511s", tutti_error_message());
    printable_make(paths->problem);
}
