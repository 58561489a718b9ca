#include "os/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

/* From Linux 6.3 on, which headers may not know: nobody can make a program of it. Where
 * vm.memfd_noexec is 2 there is no other. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

static int create(const char *name)
{
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    const int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
    return fd < 0 && errno == EINVAL ? memfd_create(name, flags) : fd;
}

/* Growing a file beyond that limit (ulimit -f) ends a process that does not handle the signal. */
static bool is_allowed(size_t size_bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           size_bytes <= limit.rlim_cur;
}

static enum tutti_status check_limit(size_t size_bytes)
{
    if (is_allowed(size_bytes)) return TUTTI_OK;
    return error_set(TUTTI_NO_SPACE,
                     "shared memory of %zu bytes: larger than files may be (ulimit -f)", size_bytes);
}

static enum tutti_status open_sealed(const char *name, size_t size_bytes, int seals, int *fd)
{
    *fd = create(name);
    if (*fd < 0) return error_system("shared memory %s: memfd_create", name);
    if (fchmod(*fd, 0600) == 0 && ftruncate(*fd, (off_t)size_bytes) == 0 &&
        fcntl(*fd, F_ADD_SEALS, seals | F_SEAL_SEAL) == 0)
        return TUTTI_OK;
    const enum tutti_status status = error_system("shared memory %s of %zu bytes", name, size_bytes);
    close(*fd);
    *fd = -1;
    return status;
}

enum tutti_status shm_open_new(const char *name, size_t size_bytes, int *fd)
{
    *fd = -1;
    TRY(check_limit(size_bytes));
    return open_sealed(name, size_bytes, F_SEAL_SHRINK | F_SEAL_GROW, fd);
}

enum tutti_status shm_open_growing(const char *name, int *fd)
{
    return open_sealed(name, 0, F_SEAL_SHRINK, fd);
}

enum tutti_status shm_grow(int fd, size_t size_bytes)
{
    struct stat stat;
    if (fstat(fd, &stat) != 0) return error_system("shared memory: fstat");
    if ((size_t)stat.st_size >= size_bytes) return TUTTI_OK;
    TRY(check_limit(size_bytes));
    if (ftruncate(fd, (off_t)size_bytes) == 0) return TUTTI_OK;
    return error_system("shared memory of %zu bytes", size_bytes);
}

enum tutti_status shm_map(int fd, size_t offset, size_t size_bytes, void **memory)
{
    void *const mapped = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                              fd, (off_t)offset);
    if (mapped == MAP_FAILED) {
        *memory = NULL;
        return error_system("mapping %zu bytes of shared memory", size_bytes);
    }
    shm_let_dump(mapped, size_bytes, false);
    *memory = mapped;
    return TUTTI_OK;
}

void shm_let_dump(void *memory, size_t size_bytes, bool lets)
{
    (void)madvise(memory, size_bytes, lets ? MADV_DODUMP : MADV_DONTDUMP);
}

void shm_unmap(void *memory, size_t size_bytes)
{
    if (memory != NULL) munmap(memory, size_bytes);
}

enum tutti_status shm_reserve(int fd, size_t offset, size_t size_bytes)
{
    int result;
    do result = fallocate(fd, 0, (off_t)offset, (off_t)size_bytes);
    while (result != 0 && errno == EINTR);
    if (result == 0) return TUTTI_OK;
    if (errno == ENOMEM) errno = ENOSPC;
    return error_system("reserving %zu bytes of shared memory", size_bytes);
}

void shm_release(int fd, size_t offset, size_t size_bytes)
{
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size_bytes);
}

enum tutti_status shm_check_foreign(int fd, size_t size_bytes)
{
    struct stat stat;
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &stat) != 0 ||
        (size_t)stat.st_size < size_bytes)
        return error_set(TUTTI_AUTH_FAILED,
                         "a peer sent a descriptor that is not sealed shared memory of %zu bytes",
                         size_bytes);
    return TUTTI_OK;
}
