#include "format/network_file.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "format/cache_folder.h"
#include "format/trusted_file.h"
#include "os/file.h"

enum { FILES = 64, BYTES_MAX = 1 << 20, DIGITS_MAX = 18 };
#define WRITE_NS UINT64_C(1000000000)

/* ----------------------------------------------------------------------------------------- text */

static const char *name_of(unsigned number)
{
    return calibration_info(between_parameter((enum between_number)number))->name;
}

void network_file_print(uint64_t key, const struct network_found *found, FILE *file)
{
    fprintf(file, "tutti-network 1\nhosts %016" PRIx64 " %d\nstarts %d\n", key, found->host_count,
            found->start_count);
    for (unsigned i = 0; i < BETWEEN_NUMBERS; i++) {
        const struct calibration_number *const number = &found->between.numbers[i];
        if (number->known == CALIBRATION_MEASURED)
            fprintf(file, "%s %" PRIu64 " %u\n", name_of(i), number->value, number->spread_permille);
    }
    fputs("racks", file);
    for (int h = 0; h < found->host_count; h++) fprintf(file, " %d", found->rack_of[h]);
    fputc('\n', file);
}

struct reader {
    const char *at, *end;
};

/* Takes just this, if it comes next. */
static bool take(struct reader *reader, const char *text)
{
    const size_t length = strlen(text);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, text, length) != 0)
        return false;
    reader->at += length;
    return true;
}

/* A blank and a whole number from `least` to `most`. */
static bool take_number(struct reader *reader, uint64_t least, uint64_t most, uint64_t *number)
{
    int digits = 0;
    *number = 0;
    if (!take(reader, " ")) return false;
    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        if (++digits > DIGITS_MAX) return false;
        *number = *number * 10 + (uint64_t)(*reader->at - '0');
    }
    return digits > 0 && *number >= least && *number <= most;
}

/* A line of it, if there is one. */
static bool take_measured(struct reader *reader, unsigned number,
                          struct calibration_number *measured)
{
    const struct calibration_info *const info =
        calibration_info(between_parameter((enum between_number)number));
    uint64_t spread;
    *measured = (struct calibration_number){.known = CALIBRATION_ASSUMED};
    if (!take(reader, info->name)) return true;
    if (!take_number(reader, info->least, info->most, &measured->value) ||
        !take_number(reader, 0, CALIBRATION_SPREAD_MAX, &spread) || !take(reader, "\n"))
        return false;
    measured->spread_permille = (unsigned)spread;
    measured->known = CALIBRATION_MEASURED;
    return true;
}

bool network_file_parse(const char *text, size_t size, uint64_t key, struct network_found *found)
{
    char head[80];
    uint64_t starts;
    struct reader reader = {text, text + size};
    found->between = (struct between){{{.value = 0}}};
    snprintf(head, sizeof head, "tutti-network 1\nhosts %016" PRIx64 " %d\nstarts", key,
             found->host_count);
    if (!take(&reader, head) || !take_number(&reader, 1, NETWORK_STARTS_MAX, &starts) ||
        !take(&reader, "\n"))
        return false;
    found->start_count = (int)starts;
    for (unsigned i = 0; i < BETWEEN_NUMBERS; i++)
        if (!take_measured(&reader, i, &found->between.numbers[i])) return false;
    if (!take(&reader, "racks")) return false;
    for (int h = 0; h < found->host_count; h++) {
        uint64_t rack;
        if (!take_number(&reader, 0, (uint64_t)found->host_count - 1, &rack)) return false;
        found->rack_of[h] = (int)rack;
    }
    return take(&reader, "\n") && reader.at == reader.end;
}

/* ----------------------------------------------------------------------------------------- file */

/* The folder, if that is asked for, and the file. */
static bool find_places(uint64_t key, char folder[PATH_MAX], char path[PATH_MAX])
{
    char name[40];
    snprintf(name, sizeof name, "network-%02x.txt", (unsigned)(key % FILES));
    return (folder == NULL || cache_folder_path("", folder, PATH_MAX)) &&
           cache_folder_path(name, path, PATH_MAX);
}

bool network_file_find(uint64_t key, struct network_found *found)
{
    char path[PATH_MAX], before[ERROR_TEXT_MAX], *text;
    size_t size;
    bool is_found = false;
    if (!find_places(key, NULL, path)) return false;
    error_copy(before, sizeof before);
    if (access(path, F_OK) == 0 && trusted_file_read(path, BYTES_MAX, &text, &size) == TUTTI_OK) {
        is_found = network_file_parse(text, size, key, found);
        free(text);
    }
    (void)error_unless_ok(TUTTI_OK, before);
    return is_found;
}

void network_file_keep(uint64_t key, const struct network_found *found)
{
    char folder[PATH_MAX], path[PATH_MAX], before[ERROR_TEXT_MAX], *text = NULL;
    size_t size;
    if (!find_places(key, folder, path)) return;
    FILE *const file = open_memstream(&text, &size);
    if (file == NULL) return;
    network_file_print(key, found, file);
    if (fclose(file) != 0) {
        free(text);
        return;
    }
    error_copy(before, sizeof before);
    trusted_file_make_folders(path);
    (void)file_replace_within(folder, path, text, size, WRITE_NS);
    (void)error_unless_ok(TUTTI_OK, before);
}

void network_file_forget(uint64_t key)
{
    char path[PATH_MAX], before[ERROR_TEXT_MAX], *text, head[80];
    size_t size;
    if (!find_places(key, NULL, path) || access(path, F_OK) != 0) return;
    error_copy(before, sizeof before);
    snprintf(head, sizeof head, "tutti-network 1\nhosts %016" PRIx64 " ", key);
    if (trusted_file_read(path, BYTES_MAX, &text, &size) == TUTTI_OK) {
        if (size >= strlen(head) && memcmp(text, head, strlen(head)) == 0) unlink(path);
        free(text);
    }
    (void)error_unless_ok(TUTTI_OK, before);
}
