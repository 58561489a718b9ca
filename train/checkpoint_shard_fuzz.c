/* For any file, shard_open ends. If it accepts the file, reading everything that the file's table
 * has ends, too. A table that is accepted prints as the same bytes. Checksums are put right first,
 * or else no input would get behind them. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/dtype.h"
#include "checkpoint_bytes.h"
#include "checkpoint_shard.h"
#include "checkpoint_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As far as the file is long enough for what its head says. */
static void put_right(unsigned char *file, size_t size)
{
    struct head head;
    if (size < HEAD_BYTES) return;
    bytes_put(file + HEAD_BYTES - 4, 4, crc32c(0, file, HEAD_BYTES - 4));
    if (head_parse(file, &head) != TUTTI_OK || head_file_bytes(&head) != size) return;
    const size_t sums = HEAD_BYTES + (size_t)head.table_bytes;
    for (uint64_t i = 0; i < head_blocks(&head); i++) {
        const size_t begin = (size_t)(head_data_offset(&head) + i * HEAD_BLOCK_BYTES);
        const size_t left = size - begin;
        bytes_put(file + sums + 4 * i, 4,
                  crc32c(0, file + begin, left < HEAD_BLOCK_BYTES ? left : HEAD_BLOCK_BYTES));
    }
    bytes_put(file + HEAD_BYTES - 8, 4,
              crc32c(0, file + HEAD_BYTES, sums - HEAD_BYTES + 4 * (size_t)head_blocks(&head)));
    bytes_put(file + HEAD_BYTES - 4, 4, crc32c(0, file, HEAD_BYTES - 4));
}

static void read_pieces(struct shard *shard, bool is_right)
{
    struct table table;
    struct table_bytes again = {NULL, 0, 0};
    if (table_parse(shard->table, (size_t)shard->head.table_bytes, &table) != TUTTI_OK) return;
    for (size_t i = 0; i < table.count; i++)
        if (table_print(&table.pieces[i], &again) != TUTTI_OK) abort();
    if (again.size != shard->head.table_bytes ||
        (again.size > 0 && memcmp(again.bytes, shard->table, again.size) != 0))
        abort();
    for (size_t i = 0; i < table.count && table.data_bytes == shard->head.data_bytes; i++) {
        const size_t bytes = (size_t)piece_bytes(&table.pieces[i]);
        char *const to = malloc(bytes);
        if (to == NULL) abort();
        const enum tutti_status status = shard_read(shard, table.pieces[i].offset, to, bytes);
        if (status != TUTTI_OK && (is_right || status != TUTTI_CORRUPT)) abort();
        free(to);
    }
    free(again.bytes);
    table_release(&table);
}

static void try_file(const unsigned char *bytes, size_t size, bool is_right)
{
    char path[32];
    struct shard shard;
    const int fd = memfd_create("shard", MFD_CLOEXEC);
    if (fd < 0) return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, bytes, size) == (ssize_t)size && shard_open(&shard, path, 0) == TUTTI_OK) {
        read_pieces(&shard, is_right);
        shard_close(&shard);
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *const file = malloc(size + 1);
    if (file == NULL) return 0;
    if (size > 0) memcpy(file, data, size);
    try_file(file, size, false);
    put_right(file, size);
    try_file(file, size, true);
    free(file);
    return 0;
}
