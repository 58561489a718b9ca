#include "ways.h"

#include <stdio.h>
#include <string.h>

#include "base/option.h"
#include "base/printable.h"
#include "base/status.h"
#include "bootstrap/interface.h"
#include "os/tcp_socket.h"
#include "transport/ofi/choice.h"

/* As a communicator does, it takes the card that was chosen, unless data is to be protected. */
static enum tutti_status look_for_card(struct ways *ways)
{
    struct ofi_choice choice;
    const char *protection = NULL;
    char names[OFI_REASON_MAX] = "";
    enum tutti_status status = ofi_choose_anew(option_text(OPTION_FABRIC), NULL, &choice);
    if (status == TUTTI_OK) status = ofi_find_protection(&protection);
    snprintf(ways->why_card, sizeof ways->why_card, "%s", choice.reason);
    if (status == TUTTI_OK && choice.library != NULL && protection == NULL) {
        ofi_name_cards(&choice, names);
        ways->has_card = true;
        snprintf(ways->provider, sizeof ways->provider, "%s", choice.provider);
        snprintf(ways->cards, sizeof ways->cards, "%s", names);
    } else if (status == TUTTI_OK && choice.library != NULL) {
        snprintf(ways->why_card, sizeof ways->why_card, "%s cannot protect data as %s says",
                 choice.provider, protection);
    }
    ofi_choice_release(&choice);
    printable_make(ways->cards);
    printable_make(ways->why_card);
    return status;
}

static void name_rails(struct ways *ways, const struct interface_choice *choices, size_t count)
{
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof ways->rails; i++)
        used += (size_t)snprintf(ways->rails + used, sizeof ways->rails - used, "%s%s",
                                 i > 0 ? ", " : "", choices[i].interface.name);
    printable_make(ways->rails);
}

/* Nothing is known of other hosts here, so a job may find another interface on the way to its first host. */
static enum tutti_status look_for_address(struct ways *ways)
{
    const struct net_address nowhere = {.family = AF_UNSPEC};
    struct interface_choice choices[INTERFACE_RAILS_MAX];
    char address[NET_ADDRESS_TEXT_MAX];
    size_t count;
    unsigned rail_max;
    int protocol;
    TRY(option_choice(OPTION_SOCKET_PROTOCOL, &protocol));
    TRY(interface_rails_read(&rail_max));
    snprintf(ways->protocol, sizeof ways->protocol, "%s", option_text(OPTION_SOCKET_PROTOCOL));
    snprintf(ways->protocol_name, sizeof ways->protocol_name, "%s",
             tcp_protocol_name((enum tcp_protocol)protocol));
    if (interface_find(&nowhere, true, rail_max, choices, &count) != TUTTI_OK) {
        snprintf(ways->why_address, sizeof ways->why_address, "%.255s", tutti_error_message());
        return TUTTI_OK;
    }
    ways->has_address = true;
    snprintf(ways->interface, sizeof ways->interface, "%s", choices[0].interface.name);
    printable_make(ways->interface);
    net_address_print_host(&choices[0].interface.address, address);
    snprintf(ways->address, sizeof ways->address, "%.63s", address);
    name_rails(ways, choices, count);
    return TUTTI_OK;
}

static enum tutti_status look(struct ways *ways)
{
    int transport;
    TRY(option_choice(OPTION_TRANSPORT, &transport));
    ways->is_tcp_within = transport == 1;
    TRY(look_for_address(ways));
    return look_for_card(ways);
}

void ways_ask(void *answer, int question)
{
    struct ways *const ways = answer;
    (void)question;
    if (look(ways) != TUTTI_OK)
        snprintf(ways->problem, sizeof ways->problem, "%.511s", tutti_error_message());
    printable_make(ways->problem);
}
