#include "message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[8] = "TUTTIRUN";
static const char *const report_names[] = {"ready", "failed",  "done",    "died",
                                           "alive", "members", "finished"};

enum {
    FLAG_PREFIX = 1,
    FLAG_PIN = 2,
    FLAG_COLOUR_OUT = 4,
    FLAG_COLOUR_ERR = 8,
    FLAG_JOINS = 16,
    FLAGS_ALL = 31
};

/* -------------------------------------------------------------------------------------- writing */

struct writer {
    unsigned char *bytes;
    size_t used, room;
    bool failed;
};

static void put_bytes(struct writer *writer, const void *bytes, size_t size)
{
    if (writer->failed) return;
    if (size > writer->room - writer->used) {
        size_t room = 2 * (writer->room + size);
        unsigned char *more = room <= 4u * MESSAGE_BYTES_MAX ? realloc(writer->bytes, room) : NULL;
        writer->failed = more == NULL;
        if (writer->failed) return;
        writer->bytes = more;
        writer->room = room;
    }
    memcpy(writer->bytes + writer->used, bytes, size);
    writer->used += size;
}

static void store_number(unsigned char *at, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; ++i) at[i] = (unsigned char)(number >> (8 * i));
}

static void put_number(struct writer *writer, uint64_t number, int bytes)
{
    unsigned char text[8];
    store_number(text, number, bytes);
    put_bytes(writer, text, (size_t)bytes);
}

static void put_text(struct writer *writer, const char *text)
{
    size_t length = strlen(text);
    writer->failed = writer->failed || length > MESSAGE_BYTES_MAX;
    put_number(writer, length, 4);
    put_bytes(writer, text, length + 1);
}

static void put_texts(struct writer *writer, char *const *texts)
{
    uint64_t count = 0;
    while (texts[count] != NULL) ++count;
    put_number(writer, count, 4);
    for (uint64_t i = 0; i < count; ++i) put_text(writer, texts[i]);
}

static void put_options(struct writer *writer, const struct run_options *options)
{
    put_number(writer, (uint64_t)options->size, 4);
    put_number(writer, (uint64_t)options->elastic_min, 4);
    put_number(writer, (uint64_t)options->restart_max, 4);
    put_number(writer, (uint64_t)options->rank_count, 4);
    for (int i = 0; i < options->rank_count; ++i)
        put_number(writer, (uint64_t)options->ranks[i], 4);
    put_number(writer, (uint64_t)options->node_index, 4);
    put_number(writer, (uint64_t)options->node_count, 4);
    put_number(writer,
               (options->prefix ? FLAG_PREFIX : 0u) | (options->pin ? FLAG_PIN : 0u) |
                   (options->colours[0] ? FLAG_COLOUR_OUT : 0u) |
                   (options->colours[1] ? FLAG_COLOUR_ERR : 0u) | (options->joins ? FLAG_JOINS : 0u),
               4);
    put_number(writer, (uint64_t)options->master_port, 4);
    put_number(writer, options->grace_ns, 8);
    put_text(writer, options->host);
    put_text(writer, options->token);
    put_text(writer, options->output_folder);
    put_text(writer, options->master_address);
    put_text(writer, options->job_id);
    put_texts(writer, options->arguments);
}

bool message_write(const struct message *message, unsigned char **bytes, size_t *size)
{
    struct writer writer = {NULL, 0, 0, false};
    put_bytes(&writer, magic, sizeof magic);
    put_number(&writer, MESSAGE_VERSION, 4);
    put_number(&writer, 0, 4); /* the size, once it is known */
    put_options(&writer, &message->options);
    put_text(&writer, message->folder);
    put_texts(&writer, message->environment);
    if (writer.failed || writer.used > MESSAGE_BYTES_MAX) {
        free(writer.bytes);
        return false;
    }
    store_number(writer.bytes + 12, writer.used - MESSAGE_HEAD_BYTES, 4);
    *bytes = writer.bytes;
    *size = writer.used;
    return true;
}

/* -------------------------------------------------------------------------------------- reading */

struct reader {
    unsigned char *bytes;
    size_t left;
    const char *wrong; /* the first thing that is, or NULL; then all that is read is 0, "" and nothing */
};

static void refuse_message(struct reader *reader, const char *wrong)
{
    if (reader->wrong == NULL) reader->wrong = wrong;
    reader->left = 0;
}

