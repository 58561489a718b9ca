/* Fuzzes the text of a measured network: numbers that are read are within bounds, and writing and
 * reading them gives the same numbers. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/network_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HOSTS = 4 };

static void check(const struct network_found *found)
{
    for (int i = 0; i < HOSTS; i++)
        if (found->rack_of[i] < 0 || found->rack_of[i] >= HOSTS) abort();
    if (found->start_count < 1 || found->start_count > NETWORK_STARTS_MAX) abort();
    for (unsigned i = 0; i < BETWEEN_NUMBERS; i++) {
        const struct calibration_info *const info = calibration_info(between_parameter(i));
        const struct calibration_number *const number = &found->between.numbers[i];
        if (number->known == CALIBRATION_ASSUMED) continue;
        if (number->value < info->least || number->value > info->most) abort();
        if (number->spread_permille > CALIBRATION_SPREAD_MAX) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int racks[HOSTS], racks_again[HOSTS];
    struct network_found found = {.host_count = HOSTS, .rack_of = racks},
                         again = {.host_count = HOSTS, .rack_of = racks_again};
    char *text = NULL;
    size_t text_size = 0;
    if (!network_file_parse((const char *)data, size, 0, &found)) return 0;
    check(&found);
    FILE *file = open_memstream(&text, &text_size);
    if (file == NULL) abort();
    network_file_print(0, &found, file);
    fclose(file);
    if (!network_file_parse(text, text_size, 0, &again)) abort();
    if (memcmp(racks, racks_again, sizeof racks) != 0 || found.start_count != again.start_count ||
        memcmp(&found.between, &again.between, sizeof found.between) != 0)
        abort();
    free(text);
    return 0;
}
