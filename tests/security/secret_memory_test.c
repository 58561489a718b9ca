/* The traces of a job's secret in the memory of a process: while there is a communicator over TCP,
 * the key made from it lies in one place; after the last communicator is freed, neither the key nor
 * the secret lies anywhere.
 *
 * A child makes both, so that this process knows them only inverted, and does not find copies of
 * its own.
 *
 * ctest: label=nosan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "bootstrap/secret.h"
#include "connect/port.h"
#include "tests/worlds/ranks.h"
#include "tutti/tutti.h"

enum { SECRET_BYTES = 40, NEEDLE_BYTES = 16, REGIONS_MAX = 4096 };

/* Inverted. */
struct known {
    unsigned char secret[SECRET_BYTES], key[MAC_BYTES];
    bool has_openssl;
};
static struct known known;
static char path[] = "/tmp/tutti-secret-XXXXXX";

static void invert(unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) bytes[i] ^= 0xff;
}

static int make_secret(int file, int report)
{
    struct known made = {.has_openssl = true};
    struct secret_key key;
    if (getrandom(made.secret, sizeof made.secret, 0) != sizeof made.secret) return 1;
    for (int i = 0; i < SECRET_BYTES; i++)
        made.secret[i] = (unsigned char)('0' + made.secret[i] % 64);
    if (write(file, made.secret, sizeof made.secret) != sizeof made.secret) return 2;
    made.has_openssl = secret_from_bytes(made.secret, sizeof made.secret, &key) == TUTTI_OK;
    memcpy(made.key, key.bytes, sizeof made.key);
    invert(made.secret, sizeof made.secret);
    invert(made.key, sizeof made.key);
    return write(report, &made, sizeof made) == sizeof made ? 0 : 3;
}

static int begin(void **state)
{
    (void)state;
    int report[2], status;
    const int file = mkstemp(path);
    if (file < 0 || pipe(report) != 0) return -1;
    const pid_t child = fork();
    if (child == 0) _exit(make_secret(file, report[1]));
    const bool is_known = read(report[0], &known, sizeof known) == sizeof known;
    waitpid(child, &status, 0);
    close(file);
    close(report[0]);
    close(report[1]);
    setenv("TUTTI_SECRET_FILE", path, 1);
    setenv("TUTTI_TRANSPORT", "tcp", 1);
    setenv("TUTTI_ENCRYPTION", "on", 1);
    setenv("TUTTI_LOG", "off", 0);
    return is_known && status == 0 ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    return unlink(path);
}

/* Memory that this process can write to. Looked up before the calls that are judged, because that
 * needs a stack as deep as theirs. */
static struct {
    uintptr_t first, last;
} regions[REGIONS_MAX];
static int region_count;

static void find_regions(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    assert_non_null(maps);
    region_count = 0;
    while (fgets(line, sizeof line, maps) != NULL) {
        uintptr_t first, last;
        char rights[5];
        if (sscanf(line, "%lx-%lx %4s", &first, &last, rights) != 3) continue;
        if (rights[0] != 'r' || rights[1] != 'w' || rights[3] == 's') continue; /* shared: data */
        assert_true(region_count < REGIONS_MAX);
        regions[region_count].first = first;
        regions[region_count++].last = last;
    }
    fclose(maps);
}

/* How often it lies there. Uses little stack, and calls nobody. */
static unsigned count_of(const unsigned char *inverted)
{
    unsigned count = 0;
    for (int i = 0; i < region_count; i++)
        for (uintptr_t at = regions[i].first; at + NEEDLE_BYTES <= regions[i].last; at++) {
            const volatile unsigned char *bytes = (const volatile unsigned char *)at;
            int same = 0;
            while (same < NEEDLE_BYTES && (bytes[same] ^ inverted[same]) == 0xff) same++;
            count += same == NEEDLE_BYTES;
        }
    return count;
}

static _Atomic unsigned keys_meanwhile, secrets_meanwhile;

static int use_it(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    int32_t sum = 1;
    RANKS_EXPECT(tutti_allreduce(&sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(sum == size);
    if (rank == 0) find_regions();
    if (rank == 0) keys_meanwhile = count_of(known.key);
    if (rank == 0) secrets_meanwhile = count_of(known.secret);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    return 0;
}

static void nothing_is_left_of_it(void **state)
{
    (void)state;
    if (!known.has_openssl) {
        print_message("a build without OpenSSL\n");
        skip();
    }
    const struct ranks_options options = {.kind = RANKS_THREADS};
    assert_int_equal(ranks_run(2, &options, use_it, NULL), 0);
    assert_int_equal(secrets_meanwhile, 0);
    assert_int_equal(keys_meanwhile, 1); /* the door's; it finds at all what is there */
    find_regions();
    assert_int_equal(count_of(known.secret), 0);
    assert_int_equal(count_of(known.key), 0);
}

/* Looks right after the call, while anything that the call left on the stack is still there. */
static void only_the_listener_keeps_the_key(void **state)
{
    (void)state;
    struct net_address address;
    if (!known.has_openssl) skip();
    find_regions();
    const enum tutti_status status = port_open(NULL, &address);
    const unsigned keys = count_of(known.key);
    const unsigned secrets = count_of(known.secret);
    port_close();
    const unsigned keys_then = count_of(known.key);
    assert_int_equal(status, TUTTI_OK);
    assert_int_equal(secrets, 0);
    assert_int_equal(keys, 1);
    assert_int_equal(keys_then, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_left_of_it),
        cmocka_unit_test(only_the_listener_keeps_the_key),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