static uint64_t take_number(struct reader *reader, int bytes)
{
    uint64_t number = 0;
    if (reader->left < (size_t)bytes) {
        refuse_message(reader, "it is cut off");
        return 0;
    }
    for (int i = 0; i < bytes; ++i) number |= (uint64_t)reader->bytes[i] << (8 * i);
    reader->bytes += bytes;
    reader->left -= (size_t)bytes;
    return number;
}

static int take_bounded(struct reader *reader, int least, int most, const char *wrong)
{
    uint64_t number = take_number(reader, 4);
    if (reader->wrong == NULL && (number < (uint64_t)least || number > (uint64_t)most))
        refuse_message(reader, wrong);
    return reader->wrong == NULL ? (int)number : least;
}

static char *take_text(struct reader *reader)
{
    static char nothing[1];
    uint64_t length = take_number(reader, 4);
    if (length >= reader->left) {
        refuse_message(reader, "a text is cut off");
        return nothing;
    }
    char *text = (char *)reader->bytes;
    if (memchr(text, '\0', length + 1) != text + length) {
        refuse_message(reader, "a text does not end where it says");
        return nothing;
    }
    reader->bytes += length + 1;
    reader->left -= length + 1;
    return text;
}

/* NULL: no memory, or something was wrong. */
static char **take_texts(struct reader *reader)
{
    enum { TEXT_BYTES_MIN = 5 };
    uint64_t count = take_number(reader, 4);
    if (count > reader->left / TEXT_BYTES_MIN) refuse_message(reader, "a list is cut off");
    if (reader->wrong != NULL) return NULL;
    char **texts = calloc(count + 1, sizeof *texts);
    if (texts == NULL) refuse_message(reader, "no memory");
    for (uint64_t i = 0; texts != NULL && i < count; ++i) texts[i] = take_text(reader);
    return texts;
}

static int *take_ranks(struct reader *reader, int count, int size)
{
    if (reader->wrong == NULL && (size_t)count > reader->left / 4)
        refuse_message(reader, "it is cut off");
    if (reader->wrong != NULL) return NULL;
    int *ranks = calloc((size_t)count, sizeof *ranks);
    if (ranks == NULL) refuse_message(reader, "no memory");
    for (int i = 0; ranks != NULL && i < count; ++i)
        ranks[i] = take_bounded(reader, i > 0 ? ranks[i - 1] + 1 : 0, size - 1, "a rank is wrong");
    return ranks;
}

int message_spare_count(const struct run_options *options)
{
    int count = 0;
    for (int i = 0; options->ranks != NULL && i < options->rank_count; ++i)
        count += options->ranks[i] >= options->size;
    return count;
}

static void take_options(struct reader *reader, struct message *message)
{
    struct run_options *options = &message->options;
    options->size = take_bounded(reader, 1, RANKS_MAX, "the size is wrong");
    options->elastic_min = take_bounded(reader, 0, RANKS_MAX, "the least number is wrong");
    options->restart_max = take_bounded(reader, 0, RESTARTS_MAX, "the restarts are wrong");
    const int end = options->elastic_min > 0 ? RANKS_MAX : options->size; /* with spares */
    options->rank_count = take_bounded(reader, 1, end, "the number of ranks is wrong");
    options->ranks = message->ranks = take_ranks(reader, options->rank_count, end);
    options->spare_count = message_spare_count(options);
    options->node_index = take_bounded(reader, 0, RANKS_MAX - 1, "the number of the host is wrong");
    options->node_count =
        take_bounded(reader, options->node_index + 1, RANKS_MAX, "the number of hosts is wrong");
    int flags = take_bounded(reader, 0, FLAGS_ALL, "an option is not known");
    options->prefix = (flags & FLAG_PREFIX) != 0;
    options->pin = (flags & FLAG_PIN) != 0;
    options->colours[0] = (flags & FLAG_COLOUR_OUT) != 0;
    options->colours[1] = (flags & FLAG_COLOUR_ERR) != 0;
    options->joins = (flags & FLAG_JOINS) != 0;
    options->master_port = take_bounded(reader, 1, 65535, "the port is wrong");
    options->grace_ns = take_number(reader, 8);
    if (options->grace_ns > UINT64_MAX / 4) refuse_message(reader, "the grace is wrong");
    options->host = take_text(reader);
    options->token = take_text(reader);
    options->output_folder = take_text(reader);
    options->master_address = take_text(reader);
    options->job_id = take_text(reader);
    options->arguments = take_texts(reader);
    if (reader->wrong == NULL && options->arguments[0] == NULL)
        refuse_message(reader, "no program");
    if (reader->wrong == NULL && strlen(options->token) != TOKEN_BYTES)
        refuse_message(reader, "the token is wrong");
}

