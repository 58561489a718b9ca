/* Whatever a process manager answers: words lie within their line, and a connection ends with a
 * status, never waiting once the manager has hung up. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/pmi1.h"
#include "os/clock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_words(const char *line, size_t line_bytes)
{
    const char *const end = line + line_bytes;
    struct pmi1_word word;
    while (pmi1_next_word(&line, &line_bytes, &word)) {
        if (word.name_bytes == 0 || word.value + word.value_bytes > end ||
            word.name + word.name_bytes + 1 != word.value || line + line_bytes != end)
            abort();
        for (size_t i = 0; i < word.value_bytes; i++)
            if (word.value[i] <= ' ' || word.value[i] > '~') abort();
    }
    if (line + line_bytes != end) abort();
}

static void talk(int fd)
{
    struct pmi1 client;
    char value[64];
    const uint64_t deadline_ns = clock_now_ns() + 60000000000u;
    if (pmi1_open(&client, fd, deadline_ns) != TUTTI_OK) {
        if (!client.is_broken) abort();
        return;
    }
    if (pmi1_value_room(&client, 8) >= PMI1_LINE_BYTES_MAX) abort();
    (void)pmi1_put(&client, "key", "value", deadline_ns);
    (void)pmi1_fence(&client, deadline_ns);
    if (pmi1_get(&client, "key", value, sizeof value, deadline_ns) == TUTTI_OK &&
        memchr(value, '\0', sizeof value) == NULL)
        abort();
    (void)pmi1_close(&client, deadline_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { ANSWERS_BYTES_MAX = 16384 };
    if (size > ANSWERS_BYTES_MAX) return 0;
    read_words((const char *)data, size);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) abort();
    if (size > 0 && send(ends[0], data, size, MSG_NOSIGNAL) != (ssize_t)size) abort();
    if (shutdown(ends[0], SHUT_WR) != 0) abort();
    talk(ends[1]);
    close(ends[0]);
    close(ends[1]);
    return 0;
}
