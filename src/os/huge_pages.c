#include "os/huge_pages.h"

#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { USES_OF_AN_ANSWER = 64, MISSES_A_QUESTION = 16, REGIONS = 4 };

/* As in linux/fs.h since Linux 6.7; the headers may be older than the kernel. */
struct scanned_region {
    uint64_t start, end, categories;
};
struct scan {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN _IOWR('f', 16, struct scan)
#define CATEGORY_HUGE (UINT64_C(1) << 6)

/* The number of pages that are not huge, at most `most`; -1: the kernel does not tell. A place with
 * more than REGIONS runs of them counts as having `most`. */
static int64_t count_small(uint64_t start, uint64_t end, uint64_t page, uint64_t most)
{
    struct scanned_region regions[REGIONS];
    struct scan scan = {.size = sizeof scan,
                        .start = start,
                        .end = end,
                        .vec = (uint64_t)(uintptr_t)regions,
                        .vec_len = REGIONS,
                        .max_pages = most,
                        .category_inverted = CATEGORY_HUGE,
                        .category_mask = CATEGORY_HUGE,
                        .return_mask = CATEGORY_HUGE};
    const int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    const int found = ioctl(fd, SCAN, &scan);
    close(fd);
    if (found < 0 || found > REGIONS) return -1;
    uint64_t pages = 0;
    for (int i = 0; i < found; i++) pages += (regions[i].end - regions[i].start) / page;
    return scan.walk_end < end ? (int64_t)most : (int64_t)pages;
}

/* The word in brackets is the one that holds: "always [madvise] never". */
static bool are_always_taken(void)
{
    char words[64];
    const int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const ssize_t length = read(fd, words, sizeof words - 1);
    close(fd);
    words[length > 0 ? length : 0] = '\0';
    return strstr(words, "[always]") != NULL;
}

bool huge_pages_hold(const void *address, size_t bytes)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)address,
                   start = at / page * page, end = (at + bytes + page - 1) / page * page,
                   most = (end - start) / page / 4 + 1;
    const int64_t small = count_small(start, end, page, most);
    return small < 0 ? are_always_taken() : (uint64_t)small < most;
}

bool huge_pages_ask(struct huge_pages_known *known, const void *address, size_t bytes)
{
    const uintptr_t place = ((uintptr_t)address + bytes / 2) / HUGE_PAGE_BYTES;
    struct huge_pages_answer *const answer =
        &known->answers[place % (sizeof known->answers / sizeof *known->answers)];
    if (answer->place != place || answer->uses_left == 0) {
        if (known->misses++ % MISSES_A_QUESTION != 0) return known->last;
        const uintptr_t begin = (uintptr_t)address, end = begin + bytes,
                        first = place * HUGE_PAGE_BYTES, last = first + HUGE_PAGE_BYTES;
        const uintptr_t from = begin > first ? begin : first, to = end < last ? end : last;
        known->last = huge_pages_hold((const void *)from, to - from);
        *answer = (struct huge_pages_answer){
            .place = place, .uses_left = USES_OF_AN_ANSWER, .is_huge = known->last};
    }
    answer->uses_left--;
    return answer->is_huge;
}
