/* Messages that go encoded: every form, size and encoding gives the receiver what one encoding leaves
 * of the elements, and the sender keeps its own; a receive that does not agree is told who sent what,
 * and lives on; what cannot be encoded is refused by name; and nothing is encoded unasked.
 *
 * ctest: timeout=180
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/worlds/dumped.h"
#include "tests/worlds/ranks.h"
#include "tutti/encode.h"
#include "tutti/tutti.h"

enum { COUNT_MAX = 70001, TAG = 3 };

static const struct tutti_call_options no_options = TUTTI_CALL_OPTIONS_INIT;

static float value_of(int rank, size_t i)
{
    return (float)((i * 2654435761u + (size_t)rank * 40503u) % 100003) / 100003.0f - 0.5f;
}

/* Of one rank: its elements, what it got, and what it should have got. */
struct memory {
    float sent[COUNT_MAX], received[COUNT_MAX + 1], expected[COUNT_MAX];
    unsigned char encoded[COUNT_MAX * sizeof(float) + 256];
};

static struct memory *memory_make(int rank)
{
    struct memory *const memory = calloc(1, sizeof *memory);
    for (size_t i = 0; memory != NULL && i < COUNT_MAX; i++) memory->sent[i] = value_of(rank, i);
    return memory;
}

static bool is_as_sent(struct memory *memory, int source, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (memory->received[i] != value_of(source, i)) return false;
    return true;
}

static bool is_rounded(struct memory *memory, enum tutti_encoding encoding, int source, size_t count)
{
    for (size_t i = 0; i < count; i++) memory->expected[i] = value_of(source, i);
    return tutti_encode(encoding, TUTTI_FLOAT32, memory->expected, count, memory->encoded) ==
               TUTTI_OK &&
           tutti_decode(encoding, TUTTI_FLOAT32, memory->encoded, count, memory->expected) ==
               TUTTI_OK &&
           memcmp(memory->received, memory->expected, count * sizeof(float)) == 0 &&
           memory->received[count] == -7;
}

/* -------------------------------------------------------------------------------------- all forms */

enum form { BLOCKING, STARTED, GROUPED, PREPARED, FORM_COUNT };

/* Sends to the next rank, and receives from the one before; maybe from any. */
static enum tutti_status pass_on(enum form form, const struct memory *memory, float *received,
                                 size_t count, const struct tutti_call_options *options, bool any,
                                 struct tutti_comm *comm)
{
    const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
    const int to = (rank + 1) % size, from = any ? TUTTI_ANY_RANK : (rank + size - 1) % size;
    struct tutti_request *requests[2] = {NULL, NULL};
    struct tutti_prepared *prepared[2] = {NULL, NULL};
    enum tutti_status status = TUTTI_OK;
    switch (form) {
    case BLOCKING: /* rank 0 receives last, so that not all wait for each other */
        if (rank == 0)
            status = tutti_send_with(memory->sent, count, TUTTI_FLOAT32, to, TAG, options, comm);
        if (status == TUTTI_OK)
            status = tutti_recv_with(received, count, TUTTI_FLOAT32, from, TAG, NULL, options, comm);
        if (status == TUTTI_OK && rank != 0)
            status = tutti_send_with(memory->sent, count, TUTTI_FLOAT32, to, TAG, options, comm);
        return status;
    case GROUPED:
        status = tutti_group_begin();
        if (status == TUTTI_OK)
            status = tutti_recv_with(received, count, TUTTI_FLOAT32, from, TAG, NULL, options, comm);
        if (status == TUTTI_OK)
            status = tutti_send_with(memory->sent, count, TUTTI_FLOAT32, to, TAG, options, comm);
        return status == TUTTI_OK ? tutti_group_end() : status;
    case STARTED:
        status = tutti_recv_start(received, count, TUTTI_FLOAT32, from, TAG, NULL, options, comm,
                                  &requests[0]);
        if (status == TUTTI_OK)
            status = tutti_send_start(memory->sent, count, TUTTI_FLOAT32, to, TAG, options, comm,
                                      &requests[1]);
        break;
    case PREPARED:
    case FORM_COUNT:
        status = tutti_recv_prepare(received, count, TUTTI_FLOAT32, from, TAG, NULL, options, comm,
                                    &prepared[0]);
        if (status == TUTTI_OK)
            status = tutti_send_prepare(memory->sent, count, TUTTI_FLOAT32, to, TAG, options, comm,
                                        &prepared[1]);
        for (int i = 0; i < 2 && status == TUTTI_OK; i++)
            status = tutti_start(prepared[i], &requests[i]);
        break;
    }
    for (int i = 0; i < 2 && status == TUTTI_OK; i++) status = tutti_wait(&requests[i]);
    for (int i = 0; i < 2 && status == TUTTI_OK && prepared[i] != NULL; i++)
        status = tutti_prepared_free(prepared[i]);
    return status;
}

