#include "comm/id.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/option.h"
#include "base/status.h"
#include "bootstrap/host_id.h"
#include "bootstrap/launcher.h"
#include "connect/port.h"

static const uint64_t MAGIC = 0x3144494954545554u; /* of another value in another byte order */

static_assert(sizeof(struct id_content) <= sizeof(struct tutti_id), "an id holds it");

/* Whether the environment of the id's maker says that ranks may be on several hosts. */
static enum tutti_status wants_hosts(const struct launcher_facts *facts, bool *wants)
{
    int choice;
    TRY(option_choice(OPTION_ID_HOSTS, &choice));
    *wants = choice < 0 ? launcher_may_span_hosts(facts) : choice == 1;
    return TUTTI_OK;
}

enum tutti_status id_write(const struct rendezvous_key *key, const struct net_address *address,
                           struct tutti_id *id)
{
    struct id_content content = {
        .key = *key, .magic = MAGIC, .address = *address, .pid = (int32_t)getpid()};
    memset(id, 0, sizeof *id);
    TRY(host_id_machine(&content.machine));
    if (gethostname(content.host_name, sizeof content.host_name - 1) != 0)
        snprintf(content.host_name, sizeof content.host_name, "?");
    memcpy(id, &content, sizeof content);
    return TUTTI_OK;
}

static enum tutti_status create(struct tutti_id *id)
{
    struct rendezvous_key key;
    struct net_address address = {0};
    struct launcher_facts facts;
    bool wants;
    memset(id, 0, sizeof *id);
    if (launcher_look(&facts) != TUTTI_OK) facts.launcher = NULL;
    TRY(wants_hosts(&facts, &wants));
    TRY(rendezvous_key_create(&key));
    if (wants) TRY(port_announce(&key, &address));
    const enum tutti_status status = id_write(&key, &address, id);
    if (status != TUTTI_OK && wants) port_withdraw(&key);
    return status;
}

enum tutti_status tutti_id_create(struct tutti_id *id)
{
    if (id == NULL) return error_set(TUTTI_INVALID_OPTIONS, "tutti_id_create: id is NULL");
    char before[ERROR_TEXT_MAX];
    error_copy(before, sizeof before);
    return error_unless_ok(create(id), before);
}

void id_read(const struct tutti_id *id, struct id_content *content)
{
    memcpy(content, id, sizeof *content);
    const sa_family_t family = content->address.family;
    const bool is_sound = (family == AF_UNSPEC || ((family == AF_INET || family == AF_INET6) &&
                                                   content->address.port != 0)) &&
                          memchr(content->host_name, '\0', sizeof content->host_name) != NULL;
    if (content->magic == MAGIC && is_sound) return;
    *content = (struct id_content){.key = content->key};
}

bool id_spans_hosts(const struct id_content *content)
{
    return content->address.family != AF_UNSPEC;
}

enum tutti_status id_check(const struct id_content *content, int rank)
{
    char address[NET_ADDRESS_TEXT_MAX];
    if (!id_spans_hosts(content)) {
        uint64_t machine = 0;
        if (content->machine != 0) TRY(host_id_machine(&machine));
        if (content->machine == machine) return TUTTI_OK;
        return error_set(TUTTI_INVALID_OPTIONS,
                         "rank %d: the id was made on host %s for ranks of that host (or network "
                         "namespace) only; where ranks may be on several, set TUTTI_ID_HOSTS=many "
                         "for the process that calls tutti_id_create",
                         rank, content->host_name);
    }
    if (rank != 0 || port_is_announced(&content->key)) return TUTTI_OK;
    net_address_print(&content->address, address);
    return error_set(TUTTI_INVALID_OPTIONS,
                     "rank 0: an id for several hosts is made by the process of rank 0, and used "
                     "once: the others call at %s, which process %d on host %s has told them",
                     address, (int)content->pid, content->host_name);
}
