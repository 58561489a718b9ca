/* checkpoint_shard_test.c - files of checkpoints are read as they were written, or not at all:
 * every changed byte is found, and every length.
 *
 * ctest: label=notsan
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "checkpoint_bytes.h"
#include "checkpoint_manifest.h"
#include "checkpoint_shard.h"
#include "checkpoint_table.h"
#include "tests/kit/elements.h"
#include "tests/kit/scratch.h"

enum { DATA_BYTES = HEAD_BLOCK_BYTES + 1000 * 4 };

static char folder[SCRATCH_BYTES], path[SCRATCH_BYTES + 8];
static struct table_bytes table;
static char *data;
static struct head written;

static int set_up(void **state)
{
    (void)state;
    const struct piece one = {.name = "one",
                              .dtype = TUTTI_FLOAT32,
                              .shape = {1000, 1000},
                              .box = {2, {10, 0}, {HEAD_BLOCK_BYTES / 4 / 1024, 1000}}};
    const struct piece two = {.name = "two, and more",
                              .dtype = TUTTI_UINT8,
                              .shape = {DATA_BYTES},
                              .box = {1, {7}, {DATA_BYTES - HEAD_BLOCK_BYTES / 1024 * 1000}}};
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/shard", folder);
    data = malloc(DATA_BYTES);
    for (size_t i = 0; data != NULL && i < DATA_BYTES; i++) data[i] = (char)elements_mixed(1, i);
    written = (struct head){.rank = 2, .rank_count = 3, .id = 0x0123456789abcdef, .step = 400};
    if (data == NULL || table_print(&one, &table) != TUTTI_OK ||
        table_print(&two, &table) != TUTTI_OK)
        return 1;
    written.table_bytes = table.size;
    written.data_bytes = DATA_BYTES;
    return shard_write(path, 2, &written, table.bytes, data) == TUTTI_OK ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(folder);
    free(data);
    free(table.bytes);
    return 0;
}

static void change(off_t at, unsigned char with)
{
    unsigned char byte;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= with;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static enum tutti_status open_and_close(void)
{
    struct shard shard;
    const enum tutti_status status = shard_open(&shard, path, 5);
    if (status == TUTTI_OK) shard_close(&shard);
    return status;
}

static void what_was_written_is_read(void **state)
{
    (void)state;
    struct shard shard;
    struct table parsed;
    char *const got = malloc(DATA_BYTES);
    assert_non_null(got);
    assert_int_equal(shard_open(&shard, path, 5), TUTTI_OK);
    assert_memory_equal(&shard.head, &written, sizeof written);
    assert_memory_equal(shard.table, table.bytes, table.size);
    assert_int_equal(shard_read(&shard, 0, got, DATA_BYTES), TUTTI_OK);
    assert_memory_equal(got, data, DATA_BYTES);
    assert_int_equal(shard_read(&shard, HEAD_BLOCK_BYTES - 3, got, 7), TUTTI_OK);
    assert_memory_equal(got, data + HEAD_BLOCK_BYTES - 3, 7);
    assert_int_equal(table_parse(shard.table, table.size, &parsed), TUTTI_OK);
    assert_int_equal(parsed.count, 2);
    assert_int_equal(parsed.data_bytes, DATA_BYTES);
    assert_string_equal(parsed.pieces[1].name, "two, and more");
    assert_int_equal(parsed.pieces[1].offset, HEAD_BLOCK_BYTES / 4 / 1024 * 1000 * 4);
    table_release(&parsed);
    shard_close(&shard);
    free(got);
}

static void every_byte_in_front_of_the_data_counts(void **state)
{
    (void)state;
    const size_t front = (size_t)head_data_offset(&written); /* zeros at its end */
    for (size_t at = 0; at < front; at++) {
        change((off_t)at, (unsigned char)(1 << at % 8));
        const enum tutti_status status = open_and_close();
        const bool is_version = at >= 8 && at < 12;
        if (status != TUTTI_CORRUPT && !(is_version && status == TUTTI_UNSUPPORTED))
            fail_msg("byte %zu: %s", at, tutti_status_name(status));
        assert_non_null(strstr(tutti_error_message(), "rank 5: "));
        assert_non_null(strstr(tutti_error_message(), path));
        change((off_t)at, (unsigned char)(1 << at % 8));
    }
    assert_int_equal(open_and_close(), TUTTI_OK);
}

static void data_is_compared_when_it_is_read(void **state)
{
    (void)state;
    struct shard shard;
    char got[16];
    change((off_t)head_data_offset(&written) + HEAD_BLOCK_BYTES + 5, 64);
    assert_int_equal(shard_open(&shard, path, 5), TUTTI_OK);
    assert_int_equal(shard_read(&shard, 0, got, sizeof got), TUTTI_OK);
    assert_int_equal(shard_read(&shard, HEAD_BLOCK_BYTES + 100, got, sizeof got), TUTTI_CORRUPT);
    assert_non_null(strstr(tutti_error_message(), "its data is damaged"));
    shard_close(&shard);
    change((off_t)head_data_offset(&written) + HEAD_BLOCK_BYTES + 5, 64);
}

