#include "os/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* "55d0c8e00000-55d0c8e21000 rw-p 00000000 00:00 0    [heap]" */
struct mapping {
    uintptr_t begin, end;
    bool is_private;
};

enum { BUFFER_BYTES = 4096 };

struct reader {
    int fd;
    size_t at, filled;
    char bytes[BUFFER_BYTES];
};

/* -1: the end. */
static int next_byte(struct reader *reader)
{
    if (reader->at == reader->filled) {
        ssize_t bytes;
        do bytes = read(reader->fd, reader->bytes, sizeof reader->bytes);
        while (bytes < 0 && errno == EINTR);
        if (bytes <= 0) return -1;
        reader->at = 0;
        reader->filled = (size_t)bytes;
    }
    return (unsigned char)reader->bytes[reader->at++];
}

/* A hexadecimal number and the byte behind it. */
static uint64_t next_number(struct reader *reader, int *behind)
{
    uint64_t number = 0;
    for (;;) {
        const int byte = *behind = next_byte(reader);
        const int digit = byte >= '0' && byte <= '9'   ? byte - '0'
                          : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
                                                       : -1;
        if (digit < 0) return number;
        number = number << 4 | (uint64_t)digit;
    }
}

static bool next_mapping(struct reader *reader, struct mapping *mapping)
{
    int behind;
    mapping->begin = (uintptr_t)next_number(reader, &behind);
    if (behind != '-') return false;
    mapping->end = (uintptr_t)next_number(reader, &behind);
    for (int i = 0; i < 3; i++) next_byte(reader);
    const bool is_shared = next_byte(reader) != 'p';
    next_byte(reader);
    next_number(reader, &behind); /* offset */
    next_number(reader, &behind); /* major */
    next_number(reader, &behind); /* minor */
    const bool is_file = next_number(reader, &behind) != 0;
    mapping->is_private = !is_shared && !is_file;
    while (behind != '\n' && behind >= 0) behind = next_byte(reader);
    return behind == '\n';
}

bool mapping_is_private(uintptr_t begin, uintptr_t end, uintptr_t *outer_begin, uintptr_t *outer_end)
{
    struct reader reader = {.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
    if (reader.fd < 0) return false;
    struct mapping mapping;
    /* The end of the memory that is known to be such, from *outer_begin on; 0: none yet. */
    uintptr_t until = 0;
    while (until < end && next_mapping(&reader, &mapping)) {
        if (mapping.end <= begin) continue;
        if (!mapping.is_private || mapping.begin > (until == 0 ? begin : until)) break;
        if (until == 0) *outer_begin = mapping.begin;
        until = *outer_end = mapping.end;
    }
    close(reader.fd);
    return until >= end;
}

/* The system copies what looks like a set of signals before it finds that it is not asked to do
 * anything. */
bool mapping_is_readable(const void *address)
{
    const uintptr_t whole = (uintptr_t)address & ~(uintptr_t)7;
    return syscall(SYS_rt_sigprocmask, ~0, (const void *)whole, NULL, 8) == 0 || errno != EFAULT;
}
