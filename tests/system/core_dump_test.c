/* A core dump of one rank contains the rank's own memory, and neither the memory of others nor
 * unused room: a dump of all that would allocate it, for every rank, in the memory that the ranks
 * share.
 *
 * If the system writes cores to files, the test has one written, and measures the memory behind the
 * shared objects. It reads the marks of the mappings in any case.
 *
 * ctest: label=nosan timeout=120
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/worlds/ranks.h"

enum { RANKS = 3, COUNT = 1 << 18, OWN_BYTES = COUNT * 4, BOARD_BYTES_MAX = 2 << 20 };
static const rlim_t CORE_BYTES_MAX = 256 << 20;

/* Of the library's mappings in this process: bytes that a core dump has, and all. */
static int measure_mappings(size_t *dumped_bytes, size_t *all_bytes)
{
    FILE *const file = fopen("/proc/self/smaps", "r");
    if (file == NULL) return -1;
    char line[512];
    bool is_ours = false;
    size_t kib = 0;
    *dumped_bytes = *all_bytes = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            is_ours = strstr(line, "memfd:tutti-") != NULL;
        if (!is_ours) continue;
        sscanf(line, "Size: %zu kB", &kib);
        if (strncmp(line, "VmFlags:", 8) != 0) continue;
        *all_bytes += kib << 10;
        if (strstr(line, " dd") == NULL) *dumped_bytes += kib << 10;
    }
    fclose(file);
    return 0;
}

/* Bytes behind the library's shared objects that this process has open; -1. */
static long long backed_bytes(void)
{
    DIR *const directory = opendir("/proc/self/fd");
    if (directory == NULL) return -1;
    long long bytes = 0;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char name[64] = "";
        struct stat stat;
        if (readlinkat(dirfd(directory), entry->d_name, name, sizeof name - 1) < 0) continue;
        if (strstr(name, "memfd:tutti-") == NULL || fstat(atoi(entry->d_name), &stat) != 0)
            continue;
        bytes += (long long)stat.st_blocks * 512;
    }
    closedir(directory);
    return bytes;
}

static bool cores_are_files(void)
{
    char pattern[128] = "";
    FILE *const file = fopen("/proc/sys/kernel/core_pattern", "r");
    if (file == NULL) return false;
    const bool is_read = fgets(pattern, sizeof pattern, file) != NULL;
    fclose(file);
    return is_read && pattern[0] != '|' && strchr(pattern, '/') == NULL;
}

/* In a child, whose folder is empty. */
static void dump_core(const char *folder)
{
    const struct rlimit limit = {CORE_BYTES_MAX, CORE_BYTES_MAX};
    if (chdir(folder) != 0 || setrlimit(RLIMIT_CORE, &limit) != 0) _exit(1);
    abort();
}

/* Removes what is in the folder, and it; the sum of sizes. */
static long long remove_cores(const char *folder)
{
    DIR *const directory = opendir(folder);
    long long bytes = 0;
    if (directory == NULL) return -1;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        struct stat stat;
        if (entry->d_name[0] == '.' && entry->d_name[1] != 'c') continue;
        if (fstatat(dirfd(directory), entry->d_name, &stat, 0) == 0)
            bytes += (long long)stat.st_size;
        unlinkat(dirfd(directory), entry->d_name, 0);
    }
    closedir(directory);
    rmdir(folder);
    return bytes;
}

static int expect_small_core(int rank)
{
    char folder[] = "/tmp/tutti-core-XXXXXX";
    int status = 0;
    RANKS_EXPECT(mkdtemp(folder) != NULL);
    const long long before = backed_bytes();
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) dump_core(folder);
    const bool is_over = pid > 0 && waitpid(pid, &status, 0) == pid;
    const long long core_bytes = remove_cores(folder), after = backed_bytes();
    RANKS_EXPECT(is_over && WIFSIGNALED(status));
    if (!WCOREDUMP(status)) {
        fprintf(stderr, "no core can be had here\n");
        return 0;
    }
    fprintf(stderr, "a core of %lld bytes; shared objects had %lld bytes before it, %lld after it\n",
            core_bytes, before, after);
    RANKS_EXPECT(before > 0 && after == before);
    RANKS_EXPECT(core_bytes > OWN_BYTES); /* its own memory is there */
    return 0;
}

static int use_and_dump(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    static int32_t private_data[COUNT];
    void *data, *more;
    size_t dumped_bytes, all_bytes;
    RANKS_EXPECT(tutti_mem_alloc(OWN_BYTES, &data) == TUTTI_OK);
    RANKS_EXPECT(tutti_mem_alloc(OWN_BYTES, &more) == TUTTI_OK);
    for (int i = 0; i < 2; i++) {
        RANKS_EXPECT(tutti_allreduce(data, data, COUNT, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
        RANKS_EXPECT(tutti_allreduce(private_data, private_data, COUNT, TUTTI_INT32, TUTTI_SUM,
                                     comm) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_mem_free(more) == TUTTI_OK);
    RANKS_EXPECT(measure_mappings(&dumped_bytes, &all_bytes) == 0);
    fprintf(stderr, "rank %d: a core has %zu of %zu bytes that are mapped\n", rank, dumped_bytes,
            all_bytes);
    RANKS_EXPECT(all_bytes > dumped_bytes);
    RANKS_EXPECT(dumped_bytes >= OWN_BYTES && dumped_bytes <= OWN_BYTES + BOARD_BYTES_MAX);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == 0 && cores_are_files() && expect_small_core(rank) != 0) return 1;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_mem_free(data) == TUTTI_OK);
    return 0;
}

static void a_core_dump_has_what_the_rank_owns_and_fills_no_holes(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    assert_int_equal(ranks_run(RANKS, NULL, use_and_dump, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_core_dump_has_what_the_rank_owns_and_fills_no_holes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
