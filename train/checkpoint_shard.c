#include "checkpoint_shard.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/status.h"
#include "checkpoint_bytes.h"
#include "checkpoint_out.h"

static uint64_t block_size(const struct head *head, uint64_t index)
{
    const uint64_t left = head->data_bytes - index * HEAD_BLOCK_BYTES;
    return left < HEAD_BLOCK_BYTES ? left : HEAD_BLOCK_BYTES;
}

/* -------------------------------------------------------------------------------------- writing */

/* Head, table and checksums, and the zeros behind them. NULL: no memory. */
static unsigned char *make_front(struct head *head, const unsigned char *table, const char *data)
{
    unsigned char *const front = calloc((size_t)head_data_offset(head), 1);
    if (front == NULL) return NULL;
    unsigned char *const sums = front + HEAD_BYTES + head->table_bytes;
    const size_t sums_bytes = (size_t)(4 * head_blocks(head));
    if (head->table_bytes > 0) memcpy(front + HEAD_BYTES, table, (size_t)head->table_bytes);
    for (uint64_t i = 0; i < head_blocks(head); i++)
        bytes_put(sums + 4 * i, 4,
                  crc32c(0, data + i * HEAD_BLOCK_BYTES, (size_t)block_size(head, i)));
    head->rest_sum = crc32c(0, front + HEAD_BYTES, (size_t)head->table_bytes + sums_bytes);
    head_print(head, front);
    return front;
}

enum tutti_status shard_write(const char *path, int rank, struct head *head,
                              const unsigned char *table, const char *data)
{
    unsigned char *const front = make_front(head, table, data);
    if (front == NULL) return error_set(TUTTI_NO_MEMORY, "rank %d: out of memory", rank);
    const struct out_part parts[2] = {{front, (size_t)head_data_offset(head)},
                                      {data, (size_t)head->data_bytes}};
    const bool is_written = out_write(path, parts, 2);
    const int error = errno;
    free(front);
    errno = error;
    return is_written ? TUTTI_OK : error_system("rank %d: writing %.400s", rank, path);
}

/* -------------------------------------------------------------------------------------- reading */

static enum tutti_status damaged(const struct shard *shard, enum tutti_status status,
                                 const char *why)
{
    return error_set(status, "rank %d: %.400s: %s", shard->rank, shard->path, why);
}

static enum tutti_status read_all(const struct shard *shard, uint64_t offset, void *to, size_t bytes)
{
    for (char *at = to; bytes > 0;) {
        const ssize_t got = pread(shard->fd, at, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return error_system("rank %d: reading %.400s", shard->rank, shard->path);
        if (got == 0) return damaged(shard, TUTTI_CORRUPT, "it is cut off");
        at += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return TUTTI_OK;
}

static enum tutti_status read_front(struct shard *shard)
{
    unsigned char head[HEAD_BYTES];
    struct stat about;
    TRY(read_all(shard, 0, head, sizeof head));
    const enum tutti_status parsed = head_parse(head, &shard->head);
    if (parsed != TUTTI_OK) {
        char why[ERROR_TEXT_MAX];
        error_copy(why, sizeof why);
        return damaged(shard, parsed, why);
    }
    if (fstat(shard->fd, &about) != 0)
        return error_system("rank %d: reading %.400s", shard->rank, shard->path);
    if ((uint64_t)about.st_size != head_file_bytes(&shard->head))
        return error_set(TUTTI_CORRUPT, "rank %d: %.400s: it has %lld bytes, of %llu", shard->rank,
                         shard->path, (long long)about.st_size,
                         (unsigned long long)head_file_bytes(&shard->head));
    const size_t bytes = (size_t)(shard->head.table_bytes + 4 * head_blocks(&shard->head));
    const size_t front = (size_t)head_data_offset(&shard->head) - HEAD_BYTES;
    shard->table = malloc(front + 1);
    shard->block = malloc(HEAD_BLOCK_BYTES);
    if (shard->table == NULL || shard->block == NULL)
        return damaged(shard, TUTTI_NO_MEMORY, "out of memory");
    TRY(read_all(shard, HEAD_BYTES, shard->table, front));
    bool is_good = crc32c(0, shard->table, bytes) == shard->head.rest_sum;
    for (size_t i = bytes; i < front; i++) is_good = is_good && shard->table[i] == 0;
    if (!is_good) return damaged(shard, TUTTI_CORRUPT, "its table is damaged");
    return TUTTI_OK;
}

enum tutti_status shard_open(struct shard *shard, const char *path, int rank)
{
    *shard = (struct shard){.path = path, .rank = rank, .block_index = UINT64_MAX};
    shard->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe has no end to wait for */
    if (shard->fd < 0) return error_system("rank %d: reading %.400s", rank, path);
    const enum tutti_status status = read_front(shard);
    if (status != TUTTI_OK) shard_close(shard);
    return status;
}

static enum tutti_status read_block(struct shard *shard, uint64_t index)
{
    const struct head *const head = &shard->head;
    const size_t bytes = (size_t)block_size(head, index);
    if (shard->block_index == index) return TUTTI_OK;
    shard->block_index = UINT64_MAX;
    TRY(read_all(shard, head_data_offset(head) + index * HEAD_BLOCK_BYTES, shard->block, bytes));
    if (crc32c(0, shard->block, bytes) != bytes_get(shard->table + head->table_bytes + 4 * index, 4))
        return damaged(shard, TUTTI_CORRUPT, "its data is damaged");
    shard->block_index = index;
    return TUTTI_OK;
}

enum tutti_status shard_read(struct shard *shard, uint64_t offset, void *to, size_t bytes)
{
    assert(offset <= shard->head.data_bytes && bytes <= shard->head.data_bytes - offset);
    for (char *at = to; bytes > 0;) {
        const size_t inside = (size_t)(offset % HEAD_BLOCK_BYTES);
        const size_t left = HEAD_BLOCK_BYTES - inside, now = bytes < left ? bytes : left;
        TRY(read_block(shard, offset / HEAD_BLOCK_BYTES));
        memcpy(at, shard->block + inside, now);
        at += now;
        offset += now;
        bytes -= now;
    }
    return TUTTI_OK;
}

void shard_close(struct shard *shard)
{
    if (shard->fd >= 0) close(shard->fd);
    free(shard->table);
    free(shard->block);
    *shard = (struct shard){.fd = -1};
}
