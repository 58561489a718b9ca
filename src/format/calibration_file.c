#include "format/calibration_file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/option.h"
#include "base/printable.h"
#include "base/status.h"
#include "format/calibration_json.h"
#include "format/trusted_file.h"

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

/* ---------------------------------------------------------------------------------------- reading and writing */

enum tutti_status calibration_file_load(const char *path, struct calibration *calibration)
{
    char *text;
    size_t size;
    TRY(trusted_file_read(path, CALIBRATION_JSON_BYTES_MAX, &text, &size));
    const enum tutti_status status = calibration_json_load(text, size, calibration);
    free(text);
    return status == TUTTI_OK ? TUTTI_OK : trusted_file_blame(path, status);
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
    if (status == TUTTI_OK) status = trusted_file_write(path, text, size);
    free(text);
    return status;
}