static int forms(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static const size_t counts[] = {0, 1, 129, 3000, COUNT_MAX};
    (void)seed, (void)context;
    struct memory *const memory = memory_make(rank);
    RANKS_EXPECT(memory != NULL);
    for (int e = TUTTI_ENCODING_FLOAT16; e <= TUTTI_ENCODING_MXFP4; e++) {
        const enum tutti_encoding encoding = (enum tutti_encoding)e;
        char wish[64];
        struct tutti_call_options options = no_options;
        snprintf(wish, sizeof wish, "%s/everywhere/required", tutti_encoding_name(encoding));
        options.encoding = wish;
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            const enum form form = (enum form)((c + (size_t)e) % FORM_COUNT);
            memory->received[counts[c]] = -7;
            RANKS_EXPECT(pass_on(form, memory, memory->received, counts[c], &options, c % 2 == 1,
                                 comm) == TUTTI_OK);
            RANKS_EXPECT(is_rounded(memory, encoding, (rank + size - 1) % size, counts[c]));
            for (size_t i = 0; i < counts[c]; i++)
                RANKS_EXPECT(memory->sent[i] == value_of(rank, i));
            RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK); /* any rank is the one before */
        }
    }
    free(memory);
    return 0;
}

static void every_form_and_size_arrives_rounded_once(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++) assert_int_equal(ranks_run(size, NULL, forms, NULL), 0);
}

/* ------------------------------------------------------------------------------ what is not normal */

static int strange(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    static const char *const wishes[] = {"bfloat16/everywhere/required",
                                         "fp8_e4m3/everywhere/required", "int8/everywhere/required",
                                         "mxfp4/everywhere/required"};
    const float sent[] = {NAN, INFINITY, -INFINITY, 3e38f, -0.0f, 1e-45f, 449, 1};
    float received[8], expected[8];
    unsigned char encoded[256];
    for (int w = 0; w < 4; w++) {
        enum tutti_encoding encoding;
        char name[32];
        struct tutti_call_options options = no_options;
        options.encoding = wishes[w];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(wishes[w], "/"), wishes[w]);
        RANKS_EXPECT(tutti_encoding_find(name, &encoding) == TUTTI_OK);
        RANKS_EXPECT(tutti_encode(encoding, TUTTI_FLOAT32, sent, 8, encoded) == TUTTI_OK &&
                     tutti_decode(encoding, TUTTI_FLOAT32, encoded, 8, expected) == TUTTI_OK);
        if (rank == 0)
            RANKS_EXPECT(tutti_send_with(sent, 8, TUTTI_FLOAT32, 1, TAG, &options, comm) == TUTTI_OK);
        if (rank == 1)
            RANKS_EXPECT(tutti_recv_with(received, 8, TUTTI_FLOAT32, 0, TAG, NULL, &options,
                                         comm) == TUTTI_OK &&
                         memcmp(received, expected, sizeof expected) == 0);
    }
    /* 16-bit floats go in the encodings of a byte and less. */
    uint16_t halves[300];
    struct tutti_call_options options = no_options;
    options.encoding = "mxfp8/everywhere/required";
    for (int i = 0; i < 300; i++) halves[i] = rank == 0 ? 0x3f80 : 0; /* 1 in bfloat16 */
    if (rank == 0)
        RANKS_EXPECT(tutti_send_with(halves, 300, TUTTI_BFLOAT16, 1, TAG, &options, comm) ==
                     TUTTI_OK);
    if (rank == 1)
        RANKS_EXPECT(tutti_recv_with(halves, 300, TUTTI_BFLOAT16, 0, TAG, NULL, &options, comm) ==
                     TUTTI_OK);
    for (int i = 0; i < 300; i++) RANKS_EXPECT(halves[i] == 0x3f80);
    return 0;
}

