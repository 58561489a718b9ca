/* server_message_test.c - the messages from which fuzzing starts: one of each kind at least, and each is taken.
 * The files in tests/corpus/server_server_message are what this test makes; after a change of the messages
 *
 *     server_message_test --write tests/corpus/server_server_message
 *
 * writes them again. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "membership/rank_set.h"
#include "server/server_message_seeds.h"

enum { PARTS = 2, SEED_BYTES_MAX = 1 + 1024 };

/* A request, with what all requests have left out. */
struct seed {
    const char *name;
    int seat;
    struct server_request request;
    struct server_request_part parts[PARTS];
    size_t inline_bytes; /* of its payload: zeros, which are rows and values as well */
};

static const struct seed seeds[] = {
    {"push", 0, {.kind = SERVER_PUSH, .part_count = 2}, {{0, 0, 1667}, {2, 1, 4}}, 0},
    {"push_inline", 1, {.kind = SERVER_PUSH, .part_count = 1}, {{1, 0, 3}}, 16},
    {"push_encoded",
     0,
     {.kind = SERVER_PUSH, .part_count = 1, .encoding = TUTTI_ENCODING_BFLOAT16},
     {{0, 0, 1667}},
     0},
    {"set", 0, {.kind = SERVER_SET, .part_count = 1}, {{2, 1, 1}}, 40},
    {"pull", 1, {.kind = SERVER_PULL, .clock = 3, .part_count = 2}, {{2, 1, 3}, {1, 0, 3}}, 24},
    {"tick", 2, {.kind = SERVER_TICK, .clock = 7, .timeout_ns = 1000000000, .slot = 9}, {{0}}, 0},
    {"record", 0, {.kind = SERVER_RECORD, .number = 12}, {{0}}, 0},
    {"leave", 1, {.kind = SERVER_LEAVE}, {{0}}, 0},
    {"enter", 1, {.kind = SERVER_ENTER}, {{0}}, 0},
    {"change", 0, {.kind = SERVER_CHANGE, .clock = 1, .number = 3, .left_count = 5}, {{0}}, 0},
    {"change_heard", 2, {.kind = SERVER_CHANGE, .clock = 1, .number = 3}, {{0}}, 0},
    {"has", 0, {.kind = SERVER_HAS, .clock = 2, .number = 5}, {{0}}, 0},
    {"lost", 1, {.kind = SERVER_LOST, .sequence = 4, .number = 69, .left_count = 68}, {{0}}, 0},
    {"left", 1, {.kind = SERVER_LEFT, .sequence = 4, .number = 6, .left_count = 68}, {{0}}, 0},
    {"linked", 0, {.kind = SERVER_LINKED, .number = 69}, {{0}}, 0},
    {"came",
     1,
     {.kind = SERVER_CAME, .sequence = 4, .clock = 1, .number = 69, .left_count = 7},
     {{0}},
     0},
    {"decided", 1, {.kind = SERVER_DECIDED, .sequence = 9, .number = 5, .left_count = 70}, {{0}}, 16},
    {"changed",
     0,
     {.kind = SERVER_CHANGED, .sequence = 10, .clock = 2, .number = 1, .left_count = 70},
     {{0}},
     0},
    {"kept", 0, {.kind = SERVER_KEPT, .clock = 2, .number = 1, .left_count = 69}, {{0}}, 0},
    {"confirm", 0, {.kind = SERVER_CONFIRM, .sequence = 10, .clock = 2}, {{0}}, 0},
    {"resume", 0, {.kind = SERVER_RESUME, .sequence = 10}, {{0}}, 0},
    {"gone", 2, {.kind = SERVER_GONE, .number = 1, .left_count = 1}, {{0}}, 0},
    {"over", 0, {.kind = SERVER_OVER}, {{0}}, 0},
    {"begin", 1, {.kind = SERVER_BEGIN, .clock = 4}, {{0}}, 0},
    {"begun", 0, {.kind = SERVER_BEGUN, .clock = 4, .number = 3}, {{0}}, 0},
    {"filled", 0, {.kind = SERVER_FILLED}, {{0}}, 0},
    {"invited", 1, {.kind = SERVER_INVITED, .sequence = 5, .number = 2, .left_count = 1}, {{0}}, 0},
    {"joined", 1, {.kind = SERVER_JOINED, .sequence = 6, .number = 2, .left_count = 1}, {{0}}, 0},
    {"full", 1, {.kind = SERVER_FULL, .sequence = 7, .number = 2, .left_count = 1}, {{0}}, 0},
    {"out", 1, {.kind = SERVER_OUT, .sequence = 8, .number = 2, .left_count = 1}, {{0}}, 0},
    {"base", 1, {.kind = SERVER_BASE}, {{0}}, 0},
    {"piece", 1, {.kind = SERVER_PIECE, .sequence = 7, .number = 1, .payload_bytes = 24}, {{0}}, 24},
};
enum { SEEDS = sizeof seeds / sizeof *seeds };

static uint64_t payload_of(const struct seed *seed, const struct server_request *request)
{
    uint64_t bytes = 0;
    if (request->kind == SERVER_DECIDED) return rank_set_words(SEED_WORKERS) * sizeof(uint64_t);
    if (request->kind == SERVER_BASE) return server_base_bytes(&seed_division);
    if (request->kind == SERVER_PIECE) return request->payload_bytes;
    for (uint32_t i = 0; i < request->part_count; i++) {
        size_t rows, values;
        if (!server_part_bytes(&seed_division, request, &seed->parts[i], &rows, &values)) return 0;
        bytes += rows + values;
    }
    return bytes;
}

