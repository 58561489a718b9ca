#include "read.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    free(traces->all);
    *traces = (struct traces){.count = 0};
}

static bool read_trace(const char *path, struct trace_json *trace)
{
    size_t size;
    FILE *file = fopen(path, "rbe");
    char *text = file != NULL ? file_read_all(file, TRACE_JSON_BYTES_MAX, &size) : NULL;
    bool is_read = true;
    if (text == NULL)
        is_read = trace_complain("%s: %s", path, strerror(errno));
    else if (trace_json_load(text, size, trace) != TUTTI_OK)
        is_read = trace_complain("%s: %s", path, tutti_error_message());
    free(text);
    if (file != NULL) fclose(file);
    return is_read;
}

bool traces_add_file(struct traces *traces, const char *path)
{
    if (traces->count == traces->room) {
        const size_t room = 2 * traces->room + 16;
        struct trace_json *grown = realloc(traces->all, room * sizeof *grown);
        if (grown == NULL) return trace_complain("out of memory");
        traces->all = grown;
        traces->room = room;
    }
    if (!read_trace(path, &traces->all[traces->count])) return false;
    traces->count++;
    return true;
}

/* tutti-ID-rankN.json */
static bool is_dump(const char *name)
{
    const size_t length = strlen(name);
    return strncmp(name, "tutti-", 6) == 0 && strstr(name, "-rank") != NULL && length > 5 &&
           strcmp(name + length - 5, ".json") == 0;
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
    DIR *folder = opendir(name);
    if (folder == NULL) return trace_complain("%s: %s", name, strerror(errno));
    const size_t before = traces->count;
    bool is_read = true;
    for (struct dirent *entry; is_read && (entry = readdir(folder)) != NULL;)
        if (is_dump(entry->d_name)) is_read = add_entry(traces, name, entry->d_name);
    closedir(folder);
    if (is_read && traces->count == before)
        is_read = trace_complain("%s: there are no dumps (tutti-ID-rankN.json)", name);
    return is_read;
}

bool traces_add(struct traces *traces, const char *path)
{
    struct stat status;
    const bool is_folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    return is_folder ? traces_add_folder(traces, path) : traces_add_file(traces, path);
}
