/* Built without jansson's header: no file in JSON is read or written. */
#include "base/status.h"
#include "format/calibration_file.h"
#include "format/table_file.h"

static enum tutti_status refuse(void)
{
    return error_set(TUTTI_UNSUPPORTED, "this Tutti was built without jansson, and reads no JSON");
}

enum tutti_status calibration_file_path(char *path, size_t path_bytes)
{
    (void)path, (void)path_bytes;
    return refuse();
}

enum tutti_status calibration_file_load(const char *path, struct calibration *calibration)
{
    (void)path, (void)calibration;
    return refuse();
}

enum tutti_status calibration_file_save(const char *path, const struct calibration *calibration)
{
    (void)path, (void)calibration;
    return refuse();
}

enum tutti_status table_file_load(const char *path, struct tune_table *table)
{
    (void)path, (void)table;
    return refuse();
}

enum tutti_status table_file_save(const char *path, const struct tune_table *table)
{
    (void)path, (void)table;
    return refuse();
}
