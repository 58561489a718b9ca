/* Whatever comes over a connection of rank discovery, in pieces of any size: the reader asks for
 * nothing beyond the head and the entries there is room for, and what it takes for a message has
 * numbers in their ranges and texts with an end.
 *
 * The input: the number of ranks, the room for entries, how the pieces are cut, and the bytes. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "connect/discovery_message.h"

enum { RANKS_MAX = 8 };

static void check_text(const char *text, size_t bytes)
{
    if (memchr(text, '\0', bytes) == NULL) abort();
}

static void check_address(const struct net_address *address)
{
    char text[NET_ADDRESS_TEXT_MAX];
    if (address->family != AF_INET && address->family != AF_INET6) abort();
    net_address_print(address, text);
    check_text(text, sizeof text);
}

static void check(const struct discovery_reader *reader)
{
    const struct discovery_head *head = reader->head;
    check_text(head->text, sizeof head->text);
    if (head->size != reader->size || head->rank < 0 || head->rank >= reader->size) abort();
    if (head->entry_count > reader->entry_max) abort();
    if (head->kind == DISCOVERY_CONNECT) check_address(&head->address);
    if (head->kind == DISCOVERY_FAILURE) {
        if (head->status <= 0 || head->status >= STATUS_COUNT) abort();
        check_text(tutti_status_name((enum tutti_status)head->status), 64);
    }
    for (uint32_t i = 0; i < head->entry_count; i++) {
        const struct discovery_entry *entry = &reader->entries[i];
        check_text(entry->host_name, sizeof entry->host_name);
        if (entry->core_count <= 0) abort();
        if (entry->address.family != AF_UNSPEC) check_address(&entry->address);
    }
}

/* Each message in memory of exactly its size, so that the sanitizer sees what lies beyond. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) return 0;
    struct discovery_reader reader = {.size = 1 + data[0] % RANKS_MAX,
                                      .entry_max = data[1] % (RANKS_MAX + 1)};
    const size_t piece_bytes = 1 + (size_t)data[2] * 3;
    data += 3;
    size -= 3;
    reader.head = calloc(1, sizeof *reader.head);
    reader.entries = calloc(reader.entry_max + 1u, sizeof *reader.entries);
    if (reader.head == NULL || reader.entries == NULL) abort();
    memset(&reader.entries[reader.entry_max], 0x5a, sizeof *reader.entries);
    while (true) {
        void *to;
        size_t bytes = discovery_reader_wants(&reader, &to);
        if (bytes == 0) {
            check(&reader);
            break;
        }
        if (bytes > piece_bytes) bytes = piece_bytes;
        if (bytes > size) break;
        memcpy(to, data, bytes);
        data += bytes;
        size -= bytes;
        if (discovery_reader_took(&reader, bytes) != TUTTI_OK) break;
    }
    for (size_t i = 0; i < sizeof *reader.entries; i++)
        if (((unsigned char *)&reader.entries[reader.entry_max])[i] != 0x5a) abort();
    free(reader.head);
    free(reader.entries);
    return 0;
}
