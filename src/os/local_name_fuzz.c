/* Everybody can choose the names in the kernel's list of sockets. Whatever a line of it says, a
 * name that is found in it consists of the name that was looked for and 16 digits, and fits.
 *
 * The input is the line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "os/local_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"tutti-0-1", "tutti-0-12", ""};
    char *const line = malloc(size + 1);
    if (line == NULL) abort();
    memcpy(line, data, size);
    line[size] = '\0';
    for (int i = 0; i < 3; i++) {
        char found[LOCAL_NAME_MAX];
        if (!local_name_in_line(line, names[i], found)) continue;
        const size_t bytes = strlen(names[i]);
        if (memchr(found, '\0', sizeof found) == NULL || strlen(found) != bytes + 17) abort();
        if (strncmp(found, names[i], bytes) != 0 || found[bytes] != '-') abort();
        if (strspn(found + bytes + 1, "0123456789abcdef") != 16) abort();
    }
    free(line);
    return 0;
}
