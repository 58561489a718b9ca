#include "fabric_files.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fabric_path(char path[static FABRIC_PATH_SIZE], const char *root, const char *format, ...)
{
    const int length = snprintf(path, FABRIC_PATH_SIZE, "%s", root);
    const size_t used = length < 0 ? 0 : (size_t)length;
    va_list arguments;
    va_start(arguments, format);
    int more = -1;
    if (used < FABRIC_PATH_SIZE)
        more = vsnprintf(path + used, FABRIC_PATH_SIZE - used, format, arguments);
    va_end(arguments);
    if (more < 0 || used + (size_t)more >= FABRIC_PATH_SIZE) path[0] = '\0';
}

bool fabric_read(const char *path, char text[static FABRIC_TEXT_SIZE])
{
    text[0] = '\0';
    FILE *const file = fopen(path, "re");
    if (file == NULL) return false;
    const bool is_read = fgets(text, FABRIC_TEXT_SIZE, file) != NULL;
    fclose(file);
    if (!is_read) text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return is_read;
}

void fabric_list(const char *folder, const char *prefix, struct fabric_names *names)
{
    *names = (struct fabric_names){.count = 0};
    struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, NULL, versionsort);
    for (int i = 0; i < count; i++) {
        const char *const name = entries[i]->d_name;
        if (name[0] != '.' && strncmp(name, prefix, strlen(prefix)) == 0 &&
            names->count < FABRIC_NAMES_MAX && (names->names[names->count] = strdup(name)) != NULL)
            names->count++;
        free(entries[i]);
    }
    free(entries);
}

void fabric_names_release(struct fabric_names *names)
{
    for (int i = 0; i < names->count; i++) free(names->names[i]);
    names->count = 0;
}

void fabric_read_link(const char *path, char text[static FABRIC_TEXT_SIZE])
{
    char target[FABRIC_PATH_SIZE];
    const ssize_t bytes = readlink(path, target, sizeof target - 1);
    target[bytes > 0 ? bytes : 0] = '\0';
    const char *const slash = strrchr(target, '/');
    snprintf(text, FABRIC_TEXT_SIZE, "%.*s", FABRIC_TEXT_SIZE - 1,
             slash != NULL ? slash + 1 : target);
}
