/* Whatever bytes come: reading a message ends, what is accepted can be written and read once more
 * with the same bytes, and what is refused says why. The same bytes are also a list of hosts, and a
 * report. */
#include <stdlib.h>
#include <string.h>

#include "hosts.c"
#include "message.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_message(const uint8_t *data, size_t size)
{
    struct message message;
    const char *wrong;
    unsigned char *again;
    size_t again_bytes;
    if (size < MESSAGE_HEAD_BYTES) return;
    const size_t body_bytes = message_body_size(data, &wrong);
    if (wrong != NULL || body_bytes > size - MESSAGE_HEAD_BYTES) return;
    unsigned char *body = malloc(body_bytes + 1);
    if (body == NULL) abort();
    memcpy(body, data + MESSAGE_HEAD_BYTES, body_bytes);
    wrong = message_read(body, body_bytes, &message);
    if (wrong == NULL) {
        if (!message_write(&message, &again, &again_bytes)) abort();
        if (again_bytes != MESSAGE_HEAD_BYTES + body_bytes || memcmp(again, data, again_bytes) != 0)
            abort();
        free(again);
        message_release(&message);
    } else if (wrong[0] == '\0') {
        abort();
    }
    free(body);
}

static bool has_host_with_more_slots(const struct hosts *hosts, int slots)
{
    for (int i = 0; i < hosts->count; i++)
        if (hosts->list[i].slot_count > slots) return true;
    return false;
}

static void fuzz_hosts(const uint8_t *data, size_t size)
{
    struct hosts hosts = {NULL, 0, 0};
    char error[HOSTS_ERROR_BYTES] = "";
    if (!hosts_read(&hosts, (const char *)data, size, error)) {
        if (error[0] == '\0') abort();
    } else {
        const int count = hosts.slot_count, rank_count = count - count / 3;
        int placed = 0;
        if (hosts_place(&hosts, count + 1, MAP_BY_SLOT, error)) abort();
        const bool may_be_full = has_host_with_more_slots(&hosts, HOST_RANKS_MAX);
        error[0] = '\0';
        if (hosts_place(&hosts, rank_count, size % 2 ? MAP_BY_NODE : MAP_BY_SLOT, error)) {
            for (int i = 0; i < hosts.count; i++) placed += hosts.list[i].rank_count;
            if (placed != rank_count) abort();
        } else if (!may_be_full || error[0] == '\0') {
            abort();
        }
    }
    hosts_release(&hosts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum report_kind kind;
    int code;
    unsigned char address[ADDRESS_BYTES];
    fuzz_message(data, size);
    fuzz_hosts(data, size);
    if (report_read("0123", (const char *)data, size, &kind, &code) && (code < 0 || code > RANKS_MAX))
        abort();
    (void)address_report_read("0123", (const char *)data, size, address);
    return 0;
}
