#include "program.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper.h"

/* 0, or why it cannot be executed. */
static int executable(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) return errno;
    if (S_ISDIR(status.st_mode)) return EISDIR;
    return access(path, X_OK) == 0 ? 0 : errno;
}

/* 0 or why there is none. */
static int find(const char *name, char *found)
{
    if (strchr(name, '/') != NULL)
        return snprintf(found, PATH_MAX, "%s", name) < PATH_MAX ? executable(found) : ENAMETOOLONG;
    const char *folders = getenv("PATH");
    if (folders == NULL) folders = "/bin:/usr/bin";
    int worst = ENOENT;
    for (const char *folder = folders; *name != '\0';) {
        int size = (int)strcspn(folder, ":");
        int length = snprintf(found, PATH_MAX, "%.*s/%s", size > 0 ? size : 1,
                              size > 0 ? folder : ".", name);
        int error = length < PATH_MAX ? executable(found) : ENAMETOOLONG;
        if (error == 0) return 0;
        if (error == EACCES) worst = error;
        if (folder[size] == '\0') break;
        folder += size + 1;
    }
    return worst;
}

/* Prints the beginning of a message. */
static void say_who(const char *host)
{
    fprintf(stderr, "tutti-run: %s%s%s", *host != '\0' ? "host " : "", host,
            *host != '\0' ? ": " : "");
}

int program_find(const char *name, const char *host, char *found)
{
    int error = find(name, found);
    if (error == 0) return -1;
    say_who(host);
    fprintf(stderr, "cannot execute %s: %s\n", name, strerror(error));
    return error == ENOENT || error == ENOTDIR ? RUN_NOT_FOUND : RUN_CANNOT_EXEC;
}

int program_make_folder(const char *path, const char *host)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return -1;
    const int error = errno;
    say_who(host);
    fprintf(stderr, "cannot make %s: %s\n", path, strerror(error));
    return RUN_FAILED;
}