static size_t make_request(const struct seed *seed, uint8_t bytes[SEED_BYTES_MAX])
{
    struct server_request request = seed->request;
    const bool is_from_server = request.kind >= SERVER_HAS;
    request.magic = SERVER_MAGIC;
    request.version = SERVER_VERSION;
    if (!is_from_server) request.sequence = 1;
    request.payload_bytes = payload_of(seed, &request);
    const size_t parts = request.part_count * sizeof *seed->parts;
    memset(bytes, 0, SEED_BYTES_MAX);
    bytes[0] = (uint8_t)(seed->seat + is_from_server * SEED_SERVERS);
    memcpy(bytes + 1, &request, sizeof request);
    memcpy(bytes + 1 + sizeof request, seed->parts, parts);
    return 1 + sizeof request + parts + seed->inline_bytes;
}

static size_t make_reply(uint8_t bytes[SEED_BYTES_MAX])
{
    const struct server_reply reply = {.magic = SERVER_MAGIC,
                                       .version = SERVER_VERSION,
                                       .status = TUTTI_TIMEOUT,
                                       .clock = 1,
                                       .step = 1,
                                       .text = "the clock waits for rank 3"};
    bytes[0] = 0;
    memcpy(bytes + 1, &reply, sizeof reply);
    return 1 + sizeof reply;
}

/* The seed of that index; the last one is the reply. */
static size_t make_seed(int i, uint8_t bytes[SEED_BYTES_MAX], const char **name)
{
    *name = i < SEEDS ? seeds[i].name : "reply";
    return i < SEEDS ? make_request(&seeds[i], bytes) : make_reply(bytes);
}

static void each_kind_has_a_seed_that_is_taken(void **state)
{
    static struct server_request_part parts[TUTTI_SERVER_PARTS];
    bool is_taken[SERVER_KIND_END] = {false};
    uint8_t bytes[SEED_BYTES_MAX];
    (void)state;
    for (int i = 0; i < SEEDS; i++) {
        struct server_request request;
        const size_t size = make_request(&seeds[i], bytes);
        const struct server_ends ends = seed_ends(bytes[0]);
        const enum tutti_status status =
            server_request_read(&ends, bytes + 1, size - 1, &request, parts);
        if (status != TUTTI_OK) fail_msg("%s: %s", seeds[i].name, tutti_error_message());
        is_taken[request.kind] = true;
    }
    for (int kind = SERVER_PUSH; kind < SERVER_KIND_END; kind++)
        if (!is_taken[kind]) fail_msg("no seed is of kind %d", kind);
}

static void a_reply_with_a_reason_is_read(void **state)
{
    uint8_t bytes[SEED_BYTES_MAX];
    struct server_reply reply;
    (void)state;
    assert_int_equal(make_reply(bytes), 1 + sizeof reply);
    memcpy(&reply, bytes + 1, sizeof reply);
    assert_int_equal(server_reply_read(&reply, sizeof reply, 64), TUTTI_TIMEOUT);
    assert_string_equal(tutti_error_message(), "the clock waits for rank 3");
}

static size_t read_file(const char *folder, const char *name, uint8_t bytes[SEED_BYTES_MAX])
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *const file = fopen(path, "rb");
    if (file == NULL) fail_msg("%s is not there", path);
    const size_t size = fread(bytes, 1, SEED_BYTES_MAX, file);
    fclose(file);
    return size;
}

static int count_files(const char *folder)
{
    int count = 0;
    DIR *const all = opendir(folder);
    assert_non_null(all);
    for (const struct dirent *entry; (entry = readdir(all)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(all);
    return count;
}

static void files_of_the_corpus_are_these_seeds(void **state)
{
    const char *const root = getenv("TUTTI_ROOT");
    char folder[3000];
    (void)state;
    if (root == NULL) skip();
    snprintf(folder, sizeof folder, "%s/tests/corpus/server_server_message", root);
    for (int i = 0; i <= SEEDS; i++) {
        uint8_t made[SEED_BYTES_MAX], found[SEED_BYTES_MAX];
        const char *name;
        const size_t size = make_seed(i, made, &name);
        if (read_file(folder, name, found) != size || memcmp(made, found, size) != 0)
            fail_msg("%s is not the seed: write it with --write %s", name, folder);
    }
    assert_int_equal(count_files(folder), SEEDS + 1);
}

static int write_all(const char *folder)
{
    for (int i = 0; i <= SEEDS; i++) {
        uint8_t bytes[SEED_BYTES_MAX];
        char path[4096];
        const char *name;
        const size_t size = make_seed(i, bytes, &name);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        FILE *const file = fopen(path, "wb");
        const bool is_written = file != NULL && fwrite(bytes, 1, size, file) == size;
        if ((file != NULL && fclose(file) != 0) || !is_written) return perror(path), 1;
    }
    return 0;
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_has_a_seed_that_is_taken),
        cmocka_unit_test(a_reply_with_a_reason_is_read),
        cmocka_unit_test(files_of_the_corpus_are_these_seeds),
    };
    if (argument_count == 3 && strcmp(arguments[1], "--write") == 0) return write_all(arguments[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
