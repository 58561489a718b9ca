#include "hosts.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keeper.h"

enum { NAME_BYTES_MAX = 255 };

struct word {
    const char *begin;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static bool refuse(char *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, HOSTS_ERROR_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

/* A name goes on the command line of a remote shell: it must not be an option there, nor anything
 * for a shell. */
static bool is_name(struct word name)
{
    if (name.size == 0 || name.size > NAME_BYTES_MAX || name.begin[0] == '-') return false;
    for (size_t i = 0; i < name.size; ++i) {
        char c = name.begin[i];
        if (!isalnum((unsigned char)c) && (c == '\0' || strchr("._-:%@", c) == NULL)) return false;
    }
    return name.begin[name.size - 1] != '@';
}

static bool read_slots(struct word text, int *slots)
{
    int number = 0;
    for (size_t i = 0; i < text.size; ++i) {
        if (!isdigit((unsigned char)text.begin[i]) || number > RANKS_MAX) return false;
        number = 10 * number + (text.begin[i] - '0');
    }
    *slots = number;
    return number >= 1 && number <= RANKS_MAX;
}

/* NAME, NAME:SLOTS, [ADDRESS], [ADDRESS]:SLOTS, and an address with several colons. *slots stays
 * where it has none. */
static bool split_word(struct word word, struct word *name, int *slots)
{
    const char *end = word.begin + word.size;
    const char *colon = memchr(word.begin, ':', word.size);
    *name = word;
    if (word.size > 0 && word.begin[0] == '[') {
        const char *bracket = memchr(word.begin, ']', word.size);
        if (bracket == NULL) return false;
        *name = (struct word){word.begin + 1, (size_t)(bracket - word.begin) - 1};
        if (bracket + 1 == end) return true;
        if (bracket[1] != ':') return false;
        colon = bracket + 1;
    } else if (colon == NULL || memchr(colon + 1, ':', (size_t)(end - colon) - 1) != NULL) {
        return true;
    } else {
        name->size = (size_t)(colon - word.begin);
    }
    return read_slots((struct word){colon + 1, (size_t)(end - colon) - 1}, slots);
}

static bool add(struct hosts *hosts, struct word name, int slots, char *error)
{
    if (slots > RANKS_MAX - hosts->slot_count)
        return refuse(error, "more than %d slots", RANKS_MAX);
    hosts->slot_count += slots;
    for (int i = 0; i < hosts->count; ++i) {
        struct host *host = &hosts->list[i];
        if (strncmp(host->name, name.begin, name.size) != 0 || host->name[name.size] != '\0')
            continue;
        host->slot_count += slots;
        return true;
    }
    if (hosts->count == HOSTS_MAX) return refuse(error, "more than %d hosts", HOSTS_MAX);
    if ((hosts->count & (hosts->count - 1)) == 0) { /* a power of two: it is full */
        size_t room = hosts->count > 0 ? 2 * (size_t)hosts->count : 1;
        struct host *more = realloc(hosts->list, room * sizeof *more);
        if (more == NULL) return refuse(error, "%s", strerror(ENOMEM));
        hosts->list = more;
    }
    char *copy = strndup(name.begin, name.size);
    if (copy == NULL) return refuse(error, "%s", strerror(ENOMEM));
    hosts->list[hosts->count++] = (struct host){.name = copy, .slot_count = slots};
    return true;
}

static bool add_word(struct hosts *hosts, struct word word, int slots, char *error)
{
    struct word name;
    if (!split_word(word, &name, &slots) || !is_name(name))
        return refuse(error, "%.*s is no host", (int)(word.size < 100 ? word.size : 100),
                      word.begin);
    return add(hosts, name, slots, error);
}

/* The next word of a line, up to a blank or a comment; size 0: no more. */
static struct word next_word(struct word *line)
{
    while (line->size > 0 && isspace((unsigned char)*line->begin)) ++line->begin, --line->size;
    struct word word = {line->begin, 0};
    while (word.size < line->size && !isspace((unsigned char)word.begin[word.size])) ++word.size;
    line->begin += word.size;
    line->size -= word.size;
    return word;
}

static bool read_line(struct hosts *hosts, struct word line, char *error)
{
    static const char key[] = "slots=";
    const char *comment = memchr(line.begin, '#', line.size);
    if (comment != NULL) line.size = (size_t)(comment - line.begin);
    struct word host = next_word(&line);
    if (host.size == 0) return true;
    int slots = 1;
    for (struct word word; (word = next_word(&line)).size > 0;) {
        struct word number = {word.begin + sizeof key - 1, word.size - (sizeof key - 1)};
        if (word.size < sizeof key || memcmp(word.begin, key, sizeof key - 1) != 0 ||
            !read_slots(number, &slots))
            return refuse(error, "%.*s is not slots=NUMBER",
                          (int)(word.size < 100 ? word.size : 100), word.begin);
    }
    return add_word(hosts, host, slots, error);
}

bool hosts_read(struct hosts *hosts, const char *text, size_t size, char *error)
{
    if (size > HOSTS_FILE_BYTES_MAX) return refuse(error, "longer than any list of hosts");
    for (int number = 1; size > 0; ++number) {
        const char *newline = memchr(text, '\n', size);
        size_t length = newline != NULL ? (size_t)(newline - text) : size;
        char why[HOSTS_ERROR_BYTES];
        if (!read_line(hosts, (struct word){text, length}, why))
            return refuse(error, "line %d: %.250s", number, why);
        if (newline != NULL) ++length;
        text += length;
        size -= length;
    }
    return hosts->count > 0 || refuse(error, "no host in it");
}

bool hosts_read_list(struct hosts *hosts, const char *list, char *error)
{
    for (;;) {
        size_t size = strcspn(list, ",");
        if (!add_word(hosts, (struct word){list, size}, 1, error)) return false;
        if (list[size] == '\0') return true;
        list += size + 1;
    }
}

/* ------------------------------------------------------------------------------------ the ranks */

static bool has_room(const struct host *host)
{
    return host->rank_count < host->slot_count;
}

/* The host of the rank after a rank on host `last`, which is -1 before the first rank. Some host
 * must have room. */
static int next_host(const struct hosts *hosts, int last, enum hosts_map map)
{
    if (map == MAP_BY_SLOT && last >= 0 && has_room(&hosts->list[last])) return last;
    do last = (last + 1) % hosts->count;
    while (!has_room(&hosts->list[last]));
    return last;
}

void hosts_drop_idle(struct hosts *hosts)
{
    int used = 0;
    for (int i = 0; i < hosts->count; ++i) {
        struct host host = hosts->list[i];
        if (host.rank_count > 0) {
            hosts->list[used++] = host;
            continue;
        }
        free(host.name);
        free(host.ranks);
    }
    hosts->count = used;
}

bool hosts_place(struct hosts *hosts, int rank_count, enum hosts_map map, char *error)
{
    if (rank_count > hosts->slot_count)
        return refuse(error, "%d ranks, but the hosts have %d slot%s: slots=NUMBER gives more",
                      rank_count, hosts->slot_count, hosts->slot_count > 1 ? "s" : "");
    for (int i = 0; i < hosts->count; ++i) {
        struct host *host = &hosts->list[i];
        host->rank_count = 0;
        host->ranks = calloc((size_t)host->slot_count, sizeof *host->ranks);
        if (host->ranks == NULL) return refuse(error, "%s", strerror(ENOMEM));
    }
    for (int rank = 0, at = -1; rank < rank_count; ++rank) {
        at = next_host(hosts, at, map);
        struct host *host = &hosts->list[at];
        if (host->rank_count == HOST_RANKS_MAX)
            return refuse(error, "%d ranks, which is more than %d for host %.100s: name more hosts",
                          rank_count, HOST_RANKS_MAX, host->name);
        host->ranks[host->rank_count++] = rank;
    }
    return true;
}

int hosts_used(const struct host *list, int count, int size)
{
    int used = 0;
    for (int i = 0; i < count; ++i) used += list[i].rank_count > 0 && list[i].ranks[0] < size;
    return used > 0 ? used : 1;
}

void hosts_release(struct hosts *hosts)
{
    for (int i = 0; i < hosts->count; ++i) {
        free(hosts->list[i].name);
        free(hosts->list[i].ranks);
    }
    free(hosts->list);
    *hosts = (struct hosts){NULL, 0, 0};
}

const char *host_address(const struct host *host)
{
    const char *at = strrchr(host->name, '@');
    return at != NULL ? at + 1 : host->name;
}
