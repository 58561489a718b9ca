#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "os/shm.h"

enum { BYTES = 1 << 16, NOEXEC_SEAL = 0x0008, SEAL_EXEC = 0x0020 };

/* Whether the system acts as kernels before 6.3 do. */
static bool kernel_is_old;

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags)
{
    if (!kernel_is_old || (flags & NOEXEC_SEAL) == 0) return __real_memfd_create(name, flags);
    errno = EINVAL;
    return -1;
}

static void check_use(int fd)
{
    void *memory;
    struct stat about;
    assert_int_equal(fstat(fd, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    assert_int_equal(about.st_size, BYTES);
    assert_int_equal(shm_check_foreign(fd, BYTES), TUTTI_OK);
    assert_int_equal(shm_reserve(fd, 0, BYTES), TUTTI_OK);
    assert_int_equal(shm_map(fd, 0, BYTES, &memory), TUTTI_OK);
    memset(memory, 7, BYTES);
    shm_unmap(memory, BYTES);
    assert_int_equal(ftruncate(fd, BYTES / 2), -1);
}

static void it_can_never_be_executed(void **state)
{
    (void)state;
    int fd;
    const int probe = __real_memfd_create("probe", MFD_CLOEXEC | NOEXEC_SEAL);
    if (probe < 0) {
        print_message("the kernel does not know MFD_NOEXEC_SEAL\n");
        skip();
    }
    close(probe);
    assert_int_equal(shm_open_new("test", BYTES, &fd), TUTTI_OK);
    assert_true((fcntl(fd, F_GET_SEALS) & SEAL_EXEC) != 0);
    assert_int_equal(fchmod(fd, 0700), -1);
    check_use(fd);
    close(fd);
}

static void older_kernels_have_it_without_that(void **state)
{
    (void)state;
    int fd;
    kernel_is_old = true;
    assert_int_equal(shm_open_new("test", BYTES, &fd), TUTTI_OK);
    kernel_is_old = false;
    assert_int_equal(fcntl(fd, F_GET_SEALS) & SEAL_EXEC, 0);
    check_use(fd);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_can_never_be_executed),
        cmocka_unit_test(older_kernels_have_it_without_that),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
