#include "connect/discovery_message.h"

#include <stdbool.h>
#include <string.h>

#include "base/status.h"

enum { MAGIC = 0x346c6f72 }; /* "rol4" */

struct discovery_head discovery_head_make(enum discovery_kind kind, int rank, int size)
{
    const uint32_t entry_count = kind == DISCOVERY_ENTRY   ? 1
                                 : kind == DISCOVERY_TABLE ? (uint32_t)size
                                                           : 0;
    return (struct discovery_head){
        .magic = MAGIC, .kind = kind, .rank = rank, .size = size, .entry_count = entry_count};
}

static bool is_ended(const char *text, size_t bytes)
{
    return memchr(text, '\0', bytes) != NULL;
}

static bool is_connectable(const struct net_address *address)
{
    return (address->family == AF_INET || address->family == AF_INET6) && address->port != 0;
}

bool discovery_entry_makes_sense(const struct discovery_entry *entry)
{
    const bool has_port = entry->address.family != AF_UNSPEC;
    return (!has_port || is_connectable(&entry->address)) && entry->core_count > 0 &&
           is_ended(entry->host_name, sizeof entry->host_name);
}

enum tutti_status discovery_entry_check(const struct discovery_entry *entry)
{
    if (!discovery_entry_makes_sense(entry))
        return error_set(TUTTI_AUTH_FAILED, "start-up: an entry that makes no sense");
    return TUTTI_OK;
}

static bool head_is_sound(const struct discovery_reader *reader)
{
    const struct discovery_head *head = reader->head;
    if (head->magic != MAGIC || head->size != reader->size || head->rank < 0 ||
        head->rank >= head->size || !is_ended(head->text, sizeof head->text))
        return false;
    switch (head->kind) {
    case DISCOVERY_ENTRY: return head->entry_count == 1;
    case DISCOVERY_TABLE: return head->entry_count == (uint32_t)head->size;
    case DISCOVERY_HEARD: return head->entry_count == 0;
    case DISCOVERY_CONNECT: return head->entry_count == 0 && is_connectable(&head->address);
    case DISCOVERY_FAILURE:
        return head->entry_count == 0 && head->status > TUTTI_IN_PROGRESS &&
               head->status < STATUS_COUNT;
    default: return false;
    }
}

size_t discovery_reader_wants(const struct discovery_reader *reader, void **to)
{
    const size_t head_bytes = sizeof *reader->head;
    *to = (char *)reader->head + reader->done;
    if (reader->done < head_bytes) return head_bytes - reader->done;
    const size_t got = reader->done - head_bytes;
    *to = (char *)reader->entries + got;
    return reader->head->entry_count * sizeof *reader->entries - got;
}

enum tutti_status discovery_reader_took(struct discovery_reader *reader, size_t bytes)
{
    void *to;
    const bool was_in_head = reader->done < sizeof *reader->head;
    reader->done += bytes;
    if (reader->done < sizeof *reader->head) return TUTTI_OK;
    if (was_in_head && (!head_is_sound(reader) || reader->head->entry_count > reader->entry_max))
        return error_set(TUTTI_AUTH_FAILED, "start-up: a message that makes no sense");
    if (discovery_reader_wants(reader, &to) > 0) return TUTTI_OK;
    for (uint32_t i = 0; i < reader->head->entry_count; i++)
        TRY(discovery_entry_check(&reader->entries[i]));
    return TUTTI_OK;
}
