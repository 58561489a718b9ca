#include "os/userfault.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    /* Since Linux 5.11: only accesses of the program itself would ever be reported. This mode needs
     * no privilege. */
    USER_MODE_ONLY = 1,
    READ_MAX = 16
};

static int open_descriptor(void)
{
    const long fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY);
    return fd < 0 && errno == EINVAL ? (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)
                                     : (int)fd;
}

int userfault_open(void)
{
    struct uffdio_api api = {
        .api = UFFD_API,
        .features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP |
                    UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_PAGEFAULT_FLAG_WP,
    };
    const int fd = open_descriptor();
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) == 0) return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

bool userfault_watch(int fd, uintptr_t begin, uintptr_t end)
{
    struct uffdio_register wanted = {.range = {.start = begin, .len = end - begin},
                                     .mode = UFFDIO_REGISTER_MODE_WP};
    return ioctl(fd, UFFDIO_REGISTER, &wanted) == 0;
}

bool userfault_unwatch(int fd, uintptr_t begin, uintptr_t end)
{
    struct uffdio_range range = {.start = begin, .len = end - begin};
    return ioctl(fd, UFFDIO_UNREGISTER, &range) == 0;
}

/* While memory is going the kernel refuses to change protections with EAGAIN, before it looks at
 * which. This range is none. */
bool userfault_is_busy(int fd)
{
    struct uffdio_writeprotect none = {.range = {.start = 0, .len = 0}};
    return ioctl(fd, UFFDIO_WRITEPROTECT, &none) != 0 && errno == EAGAIN;
}

static bool range_of(const struct uffd_msg *message, struct userfault_range *gone)
{
    switch (message->event) {
    case UFFD_EVENT_UNMAP:
    case UFFD_EVENT_REMOVE:
        *gone = (struct userfault_range){(uintptr_t)message->arg.remove.start,
                                         (uintptr_t)message->arg.remove.end};
        return true;
    case UFFD_EVENT_REMAP:
        *gone =
            (struct userfault_range){(uintptr_t)message->arg.remap.from,
                                     (uintptr_t)(message->arg.remap.from + message->arg.remap.len)};
        return true;
    default: return false;
    }
}

int userfault_read(int fd, struct userfault_range *gone, int count_max)
{
    struct uffd_msg messages[READ_MAX];
    const size_t wanted = count_max < READ_MAX ? (size_t)count_max : READ_MAX;
    ssize_t bytes;
    do bytes = read(fd, messages, wanted * sizeof messages[0]);
    while (bytes < 0 && errno == EINTR);
    int count = 0;
    for (ssize_t i = 0; bytes > 0 && i < bytes / (ssize_t)sizeof messages[0]; i++)
        if (range_of(&messages[i], &gone[count])) count++;
    return count;
}
