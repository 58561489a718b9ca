/* run_message_test.c - what tutti-run tells the other hosts arrives whole or is refused, and every
 * rank has one place on one host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/run/hosts.c"
#include "tools/run/message.c"

#define TOKEN "0123456789abcdef0123456789abcdef"

static struct message example(void)
{
    static int ranks[] = {1, 4, 65535};
    static char *arguments[] = {"./train", "", "a b'c\n", NULL};
    static char *environment[] = {"TUTTI_SECRET=s", "EMPTY=", NULL};
    return (struct message){.options = {.size = 65536,
                                        .rank_count = 3,
                                        .ranks = ranks,
                                        .node_index = 1,
                                        .node_count = 3,
                                        .host = "node2",
                                        .token = TOKEN,
                                        .prefix = true,
                                        .colours = {false, true},
                                        .output_folder = "",
                                        .grace_ns = 1234567890123,
                                        .master_address = "node1",
                                        .master_port = 23456,
                                        .job_id = "j",
                                        .arguments = arguments},
                            .folder = "/some/where",
                            .environment = environment};
}

static unsigned char *write_example(size_t *size)
{
    const struct message message = example();
    unsigned char *bytes;
    const char *wrong;
    assert_true(message_write(&message, &bytes, size));
    assert_int_equal(message_body_size(bytes, &wrong), *size - MESSAGE_HEAD_BYTES);
    assert_null(wrong);
    return bytes;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    size_t size;
    unsigned char *bytes = write_example(&size);
    struct message read;
    assert_null(message_read(bytes + MESSAGE_HEAD_BYTES, size - MESSAGE_HEAD_BYTES, &read));
    const struct run_options *options = &read.options;
    assert_int_equal(options->size, 65536);
    assert_int_equal(options->rank_count, 3);
    assert_int_equal(options->ranks[0], 1);
    assert_int_equal(options->ranks[2], 65535);
    assert_int_equal(options->node_index, 1);
    assert_int_equal(options->node_count, 3);
    assert_true(options->prefix && !options->pin);
    assert_true(!options->colours[0] && options->colours[1]);
    assert_int_equal(options->grace_ns, 1234567890123);
    assert_int_equal(options->master_port, 23456);
    assert_string_equal(options->host, "node2");
    assert_string_equal(options->token, TOKEN);
    assert_string_equal(options->master_address, "node1");
    assert_string_equal(options->arguments[1], "");
    assert_string_equal(options->arguments[2], "a b'c\n");
    assert_null(options->arguments[3]);
    assert_string_equal(read.folder, "/some/where");
    assert_string_equal(read.environment[1], "EMPTY=");
    assert_null(read.environment[2]);
    message_release(&read);
    free(bytes);
}

static void what_is_cut_off_is_refused(void **state)
{
    (void)state;
    size_t size;
    unsigned char *bytes = write_example(&size);
    const size_t body_bytes = size - MESSAGE_HEAD_BYTES;
    struct message read;
    for (size_t part = 0; part < body_bytes; part++) {
        unsigned char *copy = malloc(part + 1); /* a block of its own, for the address sanitizer */
        assert_non_null(copy);
        memcpy(copy, bytes + MESSAGE_HEAD_BYTES, part);
        assert_non_null(message_read(copy, part, &read));
        free(copy);
    }
    unsigned char *longer = calloc(1, body_bytes + 1);
    assert_non_null(longer);
    memcpy(longer, bytes + MESSAGE_HEAD_BYTES, body_bytes);
    assert_string_equal(message_read(longer, body_bytes + 1, &read), "something is left over");
    free(longer);
    free(bytes);
}

