/* Random bytes for expat, whose hashes they protect. Expat of an archive would take this function
 * from glibc 2.36, so a program of a wheel has its own, and starts with older ones, too. Programs
 * that do not read XML have it for nothing, as it is small.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/random.h>

/* As in glibc: it always fills all of them, and may be called by any thread. */
void arc4random_buf(void *bytes, size_t size);

void arc4random_buf(void *bytes, size_t size)
{
    char *at = bytes;
    while (size > 0) {
        const ssize_t got = getrandom(at, size, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) abort();
        at += got;
        size -= (size_t)got;
    }
}