static void numbers_that_are_not_normal_come_out_as_of_collectives(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, NULL, strange, NULL), 0);
}

/* -------------------------------------------------------------------------------------- agreement */

struct disagreement {
    const char *sends, *receives; /* NULL: no wish */
    enum tutti_dtype dtype;       /* of the receive */
    const char *says;             /* the error, with both encodings */
};

static const struct disagreement disagreements[] = {
    {"bfloat16/everywhere/required", NULL, TUTTI_FLOAT32,
     "encoded as bfloat16, and rank 1 allows no encoding of it"},
    {"bfloat16/everywhere/required", "none", TUTTI_FLOAT32, "rank 1 allows no encoding of it"},
    {"bfloat16/everywhere/required", "bfloat16/racks", TUTTI_FLOAT32,
     "rank 1 allows no encoding of it"},
    {"int8/everywhere/required", "bfloat16/everywhere", TUTTI_FLOAT32,
     "encoded as int8, and rank 1 asks for bfloat16 on all links, allowed"},
    {NULL, "int8/everywhere/required", TUTTI_FLOAT32,
     "not encoded, and rank 1 asks for int8 on all links, required"},
    {"int8/everywhere/required", NULL, TUTTI_INT32, "elements of float32"},
};

static int disagree(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static const size_t counts[] = {5, COUNT_MAX};
    (void)size, (void)seed, (void)context;
    struct memory *const memory = memory_make(rank);
    RANKS_EXPECT(memory != NULL);
    for (size_t d = 0; d < 2 * sizeof disagreements / sizeof *disagreements; d++) {
        const struct disagreement *const one = &disagreements[d / 2];
        const size_t count = counts[d % 2];
        struct tutti_call_options options = no_options;
        options.encoding = rank == 0 ? one->sends : one->receives;
        if (rank == 0)
            RANKS_EXPECT(tutti_send_with(memory->sent, count, TUTTI_FLOAT32, 1, TAG, &options,
                                         comm) == TUTTI_OK);
        if (rank == 1) {
            memset(memory->received, 0, count * sizeof(float));
            RANKS_EXPECT(tutti_recv_with(memory->received, count, one->dtype, 0, TAG, NULL,
                                         &options, comm) == TUTTI_MISMATCH);
            RANKS_EXPECT(strstr(tutti_error_message(), one->says) != NULL);
            RANKS_EXPECT(strstr(tutti_error_message(), "rank 0") != NULL);
            for (size_t i = 0; i < count; i++) RANKS_EXPECT(memory->received[i] == 0);
        }
        /* The communicator lives on. */
        memory->received[count] = -7;
        options.encoding = "bfloat16/everywhere/required";
        RANKS_EXPECT(pass_on(STARTED, memory, memory->received, count, &options, false, comm) ==
                     TUTTI_OK);
        RANKS_EXPECT(is_rounded(memory, TUTTI_ENCODING_BFLOAT16, 1 - rank, count));
    }
    free(memory);
    return 0;
}

static void a_receive_that_does_not_agree_is_told_who_sent_what(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, NULL, disagree, NULL), 0);
}