static void expect_wrong(const struct message *message, const char *expected)
{
    unsigned char *bytes;
    size_t size;
    struct message read;
    assert_true(message_write(message, &bytes, &size));
    const char *wrong = message_read(bytes + MESSAGE_HEAD_BYTES, size - MESSAGE_HEAD_BYTES, &read);
    assert_non_null(wrong);
    assert_string_equal(wrong, expected);
    free(bytes);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    struct message message = example();
    message.options.ranks = (int[]){1, 1, 2};
    expect_wrong(&message, "a rank is wrong");
    message.options.ranks = (int[]){1, 2, 65536};
    expect_wrong(&message, "a rank is wrong");
    message = example();
    message.options.size = 65537;
    expect_wrong(&message, "the size is wrong");
    message = example();
    message.options.rank_count = 0;
    expect_wrong(&message, "the number of ranks is wrong");
    message = example();
    message.options.node_count = 1;
    expect_wrong(&message, "the number of hosts is wrong");
    message = example();
    message.options.master_port = 65536;
    expect_wrong(&message, "the port is wrong");
    message = example();
    message.options.token = "0123";
    expect_wrong(&message, "the token is wrong");
    message = example();
    message.options.arguments = (char *[]){NULL};
    expect_wrong(&message, "no program");
    message = example();
    message.environment = (char *[]){"=x", NULL};
    expect_wrong(&message, "a variable has no name");
    message.environment = (char *[]){"x", NULL};
    expect_wrong(&message, "a variable has no name");
    message = example();
    message.folder = "here";
    expect_wrong(&message, "no folder to work in");
}

static void heads_of_others_are_refused(void **state)
{
    (void)state;
    size_t size;
    unsigned char *bytes = write_example(&size);
    const char *wrong;
    bytes[8]++;
    assert_int_equal(message_body_size(bytes, &wrong), 0);
    assert_string_equal(wrong, "it is of another version of tutti-run");
    bytes[8]--;
    bytes[15] = 0x7f;
    assert_int_equal(message_body_size(bytes, &wrong), 0);
    assert_string_equal(wrong, "it is too long");
    bytes[0] = 't';
    assert_int_equal(message_body_size(bytes, &wrong), 0);
    assert_string_equal(wrong, "it is none of tutti-run's");
    free(bytes);
}

static void a_message_is_bounded(void **state)
{
    (void)state;
    struct message message = example();
    char *text = malloc(MESSAGE_BYTES_MAX);
    assert_non_null(text);
    memset(text, 'x', MESSAGE_BYTES_MAX - 1);
    text[MESSAGE_BYTES_MAX - 1] = '\0';
    message.options.arguments = (char *[]){text, NULL};
    unsigned char *bytes;
    size_t size;
    assert_false(message_write(&message, &bytes, &size));
    free(text);
}

static bool is_report(const char *line)
{
    enum report_kind kind;
    int code;
    return report_read(TOKEN, line, strlen(line), &kind, &code);
}

static void only_who_knows_the_token_reports(void **state)
{
    (void)state;
    char text[100];
    enum report_kind kind;
    int code;
    report_write(TOKEN, REPORT_FAILED, 139, text, sizeof text);
    assert_true(report_read(TOKEN, text, strlen(text), &kind, &code));
    assert_int_equal(kind, REPORT_FAILED);
    assert_int_equal(code, 139);
    assert_true(is_report("tutti-run:" TOKEN ":done 0\n"));
    assert_false(is_report("tutti-run:" TOKEN ":done 0 \n"));
    assert_false(is_report("tutti-run:" TOKEN ":done 00"));
    assert_false(is_report("tutti-run:" TOKEN ":done 256"));
    assert_true(is_report("tutti-run:" TOKEN ":alive 65536"));
    assert_false(is_report("tutti-run:" TOKEN ":members 65537"));
    assert_false(is_report("tutti-run:" TOKEN ":done -1"));
    assert_false(is_report("tutti-run:" TOKEN ":done"));
    assert_false(is_report("[0] tutti-run:" TOKEN ":done 0"));
    assert_false(is_report("tutti-run:1123456789abcdef0123456789abcdef:done 0"));
    assert_false(is_report(""));
}

