#include "os/file.h"

#include <errno.h>
#include <stdlib.h>

char *file_read_all(FILE *file, size_t size_max, size_t *size)
{
    char *text = NULL;
    size_t capacity = 0;
    *size = 0;
    do {
        if (*size + 1 >= capacity) {
            capacity = capacity * 2 + 65536;
            char *grown = *size > size_max ? NULL : realloc(text, capacity);
            if (grown == NULL) {
                const int error = *size > size_max ? EFBIG : ENOMEM;
                free(text);
                errno = error;
                return NULL;
            }
            text = grown;
        }
        *size += fread(text + *size, 1, capacity - *size - 1, file);
    } while (!feof(file) && !ferror(file));
    text[*size] = '\0';
    if (!ferror(file)) return text;
    const int error = errno;
    free(text);
    errno = error;
    return NULL;
}
