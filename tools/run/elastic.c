#include "elastic.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/option.h"
#include "bootstrap/interface.h"

#define SHORT_LIFE_NS UINT64_C(5000000000)
#define PAUSE_NS UINT64_C(100000000)
#define PAUSE_MAX_NS UINT64_C(5000000000)

bool elastic_make_store(char path[ELASTIC_STORE_BYTES])
{
    const char *parent = getenv("TMPDIR");
    *path = '\0';
    if (option_text(OPTION_ELASTIC_STORE) != NULL) return true;
    if (parent == NULL || *parent == '\0') parent = "/tmp";
    const int length = snprintf(path, ELASTIC_STORE_BYTES, "%s/tutti-elastic-XXXXXX", parent);
    if (length < ELASTIC_STORE_BYTES && mkdtemp(path) != NULL) {
        if (setenv(option_names.ELASTIC_STORE, path, 1) == 0) return true;
        rmdir(path);
    }
    fprintf(stderr, "tutti-run: cannot make a directory in %s: %s\n", parent, strerror(errno));
    *path = '\0';
    return false;
}

void elastic_remove_store(const char *path)
{
    DIR *const folder = *path != '\0' ? opendir(path) : NULL;
    if (folder == NULL) return;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    rmdir(path);
}

bool elastic_make_name(char name[ELASTIC_NAME_BYTES])
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) return false;
    snprintf(name, ELASTIC_NAME_BYTES, "%016llx", (unsigned long long)number);
    return true;
}

bool elastic_is_member(const char *name)
{
    const char *const folder = option_text(OPTION_ELASTIC_STORE);
    char path[PATH_MAX];
    struct stat status;
    return folder != NULL &&
           snprintf(path, sizeof path, "%s/tutti.member.%s", folder, name) < PATH_MAX &&
           stat(path, &status) == 0;
}

bool elastic_is_cut_off(const char *master_address)
{
    struct interface interfaces[INTERFACES_MAX];
    struct net_address master;
    size_t count = 0;
    if (net_address_parse(master_address, &master) && net_address_is_loopback(&master))
        return false;
    if (interface_list(interfaces, INTERFACES_MAX, &count) != TUTTI_OK) return false;
    for (size_t i = 0; i < count; i++)
        if (interfaces[i].is_up && !interfaces[i].is_loopback) return false;
    return true;
}

int elastic_watch(void)
{
    const char *const folder = option_text(OPTION_ELASTIC_STORE);
    const int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0 || folder == NULL || inotify_add_watch(fd, folder, IN_MOVED_TO) >= 0) return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

void elastic_watch_drain(int watch_fd)
{
    char events[4096];
    while (read(watch_fd, events, sizeof events) > 0)
        ;
}

/* The path of the address, with an ending. */
static bool address_path(const char *ending, char path[PATH_MAX])
{
    const char *const folder = option_text(OPTION_ELASTIC_STORE);
    return folder != NULL &&
           snprintf(path, PATH_MAX, "%s/tutti.admission%s", folder, ending) < PATH_MAX;
}

bool elastic_read_address(unsigned char address[ADDRESS_BYTES])
{
    char path[PATH_MAX];
    unsigned char bytes[ADDRESS_BYTES + 1];
    const int fd = address_path("", path) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0) return false;
    const ssize_t got = read(fd, bytes, sizeof bytes);
    close(fd);
    if (got != ADDRESS_BYTES) return false;
    memcpy(address, bytes, ADDRESS_BYTES);
    return true;
}

/* Whole or not at all, as its readers expect. */
bool elastic_write_address(const unsigned char address[ADDRESS_BYTES])
{
    char path[PATH_MAX], fresh[PATH_MAX], name[ELASTIC_NAME_BYTES], ending[40];
    if (!elastic_make_name(name)) return false;
    snprintf(ending, sizeof ending, ".from.%s", name);
    if (!address_path("", path) || !address_path(ending, fresh)) return false;
    const int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return false;
    const bool is_written = write(fd, address, ADDRESS_BYTES) == ADDRESS_BYTES;
    if (close(fd) == 0 && is_written && rename(fresh, path) == 0) return true;
    const int error = errno;
    unlink(fresh);
    errno = error;
    return false;
}

uint64_t elastic_pause_ns(uint64_t lived_ns, int restart_count)
{
    if (lived_ns >= SHORT_LIFE_NS || restart_count == 0) return 0;
    const int doublings = restart_count - 1;
    const uint64_t pause_ns = doublings < 6 ? PAUSE_NS << doublings : PAUSE_MAX_NS;
    return pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS;
}
