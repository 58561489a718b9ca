#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"

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

static bool write_all(int fd, const char *text, size_t size)
{
    while (size > 0) {
        const ssize_t written = write(fd, text, size);
        if (written < 0 && errno != EINTR) return false;
        if (written <= 0) continue;
        text += written;
        size -= (size_t)written;
    }
    return true;
}

enum tutti_status file_replace(const char *path, const char *text, size_t size)
{
    char temporary[PATH_MAX];
    const int length = snprintf(temporary, sizeof temporary, "%s.%d.new", path, (int)getpid());
    if (length < 0 || (size_t)length >= sizeof temporary) {
        errno = ENAMETOOLONG;
        return error_system("writing %.200s", path);
    }
    unlink(temporary); /* of a process that had this number before */
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return error_system("writing %s", temporary);
    bool is_written = write_all(fd, text, size);
    int error = errno;
    if (close(fd) != 0 && is_written) {
        is_written = false;
        error = errno;
    }
    if (is_written && rename(temporary, path) == 0) return TUTTI_OK;
    if (is_written) error = errno;
    unlink(temporary);
    errno = error;
    return error_system("writing %s", path);
}
