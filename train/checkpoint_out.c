#include "checkpoint_out.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static bool write_all(int fd, const struct out_part *part)
{
    const char *at = part->from;
    for (size_t left = part->bytes; left > 0;) {
        const ssize_t written = write(fd, at, left);
        if (written < 0 && errno == EINTR) continue;
        if (written == 0) errno = ENOSPC; /* which is said with words otherwise */
        if (written <= 0) return false;
        at += written;
        left -= (size_t)written;
    }
    return true;
}

bool out_write(const char *path, const struct out_part *parts, size_t count)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return false;
    bool is_written = true;
    for (size_t i = 0; i < count && is_written; i++) is_written = write_all(fd, &parts[i]);
    is_written = is_written && fsync(fd) == 0;
    const int error = errno;
    if (close(fd) != 0 && is_written) return false;
    errno = error;
    return is_written;
}