static void check_environment(struct reader *reader, char *const *environment)
{
    for (int i = 0; reader->wrong == NULL && environment[i] != NULL; ++i) {
        const char *equals = strchr(environment[i], '=');
        if (equals == NULL || equals == environment[i])
            refuse_message(reader, "a variable has no name");
    }
}

size_t message_body_size(const unsigned char head[MESSAGE_HEAD_BYTES], const char **wrong)
{
    struct reader reader = {(unsigned char[8]){0}, 8, NULL};
    *wrong = NULL;
    if (memcmp(head, magic, sizeof magic) != 0) {
        *wrong = "it is none of tutti-run's";
        return 0;
    }
    memcpy(reader.bytes, head + sizeof magic, 8);
    uint64_t version = take_number(&reader, 4), size = take_number(&reader, 4);
    if (version != MESSAGE_VERSION)
        *wrong = "it is of another version of tutti-run";
    else if (size > MESSAGE_BYTES_MAX - MESSAGE_HEAD_BYTES)
        *wrong = "it is too long";
    return *wrong == NULL ? size : 0;
}

const char *message_read(unsigned char *body, size_t size, struct message *message)
{
    struct reader reader = {body, size, NULL};
    *message = (struct message){.options.stdin_fd = -1};
    take_options(&reader, message);
    message->folder = take_text(&reader);
    message->environment = take_texts(&reader);
    check_environment(&reader, message->environment);
    if (reader.wrong == NULL && message->folder[0] != '/')
        refuse_message(&reader, "no folder to work in");
    if (reader.wrong == NULL && reader.left > 0) refuse_message(&reader, "something is left over");
    if (reader.wrong != NULL) message_release(message);
    return reader.wrong;
}

void message_release(struct message *message)
{
    free(message->environment);
    free(message->options.arguments);
    free(message->ranks);
    *message = (struct message){.folder = NULL};
}

/* -------------------------------------------------------------------------------------- reports */

void report_write(const char *token, enum report_kind kind, int code, char *text, size_t size)
{
    snprintf(text, size, "tutti-run:%s:%s %d", token, report_names[kind], code);
}

bool report_read(const char *token, const char *line, size_t size, enum report_kind *kind, int *code)
{
    enum { LINE_BYTES_MAX = 100 };
    char text[LINE_BYTES_MAX], expected[LINE_BYTES_MAX];
    if (size > 0 && line[size - 1] == '\n') --size;
    if (size >= sizeof text) return false;
    memcpy(text, line, size);
    text[size] = '\0';
    const char *number = strrchr(text, ' ');
    long value = number != NULL ? strtol(number + 1, NULL, 10) : -1;
    if (strlen(text) != size || value < 0 || value > RANKS_MAX) return false;
    for (int i = REPORT_READY; i < REPORT_KINDS; ++i) {
        if (value > 255 && i <= REPORT_DIED) continue;
        report_write(token, (enum report_kind)i, (int)value, expected, sizeof expected);
        if (strcmp(text, expected) != 0) continue;
        *kind = (enum report_kind)i;
        *code = (int)value;
        return true;
    }
    return false;
}

static const char address_name[] = ":address ";

void address_report_write(const char *token, const unsigned char address[ADDRESS_BYTES],
                          char text[ADDRESS_REPORT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    int at =
        snprintf(text, ADDRESS_REPORT_BYTES, "tutti-run:%.*s%s", TOKEN_BYTES, token, address_name);
    for (int i = 0; i < ADDRESS_BYTES; ++i) {
        text[at++] = digits[address[i] >> 4];
        text[at++] = digits[address[i] & 15];
    }
    text[at] = '\0';
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool address_report_read(const char *token, const char *line, size_t size,
                         unsigned char address[ADDRESS_BYTES])
{
    char expected[100];
    const int length =
        snprintf(expected, sizeof expected, "tutti-run:%.*s%s", TOKEN_BYTES, token, address_name);
    if (size > 0 && line[size - 1] == '\n') --size;
    if (size != (size_t)length + 2 * ADDRESS_BYTES || memcmp(line, expected, (size_t)length) != 0)
        return false;
    for (int i = 0; i < ADDRESS_BYTES; ++i) {
        const int high = digit_of(line[length + 2 * i]), low = digit_of(line[length + 2 * i + 1]);
        if (high < 0 || low < 0) return false;
        address[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}
