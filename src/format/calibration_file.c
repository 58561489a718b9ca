#include "format/calibration_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/option.h"
#include "base/printable.h"
#include "base/status.h"
#include "format/calibration_json.h"
#include "os/file.h"

/* ------------------------------------------------------------------------------------------------- its place */

/* A part of a file's name. */
static void name_host(char host[HOST_NAME_MAX + 1])
{
    memset(host, 0, HOST_NAME_MAX + 1);
    if (gethostname(host, HOST_NAME_MAX) != 0 || host[0] == '\0') strcpy(host, "host");
    printable_make(host);
    for (char *c = host; *c != '\0'; c++)
        if (*c == '/') *c = '-';
}

/* Relative folders count as none, as the XDG Base Directory Specification wants it. */
static const char *folder_from(const char *variable)
{
    const char *folder = getenv(variable);
    return folder != NULL && folder[0] == '/' ? folder : NULL;
}

enum tutti_status calibration_file_path(char *path, size_t path_bytes)
{
    char host[HOST_NAME_MAX + 1];
    const char *const told = option_text(OPTION_CALIBRATION);
    const char *const cache = folder_from("XDG_CACHE_HOME"), *const home = folder_from("HOME");
    int length;
    name_host(host);
    if (told != NULL)
        length = snprintf(path, path_bytes, "%s", told);
    else if (cache != NULL)
        length = snprintf(path, path_bytes, "%s/tutti/calibration-%s.json", cache, host);
    else if (home != NULL)
        length = snprintf(path, path_bytes, "%s/.cache/tutti/calibration-%s.json", home, host);
    else
        return error_set(TUTTI_INVALID_OPTIONS,
                         "neither XDG_CACHE_HOME nor HOME is a folder for the calibration: set %s",
                         option_names.CALIBRATION);
    if (length >= 0 && (size_t)length < path_bytes) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS, "the path of the calibration is too long");
}

/* ---------------------------------------------------------------------------------------------------- reading */

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
                         "%.200s: it belongs to user %u, and only a calibration of user %u (this "
                         "process's) or 0 will do: copy it, or measure again",
                         path, (unsigned)about.st_uid, (unsigned)geteuid());
    if ((about.st_mode & 022) != 0)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "%.200s: other users can write it (mode %04o): say `chmod go-w` if you "
                         "know that nobody changed it, or measure again",
                         path, (unsigned)about.st_mode & 07777);
    return TUTTI_OK;
}

static enum tutti_status load_open(const char *path, FILE *file, struct calibration *calibration)
{
    char why[ERROR_TEXT_MAX];
    size_t size;
    TRY(check_owner(path, fileno(file)));
    char *text = file_read_all(file, CALIBRATION_JSON_BYTES_MAX, &size);
    if (text == NULL) return error_system("reading %.200s", path);
    const enum tutti_status status = calibration_json_load(text, size, calibration);
    free(text);
    if (status == TUTTI_OK) return TUTTI_OK;
    error_copy(why, sizeof why);
    return error_set(status, "%.200s: %s", path, why);
}

/* Without O_NONBLOCK a fifo without a writer would never be opened. */
enum tutti_status calibration_file_load(const char *path, struct calibration *calibration)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return error_set(TUTTI_INVALID_OPTIONS, "%.200s: %s", path, strerror(errno));
    FILE *file = fdopen(fd, "r");
    if (file == NULL) {
        close(fd);
        return error_set(TUTTI_NO_MEMORY, "%.200s: out of memory", path);
    }
    const enum tutti_status status = load_open(path, file, calibration);
    fclose(file);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- writing */

/* If one cannot be made, that shows when the file is written. */
static void make_folders(const char *path)
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

enum tutti_status calibration_file_save(const char *path, const struct calibration *calibration)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) return error_set(TUTTI_NO_MEMORY, "calibration: out of memory");
    enum tutti_status status = calibration_json_dump(calibration, file);
    if (fclose(file) != 0 && status == TUTTI_OK)
        status = error_set(TUTTI_NO_MEMORY, "calibration: out of memory");
    if (status == TUTTI_OK) {
        make_folders(path);
        status = file_replace(path, text, size);
    }
    free(text);
    return status;
}
