/* Memory like a device's: whoever touches it faults, but for kernels, and for links and tests that
 * say so. Its kernels open the memory of what a call says lies there, and nothing else, for as long
 * as they run; they fail when it does not lie there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "kernel/kernel.h"
#include "tests/engine/engine_dummy.h"

enum { REGIONS_MAX = 4096, PAGE_BYTES = 4096 };

struct region {
    char *begin;
    size_t bytes; /* whole pages */
    int protection;
};

static struct region regions[REGIONS_MAX];
static unsigned region_count;
static bool is_touched; /* by a link or a test */

static void protect(struct region *region, int protection)
{
    if (is_touched || region->protection == protection) return;
    region->protection = protection;
    assert_int_equal(mprotect(region->begin, region->bytes, protection), 0);
}

static struct region *find(const void *address, size_t bytes)
{
    const char *const at = address;
    for (unsigned i = 0; i < region_count; i++)
        if (at >= regions[i].begin && at + bytes <= regions[i].begin + regions[i].bytes)
            return &regions[i];
    fail_msg("what is said to lie far away does not");
    abort();
}

static void *far_allocate(const struct memory_kind *kind, size_t bytes)
{
    (void)kind;
    assert_true(region_count < REGIONS_MAX);
    const size_t whole = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    char *memory = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    regions[region_count++] = (struct region){memory, whole, PROT_NONE};
    return memory;
}

static void far_release(const struct memory_kind *kind, void *address, size_t bytes)
{
    (void)kind;
    struct region *region = find(address, bytes);
    assert_ptr_equal(region->begin, address);
    munmap(address, region->bytes);
    *region = regions[--region_count];
}

static const struct memory_kind far_kind = {
    .name = "far", .allocate = far_allocate, .release = far_release};

static void set_all(int protection)
{
    for (unsigned i = 0; i < region_count; i++) protect(&regions[i], protection);
}

static void begin_touching(void)
{
    assert_false(is_touched);
    set_all(PROT_READ | PROT_WRITE);
    is_touched = true;
}

static void end_touching(void)
{
    assert_true(is_touched);
    is_touched = false;
    set_all(PROT_NONE);
}

static void open_operand(const void *address, const struct kernel_format *format, size_t bytes,
                         int protection)
{
    assert_null(format->encoding);
    if (format->memory == NULL) return;
    assert_ptr_equal(format->memory, &far_kind);
    protect(find(address, bytes), protection);
}

/* Opens sources first, because a destination may be one of them. */
static void far_reduce(const struct kernel_call *call)
{
    const struct kernel_formats *const formats = call->formats;
    const size_t bytes = call->count * dtype_size(call->dtype);
    assert_non_null(formats);
    assert_null(call->also);
    for (unsigned i = 0; i < call->source_count; i++)
        open_operand(call->sources[i], &formats->sources[i], bytes, PROT_READ);
    open_operand(call->destination, &formats->destination, bytes, PROT_READ | PROT_WRITE);
    for (unsigned i = 0; i < call->other_count; i++)
        open_operand(call->others[i], &formats->others[i], bytes, PROT_READ | PROT_WRITE);
    kernel_get(KERNEL_SCALAR, call->dtype, OP_SUM).reduce(call);
    set_all(PROT_NONE);
}

static const struct kernel_set far_kernels = {far_reduce, far_reduce};

const struct engine_dummy engine_dummy_far = {.name = "far memory",
                                              .memory = &far_kind,
                                              .begin_touching = begin_touching,
                                              .end_touching = end_touching,
                                              .kernels = &far_kernels};
