#include "read.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/printable.h"
#include "os/file.h"

bool trace_complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("tutti-trace: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return false;
}

void traces_release(struct traces *traces)
{
    for (size_t i = 0; i < traces->count; i++) trace_json_release(&traces->all[i]);
    for (size_t i = 0; i < traces->unread_count && i < UNREAD_NAMED_MAX; i++)
        free(traces->unread[i].path);
    free(traces->all);
    *traces = (struct traces){.count = 0};
}

/* False: it is no dump, and `why` says why not. */
static bool read_trace(const char *path, struct trace_json *trace, struct unread *unread)
{
    size_t size;
    FILE *file = fopen(path, "rbe");
    char *text = file != NULL ? file_read_all(file, TRACE_JSON_BYTES_MAX, &size) : NULL;
    bool is_read = false;
    if (text == NULL)
        snprintf(unread->why, sizeof unread->why, "%s", strerror(errno));
    else if (trace_json_load(text, size, trace) != TUTTI_OK)
        snprintf(unread->why, sizeof unread->why, "%s", tutti_error_message());
    else
        is_read = true;
    free(text);
    if (file != NULL) fclose(file);
    return is_read;
}

/* Lists a file that is not read, or says why it is not. */
static bool pass_over(struct traces *traces, const char *path, struct unread *unread)
{
    if (!traces->goes_on) return trace_complain("%s: %s", path, unread->why);
    const size_t place = traces->unread_count++;
    if (place >= UNREAD_NAMED_MAX) return true;
    unread->path = strdup(path);
    if (unread->path == NULL) return trace_complain("out of memory");
    printable_make(unread->path);
    printable_make(unread->why);
    traces->unread[place] = *unread;
    return true;
}

bool traces_add_file(struct traces *traces, const char *path)
{
    struct unread unread = {.path = NULL};
    if (traces->most > 0 &&
        (traces->count == traces->most || traces->entry_count >= traces->most_entries)) {
        traces->left_out++;
        return true;
    }
    if (traces->count == traces->room) {
        const size_t room = 2 * traces->room + 16;
        struct trace_json *grown = realloc(traces->all, room * sizeof *grown);
        if (grown == NULL) return trace_complain("out of memory");
        traces->all = grown;
        traces->room = room;
    }
    if (!read_trace(path, &traces->all[traces->count], &unread))
        return pass_over(traces, path, &unread);
    const struct trace_json *read = &traces->all[traces->count++];
    traces->entry_count += read->operation_count + read->message_count;
    return true;
}

/* tutti-ID-rankN.json */
static bool is_dump(const char *name)
{
    const size_t length = strlen(name);
    return strncmp(name, "tutti-", 6) == 0 && strstr(name, "-rank") != NULL && length > 5 &&
           strcmp(name + length - 5, ".json") == 0;
}

static int is_entry_of_dump(const struct dirent *entry)
{
    return is_dump(entry->d_name);
}

static bool add_entry(struct traces *traces, const char *folder, const char *name)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return trace_complain("%s: the name is too long", folder);
    return traces_add_file(traces, path);
}

bool traces_add_folder(struct traces *traces, const char *name)
{
    struct dirent **entries;
    const int count = scandir(name, &entries, is_entry_of_dump, alphasort);
    if (count < 0) return trace_complain("%s: %s", name, strerror(errno));
    bool is_read = true;
    for (int i = 0; i < count; i++) {
        is_read = is_read && add_entry(traces, name, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    if (count == 0) is_read = trace_complain("%s: there are no dumps (tutti-ID-rankN.json)", name);
    return is_read;
}

bool traces_add(struct traces *traces, const char *path)
{
    struct stat status;
    const bool is_folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    return is_folder ? traces_add_folder(traces, path) : traces_add_file(traces, path);
}