static void an_address_is_reported_whole(void **state)
{
    (void)state;
    unsigned char address[ADDRESS_BYTES], read[ADDRESS_BYTES];
    char text[ADDRESS_REPORT_BYTES];
    for (int i = 0; i < ADDRESS_BYTES; i++) address[i] = (unsigned char)(i * 37 + 1);
    address_report_write(TOKEN, address, text);
    assert_true(address_report_read(TOKEN, text, strlen(text), read));
    assert_memory_equal(read, address, ADDRESS_BYTES);
    assert_false(is_report(text));
    assert_false(address_report_read("1123456789abcdef0123456789abcdef", text, strlen(text), read));
    assert_false(address_report_read(TOKEN, text, strlen(text) - 1, read));
    text[100] = 'g';
    assert_false(address_report_read(TOKEN, text, strlen(text), read));
}

static void elastic_options_arrive(void **state)
{
    (void)state;
    struct message message = example(), read;
    unsigned char *bytes;
    size_t size;
    message.options.size = 4; /* the ranks 4 and 65535 are spares */
    message.options.elastic_min = 2;
    message.options.restart_max = 7;
    message.options.joins = true;
    assert_true(message_write(&message, &bytes, &size));
    assert_null(message_read(bytes + MESSAGE_HEAD_BYTES, size - MESSAGE_HEAD_BYTES, &read));
    assert_int_equal(read.options.elastic_min, 2);
    assert_int_equal(read.options.restart_max, 7);
    assert_int_equal(read.options.spare_count, 2);
    assert_true(read.options.joins);
    message_release(&read);
    free(bytes);
    message.options.elastic_min = 0;
    expect_wrong(&message, "a rank is wrong");
}

/* ---------------------------------------------------------------------------------------- hosts */

/* "name:slots" of all of them. */
static void expect_hosts(const char *text, const char *expected)
{
    struct hosts hosts = {NULL, 0, 0};
    char error[HOSTS_ERROR_BYTES], found[1000] = "";
    if (!hosts_read(&hosts, text, strlen(text), error)) fail_msg("%s", error);
    for (int i = 0; i < hosts.count; i++)
        sprintf(found + strlen(found), "%s%s/%d", i > 0 ? " " : "", hosts.list[i].name,
                hosts.list[i].slot_count);
    assert_string_equal(found, expected);
    hosts_release(&hosts);
}

static void expect_no_hosts(const char *text, const char *expected)
{
    struct hosts hosts = {NULL, 0, 0};
    char error[HOSTS_ERROR_BYTES];
    assert_false(hosts_read(&hosts, text, strlen(text), error));
    assert_string_equal(error, expected);
    hosts_release(&hosts);
}

static void host_files_are_read(void **state)
{
    (void)state;
    expect_hosts("a", "a/1");
    expect_hosts("# all\n\n a slots=4 # four\nb.example\r\nuser@c:2\n", "a/4 b.example/1 user@c/2");
    expect_hosts("a:2\nb\na slots=3", "a/5 b/1");
    expect_hosts("fd77::1\n[fd77::2]\n[fd77::3]:2\n[fd77::4] slots=3\nfe80::1%eth0",
                 "fd77::1/1 fd77::2/1 fd77::3/2 fd77::4/3 fe80::1%eth0/1");
}

static void lists_of_hosts_are_read(void **state)
{
    (void)state;
    struct hosts hosts = {NULL, 0, 0};
    char error[HOSTS_ERROR_BYTES];
    assert_true(hosts_read_list(&hosts, "a,b:2,[::1]:3", error));
    assert_int_equal(hosts.count, 3);
    assert_int_equal(hosts.slot_count, 6);
    assert_false(hosts_read_list(&hosts, "c,,d", error));
    hosts_release(&hosts);
}