static void other_lengths_are_refused(void **state)
{
    (void)state;
    const off_t all = (off_t)head_file_bytes(&written);
    const off_t lengths[] = {0, 1, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 10, all - 1, all + 1};
    char kept[SCRATCH_BYTES + 8];
    snprintf(kept, sizeof kept, "%s/kept", folder);
    assert_int_equal(rename(path, kept), 0);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct head head = written;
        assert_int_equal(shard_write(path, 2, &head, table.bytes, data), TUTTI_OK);
        assert_int_equal(truncate(path, lengths[i]), 0);
        assert_int_equal(open_and_close(), TUTTI_CORRUPT);
        unlink(path);
    }
    assert_int_equal(rename(kept, path), 0);
}

/* With a checksum that fits, so that they are looked at. */
static void heads_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    const struct {
        size_t at, size;
        uint64_t value;
        enum tutti_status status;
    } changes[] = {{8, 4, 2, TUTTI_UNSUPPORTED},
                   {8, 4, 0, TUTTI_CORRUPT},
                   {12, 4, 3, TUTTI_CORRUPT},
                   {16, 4, 0, TUTTI_CORRUPT},
                   {20, 4, 4096, TUTTI_CORRUPT},
                   {40, 8, UINT64_MAX, TUTTI_CORRUPT},
                   {48, 8, UINT64_MAX - 5, TUTTI_CORRUPT}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        unsigned char bytes[HEAD_BYTES];
        struct head head = written;
        head_print(&head, bytes);
        bytes_put(bytes + changes[i].at, changes[i].size, changes[i].value);
        bytes_put(bytes + HEAD_BYTES - 4, 4, crc32c(0, bytes, HEAD_BYTES - 4));
        assert_int_equal(head_parse(bytes, &head), changes[i].status);
    }
}

static void tables_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct table parsed;
    unsigned char *const bytes = malloc(table.size);
    assert_non_null(bytes);
    for (size_t size = 1; size < table.size; size++) { /* in the middle of a piece */
        const enum tutti_status status = table_parse(table.bytes, size, &parsed);
        if (status == TUTTI_OK) table_release(&parsed);
        assert_int_equal(status == TUTTI_OK, size == 4 + 48 + 3);
    }
    /* name_bytes, dtype, dims, a shape, where the box begins, its extent, the name */
    const size_t places[] = {0, 1, 2, 3, 4 + 7, 4 + 16 + 7, 4 + 32 + 7, 4 + 48};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        memcpy(bytes, table.bytes, table.size);
        bytes[places[i]] = i == 7 ? '\n' : 0xff;
        assert_int_equal(table_parse(bytes, table.size, &parsed), TUTTI_CORRUPT);
    }
    free(bytes);
}

static void manifests_are_read_as_they_were_written_or_not_at_all(void **state)
{
    (void)state;
    struct manifest_shard shards[2] = {{1049344, 0x0a1b2c3d}, {524992, 0}};
    const struct manifest manifest = {1200, 0x0f1e2d3c4b5a6978, shards, 2};
    struct manifest parsed;
    char *const text = manifest_print(&manifest);
    assert_non_null(text);
    const size_t size = strlen(text);
    assert_int_equal(manifest_parse(text, size, &parsed), TUTTI_OK);
    assert_int_equal(parsed.step, 1200);
    assert_int_equal(parsed.id, manifest.id);
    assert_int_equal(parsed.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(parsed.shards[i].bytes, shards[i].bytes);
        assert_int_equal(parsed.shards[i].sum, shards[i].sum);
    }
    manifest_release(&parsed);
    for (size_t i = 0; i < size; i++) {
        assert_int_not_equal(manifest_parse(text, i, &parsed), TUTTI_OK);
        text[i] ^= 1;
        assert_int_not_equal(manifest_parse(text, size, &parsed), TUTTI_OK);
        text[i] ^= 1;
    }
    text[strlen("tutti checkpoint ")] = '2';
    assert_int_equal(manifest_parse(text, size, &parsed), TUTTI_UNSUPPORTED);
    assert_non_null(strstr(tutti_error_message(), "form 2, this one reads 1"));
    const char absurd[] = "tutti checkpoint 1\nstep 1\nid 0000000000000001\nshards 99999\n";
    assert_int_equal(manifest_parse(absurd, sizeof absurd - 1, &parsed), TUTTI_CORRUPT);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(every_byte_in_front_of_the_data_counts),
        cmocka_unit_test(data_is_compared_when_it_is_read),
        cmocka_unit_test(other_lengths_are_refused),
        cmocka_unit_test(heads_that_make_no_sense_are_refused),
        cmocka_unit_test(tables_that_make_no_sense_are_refused),
        cmocka_unit_test(manifests_are_read_as_they_were_written_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
