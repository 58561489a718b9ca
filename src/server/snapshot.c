#include "server/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/status.h"
#include "os/file.h"
#include "server/table_copy.h"

enum {
    FORMAT = 2,
    HEAD_BYTES = 32,
    TAIL_BYTES = 16,
    BUFFER_BYTES = 4 << 20,
    PATH_BYTES = PATH_MAX
};
static const uint32_t HEAD_MAGIC = 0x53547454, TAIL_MAGIC = 0x45547454; /* "TtTS", "TtTE" */

static void put(unsigned char *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) at[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t get(const unsigned char *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static void write_head(unsigned char *head, const struct tables *tables,
                       const struct snapshot_part *part)
{
    put(head, HEAD_MAGIC, 4);
    put(head + 4, FORMAT, 4);
    put(head + 8, (uint64_t)part->server, 4);
    put(head + 12, (uint64_t)part->server_count, 4);
    put(head + 16, tables_count(tables), 8);
    put(head + 24, part->step, 8);
}

static enum tutti_status name_file(const char *folder, const struct snapshot_part *part,
                                   char path[static PATH_BYTES])
{
    if (folder[0] == '\0')
        return error_set(TUTTI_INVALID_OPTIONS, "the name of the folder is empty");
    const int length = snprintf(path, PATH_BYTES, "%s/server-%d-of-%d.tables", folder, part->server,
                                part->server_count);
    if (length > 0 && length < PATH_BYTES - FILE_MARK_SIZE - 8) return TUTTI_OK;
    return error_set(TUTTI_SYSTEM, "the name of the folder is too long");
}

/* Room for some records of these tables, at least for the longest one. */
static unsigned char *make_buffer(const struct tables *tables, size_t *capacity)
{
    const size_t least = tables_copy_capacity_min(tables);
    *capacity = least > BUFFER_BYTES ? least : BUFFER_BYTES;
    return malloc(*capacity);
}

static enum tutti_status no_buffer(size_t capacity)
{
    return error_set(TUTTI_NO_MEMORY, "no memory for a buffer of %zu bytes", capacity);
}

/* --------------------------------------------------------------------------------------- written */

static enum tutti_status write_bytes(FILE *file, const char *path, const void *bytes, size_t size)
{
    if (fwrite(bytes, 1, size, file) == size) return TUTTI_OK;
    return error_system("writing %s", path);
}

/* sum: the checksum of what comes before. */
static enum tutti_status write_records(FILE *file, const char *path, const struct tables *tables,
                                       unsigned char *buffer, size_t capacity, uint32_t sum)
{
    struct tables_copy copy;
    uint64_t bytes = 0;
    tables_copy_init(&copy);
    do {
        size_t size;
        TRY(tables_copy_next(tables, &copy, buffer, capacity, &size));
        TRY(write_bytes(file, path, buffer, size));
        sum = crc32c(sum, buffer, size);
        bytes += size;
    } while (!tables_copy_is_current(tables, &copy));
    unsigned char tail[TAIL_BYTES];
    put(tail, bytes, 8);
    put(tail + 8, sum, 4);
    put(tail + 12, TAIL_MAGIC, 4);
    return write_bytes(file, path, tail, sizeof tail);
}

static enum tutti_status write_file(FILE *file, const char *path, const struct tables *tables,
                                    const struct snapshot_part *part)
{
    size_t capacity;
    unsigned char head[HEAD_BYTES], *const buffer = make_buffer(tables, &capacity);
    if (buffer == NULL) return no_buffer(capacity);
    write_head(head, tables, part);
    enum tutti_status status = write_bytes(file, path, head, sizeof head);
    if (status == TUTTI_OK)
        status = write_records(file, path, tables, buffer, capacity, crc32c(0, head, sizeof head));
    free(buffer);
    TRY(status);
    if (fflush(file) != 0 || fsync(fileno(file)) != 0) return error_system("writing %s", path);
    return TUTTI_OK;
}

enum tutti_status snapshot_write(const struct tables *tables, const char *folder,
                                 const struct snapshot_part *part)
{
    char path[PATH_BYTES], mark[FILE_MARK_SIZE], new_path[PATH_BYTES + FILE_MARK_SIZE + 8];
    TRY(name_file(folder, part, path));
    file_make_mark(mark);
    snprintf(new_path, sizeof new_path, "%s.%s.new", path, mark);
    FILE *const file = fopen(new_path, "wxe");
    if (file == NULL) return error_system("opening %s", new_path);
    enum tutti_status status = write_file(file, new_path, tables, part);
    if (fclose(file) != 0 && status == TUTTI_OK) status = error_system("closing %s", new_path);
    if (status == TUTTI_OK && rename(new_path, path) != 0)
        status = error_system("renaming %s", new_path);
    if (status != TUTTI_OK) (void)unlink(new_path);
    return status;
}

/* ------------------------------------------------------------------------------------------ read */

static enum tutti_status corrupt(const char *path, const char *what)
{
    return error_set(TUTTI_CORRUPT, "%s: %s", path, what);
}

static enum tutti_status read_bytes(FILE *file, const char *path, void *bytes, size_t size)
{
    if (fread(bytes, 1, size, file) == size) return TUTTI_OK;
    return ferror(file) ? error_system("reading %s", path) : corrupt(path, "it ends too early");
}

static enum tutti_status read_head(FILE *file, const char *path, unsigned char head[HEAD_BYTES])
{
    TRY(read_bytes(file, path, head, HEAD_BYTES));
    if (get(head, 4) != HEAD_MAGIC) return corrupt(path, "it has no tables of a parameter server");
    if (get(head + 4, 4) != FORMAT)
        return error_set(TUTTI_UNSUPPORTED, "%s: format %" PRIu64 ", this version knows %d", path,
                         get(head + 4, 4), FORMAT);
    return TUTTI_OK;
}

/* Whether it is of these tables, and of this part of them. */
static enum tutti_status match_head(const char *path, const unsigned char head[HEAD_BYTES],
                                    const struct tables *tables, struct snapshot_part *part)
{
    unsigned char expected[HEAD_BYTES];
    part->step = get(head + 24, 8);
    write_head(expected, tables, part);
    if (memcmp(head, expected, sizeof expected) == 0) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS,
                     "%s: server %" PRIu64 " of %" PRIu64 " with %" PRIu64
                     " tables, and here are %d, %d and %zu",
                     path, get(head + 8, 4), get(head + 12, 4), get(head + 16, 8), part->server,
                     part->server_count, tables_count(tables));
}

/* Whether the head and the records are those that were written. */
static enum tutti_status check_records(FILE *file, const char *path, unsigned char *buffer,
                                       size_t capacity, uint64_t *bytes)
{
    unsigned char tail[TAIL_BYTES];
    const off_t end = fseeko(file, 0, SEEK_END) == 0 ? ftello(file) : -1;
    if (end < 0) return error_system("reading %s", path);
    if (end < HEAD_BYTES + TAIL_BYTES) return corrupt(path, "it ends too early");
    *bytes = (uint64_t)end - HEAD_BYTES - TAIL_BYTES;
    if (fseeko(file, 0, SEEK_SET) != 0) return error_system("reading %s", path);
    uint32_t sum = 0;
    for (uint64_t left = HEAD_BYTES + *bytes; left > 0;) {
        const size_t part = left < capacity ? (size_t)left : capacity;
        TRY(read_bytes(file, path, buffer, part));
        sum = crc32c(sum, buffer, part);
        left -= part;
    }
    TRY(read_bytes(file, path, tail, sizeof tail));
    if (get(tail, 8) == *bytes && get(tail + 8, 4) == sum && get(tail + 12, 4) == TAIL_MAGIC)
        return TUTTI_OK;
    return corrupt(path, "its checksum is of something else");
}

static enum tutti_status load_records(FILE *file, const char *path, struct tables *tables,
                                      unsigned char *buffer, size_t capacity, uint64_t bytes)
{
    struct tables_loaded loaded = {0};
    size_t kept = 0;
    if (fseeko(file, HEAD_BYTES, SEEK_SET) != 0) return error_system("reading %s", path);
    while (bytes > 0) {
        const size_t room = capacity - kept, part = bytes < room ? (size_t)bytes : room;
        size_t used;
        TRY(read_bytes(file, path, buffer + kept, part));
        bytes -= part;
        TRY(tables_load(tables, buffer, kept + part, &used, &loaded));
        if (used == 0) return corrupt(path, "a record is longer than those of these tables");
        kept += part - used;
        memmove(buffer, buffer + used, kept);
    }
    return loaded.passes == 1 && kept == 0 ? TUTTI_OK : corrupt(path, "it has no whole pass");
}

static enum tutti_status read_file(FILE *file, const char *path, struct tables *tables,
                                   struct snapshot_part *part)
{
    size_t capacity;
    uint64_t bytes = 0;
    unsigned char head[HEAD_BYTES];
    TRY(read_head(file, path, head));
    unsigned char *const buffer = make_buffer(tables, &capacity);
    if (buffer == NULL) return no_buffer(capacity);
    enum tutti_status status = check_records(file, path, buffer, capacity, &bytes);
    if (status == TUTTI_OK) status = match_head(path, head, tables, part);
    if (status == TUTTI_OK) status = load_records(file, path, tables, buffer, capacity, bytes);
    free(buffer);
    return status;
}

/* How many servers have saved in a folder, as the name of a file there says; 0: there is no such file. */
static int find_server_count(const char *folder)
{
    int found = 0;
    DIR *const entries = opendir(folder);
    if (entries == NULL) return 0;
    for (const struct dirent *entry; found == 0 && (entry = readdir(entries)) != NULL;) {
        int server, count, end = 0;
        if (sscanf(entry->d_name, "server-%9d-of-%9d.tables%n", &server, &count, &end) == 2 &&
            end > 0 && count > 0 && entry->d_name[end] == '\0')
            found = count;
    }
    (void)closedir(entries);
    return found;
}

/* With the number of servers, if that is what differs. */
static enum tutti_status no_file(const char *folder, const char *path,
                                 const struct snapshot_part *part)
{
    const enum tutti_status status = error_system("opening %s", path);
    const int count = find_server_count(folder);
    if (count == 0 || count == part->server_count) return status;
    return error_set(TUTTI_INVALID_OPTIONS,
                     "%s has the tables of %d servers, and here are %d; use as many as saved them",
                     folder, count, part->server_count);
}

enum tutti_status snapshot_read(struct tables *tables, const char *folder,
                                struct snapshot_part *part)
{
    char path[PATH_BYTES];
    TRY(name_file(folder, part, path));
    FILE *const file = fopen(path, "re");
    if (file == NULL) return no_file(folder, path, part);
    const enum tutti_status status = read_file(file, path, tables, part);
    (void)fclose(file);
    return status;
}
