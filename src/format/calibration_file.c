#include "format/calibration_file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/option.h"
#include "base/printable.h"
#include "base/status.h"
#include "format/cache_folder.h"
#include "format/calibration_json.h"
#include "format/trusted_file.h"

/* ------------------------------------------------------------------------------------ its place */

/* A part of a file's name. */
static void name_host(char host[HOST_NAME_MAX + 1])
{
    memset(host, 0, HOST_NAME_MAX + 1);
    if (gethostname(host, HOST_NAME_MAX) != 0 || host[0] == '\0') strcpy(host, "host");
    printable_make(host);
    for (char *c = host; *c != '\0'; c++)
        if (*c == '/') *c = '-';
}

enum tutti_status calibration_file_path(char *path, size_t path_bytes)
{
    char host[HOST_NAME_MAX + 1], name[HOST_NAME_MAX + 40];
    const char *const told = option_text(OPTION_CALIBRATION);
    if (told != NULL) {
        if ((size_t)snprintf(path, path_bytes, "%s", told) < path_bytes) return TUTTI_OK;
        return error_set(TUTTI_INVALID_OPTIONS, "the path of the calibration is too long");
    }
    name_host(host);
    snprintf(name, sizeof name, "calibration-%s.json", host);
    if (cache_folder_path(name, path, path_bytes)) return TUTTI_OK;
    return error_set(
        TUTTI_INVALID_OPTIONS,
        "neither XDG_CACHE_HOME nor HOME is a folder for the calibration, or its path is "
        "too long: set %s",
        option_names.CALIBRATION);
}

/* -------------------------------------------------------------------------- reading and writing */

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