static void what_is_no_host_is_refused_with_its_line(void **state)
{
    (void)state;
    expect_no_hosts("", "no host in it");
    expect_no_hosts("# nobody\n", "no host in it");
    expect_no_hosts("a\n-oProxyCommand=x\n", "line 2: -oProxyCommand=x is no host");
    expect_no_hosts("a;b", "line 1: a;b is no host");
    expect_no_hosts("a:0", "line 1: a:0 is no host");
    expect_no_hosts("a:", "line 1: a: is no host");
    expect_no_hosts("[::1", "line 1: [::1 is no host");
    expect_no_hosts("user@", "line 1: user@ is no host");
    expect_no_hosts("a slots=0", "line 1: slots=0 is not slots=NUMBER");
    expect_no_hosts("a slots=", "line 1: slots= is not slots=NUMBER");
    expect_no_hosts("a b", "line 1: b is not slots=NUMBER");
    expect_no_hosts("a slots=65536\nb", "line 2: more than 65536 slots");
    expect_no_hosts("a slots=99999999999999999999",
                    "line 1: slots=99999999999999999999 is not slots=NUMBER");
}

/* "a 0 1 | b 2" */
static void expect_places(const char *list, int rank_count, enum hosts_map map, const char *expected)
{
    struct hosts hosts = {NULL, 0, 0};
    char error[HOSTS_ERROR_BYTES], found[1000] = "";
    assert_true(hosts_read_list(&hosts, list, error));
    if (!hosts_place(&hosts, rank_count, map, error)) fail_msg("%s", error);
    hosts_drop_idle(&hosts);
    for (int i = 0; i < hosts.count; i++) {
        sprintf(found + strlen(found), "%s%s", i > 0 ? " | " : "", hosts.list[i].name);
        for (int j = 0; j < hosts.list[i].rank_count; j++)
            sprintf(found + strlen(found), " %d", hosts.list[i].ranks[j]);
    }
    assert_string_equal(found, expected);
    hosts_release(&hosts);
}

static void ranks_fill_hosts_or_take_turns(void **state)
{
    (void)state;
    expect_places("a:2,b:1,c:2", 5, MAP_BY_SLOT, "a 0 1 | b 2 | c 3 4");
    expect_places("a:2,b:1,c:2", 5, MAP_BY_NODE, "a 0 3 | b 1 | c 2 4");
    expect_places("a:2,b:1,c:2", 2, MAP_BY_SLOT, "a 0 1");
    expect_places("a:2,b:1,c:2", 2, MAP_BY_NODE, "a 0 | b 1");
    expect_places("a:1,b:3", 4, MAP_BY_NODE, "a 0 | b 1 2 3");
    struct hosts hosts = {NULL, 0, 0};
    char error[HOSTS_ERROR_BYTES];
    assert_true(hosts_read_list(&hosts, "a,b", error));
    assert_false(hosts_place(&hosts, 3, MAP_BY_SLOT, error));
    assert_string_equal(error, "3 ranks, but the hosts have 2 slots: slots=NUMBER gives more");
    hosts_release(&hosts);
}

static void an_address_has_no_user(void **state)
{
    (void)state;
    char with[] = "user@a", without[] = "a";
    assert_string_equal(host_address(&(struct host){.name = with}), "a");
    assert_string_equal(host_address(&(struct host){.name = without}), "a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_cut_off_is_refused),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(heads_of_others_are_refused),
        cmocka_unit_test(a_message_is_bounded),
        cmocka_unit_test(only_who_knows_the_token_reports),
        cmocka_unit_test(an_address_is_reported_whole),
        cmocka_unit_test(elastic_options_arrive),
        cmocka_unit_test(host_files_are_read),
        cmocka_unit_test(lists_of_hosts_are_read),
        cmocka_unit_test(what_is_no_host_is_refused_with_its_line),
        cmocka_unit_test(ranks_fill_hosts_or_take_turns),
        cmocka_unit_test(an_address_has_no_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
