/* Whatever bytes come: calibration_json_load ends, what it accepts is within bounds and survives
 * writing and reading once more, and what it refuses it refuses with a line and leaves alone. */
#include <stdlib.h>
#include <string.h>

#include "format/calibration_json.h"
#include "transport/local/paths.h"
#include "transport/tcp/paths.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct calibration shipped, read, again;
    calibration_init(&shipped, local_paths(false), tcp_paths());
    read = again = shipped;
    if (calibration_json_load((const char *)data, size, &read) != TUTTI_OK) {
        if (strncmp(tutti_error_message(), "line ", 5) != 0) abort();
        if (memcmp(&read, &shipped, sizeof read) != 0) abort();
        return 0;
    }
    for (unsigned i = 0; i < CALIBRATION_PARAMETERS; i++) {
        const struct calibration_info *info = calibration_info((enum calibration_parameter)i);
        if (read.numbers[i].value < info->least || read.numbers[i].value > info->most) abort();
    }
    char *text = NULL;
    size_t text_size;
    FILE *file = open_memstream(&text, &text_size);
    if (file == NULL || calibration_json_dump(&read, file) != TUTTI_OK || fclose(file) != 0)
        abort();
    again = shipped;
    if (calibration_json_load(text, text_size, &again) != TUTTI_OK) abort();
    if (memcmp(&read, &again, sizeof read) != 0) abort();
    free(text);
    return 0;
}