/* A wish that is not required takes the message either way, and a message to oneself goes as it is. */
static int as_they_are(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    struct memory *const memory = memory_make(rank);
    struct tutti_call_options options = no_options;
    struct tutti_request *request;
    const int before = (rank + size - 1) % size;
    RANKS_EXPECT(memory != NULL);
    RANKS_EXPECT(pass_on(STARTED, memory, memory->received, 3000, NULL, false, comm) == TUTTI_OK);
    RANKS_EXPECT(is_as_sent(memory, before, 3000));
    options.encoding = "none";
    RANKS_EXPECT(pass_on(STARTED, memory, memory->received, 3000, &options, false, comm) == TUTTI_OK);
    RANKS_EXPECT(is_as_sent(memory, before, 3000));
    options.encoding =
        "bfloat16/everywhere/allowed"; /* not within a host; over TCP the model decides */
    memory->received[COUNT_MAX] = -7;
    RANKS_EXPECT(pass_on(STARTED, memory, memory->received, COUNT_MAX, &options, false, comm) ==
                 TUTTI_OK);
    const bool is_exact = is_as_sent(memory, before, COUNT_MAX);
    const bool may_be_rounded = getenv("TUTTI_TRANSPORT") != NULL || ranks_are_on_hosts();
    RANKS_EXPECT(is_exact ||
                 (may_be_rounded && is_rounded(memory, TUTTI_ENCODING_BFLOAT16, before, COUNT_MAX)));
    options.encoding = "int8/everywhere/required";
    RANKS_EXPECT(tutti_send_start(memory->sent, 3000, TUTTI_FLOAT32, rank, TAG, &options, comm,
                                  &request) == TUTTI_OK);
    RANKS_EXPECT(tutti_recv_with(memory->received, 3000, TUTTI_FLOAT32, rank, TAG, NULL, &options,
                                 comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK && is_as_sent(memory, rank, 3000));
    free(memory);
    return 0;
}

static void messages_go_as_they_are_without_need(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(3, NULL, as_they_are, NULL), 0);
    assert_int_equal(ranks_run(1, NULL, as_they_are, NULL), 0);
}

/* ------------------------------------------------------------------------------------ links, rules */

/* Processes in turns on pretended hosts, where the test runs so. */
static int between_hosts(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    struct memory *const memory = memory_make(rank);
    struct tutti_call_options options = no_options;
    const int before = (rank + size - 1) % size;
    RANKS_EXPECT(memory != NULL);
    options.encoding = "bfloat16/hosts/required";
    memory->received[3000] = -7;
    RANKS_EXPECT(pass_on(GROUPED, memory, memory->received, 3000, &options, true, comm) == TUTTI_OK);
    const char *const hosts = getenv("TUTTI_TEST_HOSTS");
    const int host_count =
        ranks_are_on_hosts() && !ranks_are_threads() && hosts != NULL ? atoi(hosts) : 1;
    if (before % host_count != rank % host_count)
        RANKS_EXPECT(is_rounded(memory, TUTTI_ENCODING_BFLOAT16, before, 3000));
    else if (getenv("TUTTI_TRANSPORT") == NULL)
        RANKS_EXPECT(is_as_sent(memory, before, 3000));
    free(memory);
    return 0;
}

static void a_permission_for_links_between_hosts_is_for_these_alone(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(4, NULL, between_hosts, NULL), 0);
}

static bool explains(struct tutti_comm *comm, const char *call, size_t count, const char *text)
{
    char why[4096];
    return tutti_comm_explain(comm, call, count, TUTTI_FLOAT32, why, sizeof why) == TUTTI_OK &&
           strstr(why, text) != NULL;
}

static bool is_no_rank(struct tutti_comm *comm, const char *call)
{
    char why[4096];
    return tutti_comm_explain(comm, call, 1, TUTTI_FLOAT32, why, sizeof why) == TUTTI_INVALID_RANK &&
           strstr(tutti_error_message(), "of ranks 0 to 1") != NULL;
}

