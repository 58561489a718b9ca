#include "format/trusted_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "os/file.h"

/* -------------------------------------------------------------------------------------- reading */

/* Looks at the open file, not at the one that lies at its path now. */
static enum tutti_status check_owner(const char *path, int fd)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return error_set(TUTTI_INVALID_OPTIONS, "%.200s: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return error_set(TUTTI_INVALID_OPTIONS, "%.200s: it is no regular file", path);
    if (about.st_uid != geteuid() && about.st_uid != 0)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "%.200s: it belongs to user %u, and only a file of user %u (this "
                         "process's)%s will do: copy it, or make it again",
                         path, (unsigned)about.st_uid, (unsigned)geteuid(),
                         geteuid() != 0 ? " or 0" : "");
    if ((about.st_mode & 022) != 0)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "%.200s: other users can write it (mode %04o): say `chmod go-w` if you "
                         "know that nobody changed it, or make it again",
                         path, (unsigned)about.st_mode & 07777);
    return TUTTI_OK;
}

/* Without O_NONBLOCK a fifo without a writer would never be opened. */
enum tutti_status trusted_file_read(const char *path, size_t bytes_max, char **text, size_t *size)
{
    *text = NULL;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return error_set(TUTTI_INVALID_OPTIONS, "%.200s: %s", path, strerror(errno));
    FILE *file = fdopen(fd, "r");
    if (file == NULL) {
        close(fd);
        return error_set(TUTTI_NO_MEMORY, "%.200s: out of memory", path);
    }
    enum tutti_status status = check_owner(path, fd);
    if (status == TUTTI_OK && (*text = file_read_all(file, bytes_max, size)) == NULL)
        status = error_system("reading %.200s", path);
    fclose(file);
    return status;
}

enum tutti_status trusted_file_blame(const char *path, enum tutti_status status)
{
    char why[ERROR_TEXT_MAX];
    error_copy(why, sizeof why);
    return error_set(status, "%.200s: %s", path, why);
}

/* -------------------------------------------------------------------------------------- writing */

void trusted_file_make_folders(const char *path)
{
    char folder[PATH_MAX];
    if (path[0] == '\0') return;
    if ((size_t)snprintf(folder, sizeof folder, "%s", path) >= sizeof folder) return;
    for (char *slash = strchr(folder + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(folder, 0700);
        *slash = '/';
    }
}

enum tutti_status trusted_file_write(const char *path, const char *text, size_t size)
{
    trusted_file_make_folders(path);
    return file_replace(path, text, size);
}