/* With a rule for messages of 4 KiB and more. */
static int explain(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    char other[64], own[64];
    snprintf(other, sizeof other, "send:%d", 1 - rank);
    RANKS_EXPECT(explains(comm, other, 5000,
                          "mxint8 on all links, required: elements are rounded "
                          "once\n"));
    RANKS_EXPECT(explains(comm, other, 9,
                          rank == 0 ? "send of 9 float32 from rank 0 to rank 1\n"
                                    : "send of 9 float32 from rank 1 to rank 0\n"));
    RANKS_EXPECT(explains(comm, other, 9, "not encoded: neither the call nor a rule asks for it"));
    strcat(other, "=none");
    RANKS_EXPECT(explains(comm, other, 5000, "not encoded: neither the call nor a rule asks"));
    snprintf(other, sizeof other, "send:%d=int8/racks/required", 1 - rank);
    RANKS_EXPECT(explains(comm, other, 9,
                          "not encoded (int8 on links between racks, required): the permission is "
                          "not for the link between these ranks"));
    snprintf(own, sizeof own, "send:%d=int8/everywhere/required", rank);
    RANKS_EXPECT(explains(comm, own, 5000, "the permission is not for the link"));
    if (getenv("TUTTI_TRANSPORT") == NULL && !ranks_are_on_hosts()) {
        snprintf(other, sizeof other, "send:%d=int8/everywhere", 1 - rank);
        RANKS_EXPECT(explains(comm, other, COUNT_MAX, "both ranks are on one host"));
    }
    RANKS_EXPECT(is_no_rank(comm, "send") && is_no_rank(comm, "send:2"));
    RANKS_EXPECT(is_no_rank(comm, "send:-1") && is_no_rank(comm, "send:1x"));
    RANKS_EXPECT(is_no_rank(comm, "send:") && is_no_rank(comm, "send:99999999999999999999"));
    return 0;
}

/* The recorder has the encoding of what was sent, and of what came. */
static int dump(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    struct memory *const memory = memory_make(rank);
    struct tutti_call_options options = no_options;
    RANKS_EXPECT(memory != NULL);
    RANKS_EXPECT(pass_on(BLOCKING, memory, memory->received, 100, NULL, false, comm) == TUTTI_OK);
    RANKS_EXPECT(dumped_count(comm, "\"peer\": ") == 2 && dumped_count(comm, "\"encoding\"") == 0);
    RANKS_EXPECT(pass_on(STARTED, memory, memory->received, 5000, NULL, false, comm) == TUTTI_OK);
    RANKS_EXPECT(dumped_count(comm, "\"tag\": 3, \"encoding\": \"mxint8\", \"begin_ns\"") == 2);
    options.encoding = "bfloat16/everywhere/required";
    RANKS_EXPECT(pass_on(BLOCKING, memory, memory->received, 10, &options, false, comm) == TUTTI_OK);
    RANKS_EXPECT(dumped_count(comm, "\"encoding\": \"bfloat16\"") == 2);
    free(memory);
    return 0;
}

static void with_a_rule(ranks_function *function)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.encodings = "send:4k-=mxint8/everywhere/required";
    const struct ranks_options options = {.comm_options = &comm_options};
    assert_int_equal(ranks_run(2, &options, function, NULL), 0);
}

static void what_a_message_takes_is_explained(void **state)
{
    (void)state;
    with_a_rule(explain);
}

static void the_recorder_has_the_encoding_of_messages(void **state)
{
    (void)state;
    with_a_rule(dump);
}

static int by_rules(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    struct memory *const memory = memory_make(rank);
    struct tutti_call_options options = no_options;
    const int before = (rank + size - 1) % size;
    RANKS_EXPECT(memory != NULL);
    RANKS_EXPECT(pass_on(BLOCKING, memory, memory->received, 100, NULL, false, comm) == TUTTI_OK);
    RANKS_EXPECT(is_as_sent(memory, before, 100));
    memory->received[5000] = -7;
    RANKS_EXPECT(pass_on(BLOCKING, memory, memory->received, 5000, NULL, false, comm) == TUTTI_OK);
    RANKS_EXPECT(is_rounded(memory, TUTTI_ENCODING_MXINT8, before, 5000));
    options.encoding = "none"; /* of this call, on both sides */
    RANKS_EXPECT(pass_on(BLOCKING, memory, memory->received, 5000, &options, false, comm) ==
                 TUTTI_OK);
    RANKS_EXPECT(is_as_sent(memory, before, 5000));
    /* The rule is for the size of the message, and not for the room that its receive has. */
    if (rank == 0)
        RANKS_EXPECT(tutti_send(memory->sent, 9, TUTTI_FLOAT32, 1, TAG, comm) == TUTTI_OK);
    if (rank == 1)
        RANKS_EXPECT(tutti_recv(memory->received, COUNT_MAX, TUTTI_FLOAT32, 0, TAG, NULL, comm) ==
                         TUTTI_OK &&
                     is_as_sent(memory, 0, 9));
    /* Rules leave alone what cannot be encoded. */
    double other[1000] = {1.0 + 0x1p-40};
    if (rank == 0) RANKS_EXPECT(tutti_send(other, 1000, TUTTI_FLOAT64, 1, TAG, comm) == TUTTI_OK);
    if (rank == 1)
        RANKS_EXPECT(tutti_recv(other, 1000, TUTTI_FLOAT64, 0, TAG, NULL, comm) == TUTTI_OK &&
                     other[0] == 1.0 + 0x1p-40);
    free(memory);
    return 0;
}

static void rules_for_send_are_for_messages_by_size(void **state)
{
    (void)state;
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.encodings = "allreduce=bfloat16;send:4k-=mxint8/everywhere/required";
    const struct ranks_options options = {.comm_options = &comm_options};
    assert_int_equal(ranks_run(2, &options, by_rules, NULL), 0);
}

static int refused(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    int32_t one = 1;
    float x = 1;
    struct tutti_call_options options = no_options;
    options.encoding = "bfloat16/hosts";
    RANKS_EXPECT(tutti_send_with(&one, 1, TUTTI_INT32, 0, TAG, &options, comm) == TUTTI_UNSUPPORTED);
    RANKS_EXPECT(strstr(tutti_error_message(),
                        "tutti_send: options.encoding is \"bfloat16/hosts\"") != NULL);
    RANKS_EXPECT(tutti_recv_with(&one, 1, TUTTI_INT32, 0, TAG, NULL, &options, comm) ==
                 TUTTI_UNSUPPORTED);
    RANKS_EXPECT(tutti_send_with(&x, 1, TUTTI_BFLOAT16, 0, TAG, &options, comm) == TUTTI_UNSUPPORTED);
    options.encoding = "bfloat17";
    RANKS_EXPECT(tutti_recv_with(&x, 1, TUTTI_FLOAT32, 0, TAG, NULL, &options, comm) ==
                 TUTTI_INVALID_OPTIONS);
    return 0;
}

static void what_cannot_be_encoded_is_refused(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(1, NULL, refused, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_and_size_arrives_rounded_once),
        cmocka_unit_test(numbers_that_are_not_normal_come_out_as_of_collectives),
        cmocka_unit_test(a_receive_that_does_not_agree_is_told_who_sent_what),
        cmocka_unit_test(messages_go_as_they_are_without_need),
        cmocka_unit_test(a_permission_for_links_between_hosts_is_for_these_alone),
        cmocka_unit_test(rules_for_send_are_for_messages_by_size),
        cmocka_unit_test(what_a_message_takes_is_explained),
        cmocka_unit_test(the_recorder_has_the_encoding_of_messages),
        cmocka_unit_test(what_cannot_be_encoded_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
