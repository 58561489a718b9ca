#include "tests/gpu/cuda_standin_mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MEMORIES = 256, RESERVATIONS = 256, HEADER_BYTES = 4096, JUNK_BYTES = 1 << 20 };
#define MAGIC UINT64_C(0x6d61707065642e31)

/* What a file begins with. */
struct header {
    uint64_t magic, bytes;
    int32_t device, may_be_exported;
};

struct physical {
    unsigned names, mappings; /* what keeps it; none: the place is free */
    int file;
    uint64_t number;
    struct header header;
};

struct reservation {
    uint64_t begin, bytes, number; /* bytes 0: the place is free */
    char *reached; /* so that mappings side by side lie side by side on this side, too */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static struct physical memories[MEMORIES];
static struct reservation reservations[RESERVATIONS];
static char junk[JUNK_BYTES];
static enum mapped_manner manner; /* set once */

void mapped_init(enum mapped_manner how)
{
    manner = how;
}

/* Names are places, from 1 on. */
static struct physical *named(const char *what, cuda_memory memory)
{
    if (memory == 0 || memory > MEMORIES || memories[memory - 1].names == 0)
        standin_die("%s: no memory has the name %llu", what, memory);
    return &memories[memory - 1];
}

static int name(int file, const struct header *header, cuda_memory *memory)
{
    for (unsigned m = 0; m < MEMORIES; m++) {
        if (memories[m].names + memories[m].mappings > 0) continue;
        memories[m] = (struct physical){
            .names = 1, .file = file, .number = memory_new_number(), .header = *header};
        *memory = m + 1;
        return CUDA_OK;
    }
    close(file);
    return CUDA_OUT_OF_MEMORY;
}

static void let_go(struct physical *memory)
{
    if (memory->names + memory->mappings == 0) close(memory->file);
}

int mapped_create(int device, size_t bytes, bool may_be_exported, cuda_memory *memory)
{
    const struct header header = {
        .magic = MAGIC, .bytes = bytes, .device = device, .may_be_exported = may_be_exported};
    if (bytes == 0 || bytes % STANDIN_GRANULARITY != 0) return CUDA_INVALID_VALUE;
    const int file = memfd_create("cuda_standin_mapped", MFD_CLOEXEC);
    pthread_mutex_lock(&lock);
    memset(junk, 0xcb, sizeof junk);
    if (file < 0 || ftruncate(file, (off_t)(HEADER_BYTES + bytes)) != 0 ||
        pwrite(file, &header, sizeof header, 0) != (ssize_t)sizeof header ||
        pwrite(file, junk, sizeof junk, HEADER_BYTES) != (ssize_t)sizeof junk)
        standin_die("no physical memory: %s", strerror(errno));
    const int result = name(file, &header, memory);
    pthread_mutex_unlock(&lock);
    return result;
}

int mapped_retain(uint64_t address, cuda_memory *memory)
{
    struct memory_range range;
    int result = CUDA_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    if (memory_find(address, &range) && range.sort == MEMORY_MAPPED) {
        memories[range.slot].names++;
        *memory = range.slot + 1;
        result = CUDA_OK;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void mapped_release(cuda_memory memory)
{
    pthread_mutex_lock(&lock);
    struct physical *const released = named("cuMemRelease", memory);
    released->names--;
    let_go(released);
    pthread_mutex_unlock(&lock);
}

int mapped_export(cuda_memory memory, int *descriptor)
{
    int result = CUDA_NOT_SUPPORTED;
    pthread_mutex_lock(&lock);
    const struct physical *const exported = named("cuMemExportToShareableHandle", memory);
    if (exported->header.may_be_exported) {
        *descriptor = dup(exported->file);
        result = *descriptor >= 0 ? CUDA_OK : CUDA_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int mapped_import(int descriptor, cuda_memory *memory)
{
    struct header header;
    struct stat known;
    if (pread(descriptor, &header, sizeof header, 0) != (ssize_t)sizeof header ||
        header.magic != MAGIC || fstat(descriptor, &known) != 0 ||
        (uint64_t)known.st_size != HEADER_BYTES + header.bytes)
        return CUDA_INVALID_VALUE;
    const int file = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (file < 0) return CUDA_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    const int result = name(file, &header, memory);
    pthread_mutex_unlock(&lock);
    return result;
}

/* ------------------------------------------------------------------------------------ addresses */

static struct reservation *reserved(const char *what, uint64_t address, size_t bytes)
{
    for (unsigned r = 0; r < RESERVATIONS; r++) {
        struct reservation *const place = &reservations[r];
        if (address - place->begin < place->bytes && bytes <= place->bytes - (address - place->begin))
            return place;
    }
    standin_die("%s: %zu bytes at %#llx are not reserved", what, bytes, (unsigned long long)address);
}

static char *clear(char *at, size_t bytes)
{
    char *const cleared =
        mmap(at, bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at != NULL ? MAP_FIXED : 0), -1, 0);
    if (cleared == MAP_FAILED) standin_die("no address space: %s", strerror(errno));
    return cleared;
}

/* The lowest address behind which so much is not reserved. */
static uint64_t find_place(size_t bytes)
{
    uint64_t most, begin = memory_reservable(&most);
    const uint64_t end = begin + most;
    for (unsigned r = 0; r < RESERVATIONS; r++) {
        const struct reservation *const taken = &reservations[r];
        if (taken->bytes == 0 || begin >= taken->begin + taken->bytes ||
            taken->begin >= begin + bytes)
            continue;
        begin = taken->begin + taken->bytes;
        r = (unsigned)-1; /* from the beginning: they are in no order */
    }
    return bytes <= end - begin ? begin : 0;
}

int mapped_reserve(size_t bytes, uint64_t *address)
{
    int result = CUDA_OUT_OF_MEMORY;
    if (bytes == 0 || bytes % STANDIN_GRANULARITY != 0) return CUDA_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    const uint64_t begin = find_place(bytes);
    for (unsigned r = 0; r < RESERVATIONS && begin != 0 && result != CUDA_OK; r++) {
        if (reservations[r].bytes > 0) continue;
        reservations[r] = (struct reservation){.begin = begin,
                                               .bytes = bytes,
                                               .number = memory_new_number(),
                                               .reached = clear(NULL, bytes)};
        *address = begin;
        result = CUDA_OK;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void mapped_free(uint64_t address, size_t bytes)
{
    pthread_mutex_lock(&lock);
    struct reservation *const place = reserved("cuMemAddressFree", address, bytes);
    if (place->begin != address || place->bytes != bytes)
        standin_die("cuMemAddressFree: a reservation is freed as a whole");
    if (memory_is_in(address, bytes))
        standin_die("cuMemAddressFree: memory is mapped at %#llx", (unsigned long long)address);
    munmap(place->reached, bytes);
    *place = (struct reservation){.bytes = 0};
    pthread_mutex_unlock(&lock);
}

static uint64_t number_of(const struct reservation *place, const struct physical *physical)
{
    switch (manner) {
    case MAPPED_NUMBER_OF_MAPPING: return memory_new_number();
    case MAPPED_NUMBER_OF_MEMORY: return physical->number;
    case MAPPED_NO_NUMBER: return 0;
    default: return place->number;
    }
}

int mapped_map(uint64_t address, size_t bytes, cuda_memory memory)
{
    int result = CUDA_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct physical *const physical = named("cuMemMap", memory);
    const struct reservation *const place = reserved("cuMemMap", address, bytes);
    if (bytes > 0 && bytes % STANDIN_GRANULARITY == 0 && address % STANDIN_GRANULARITY == 0 &&
        bytes <= physical->header.bytes && !memory_is_in(address, bytes)) {
        char *const reached =
            mmap(place->reached + (address - place->begin), bytes, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_FIXED, physical->file, HEADER_BYTES);
        if (reached == MAP_FAILED) standin_die("no address space: %s", strerror(errno));
        madvise(reached, bytes, MADV_DONTFORK);
        const struct memory_range range = {.begin = address,
                                           .bytes = bytes,
                                           .reached = reached,
                                           .sort = MEMORY_MAPPED,
                                           .device = physical->header.device,
                                           .buffer = number_of(place, physical),
                                           .slot = (uint32_t)memory - 1};
        memory_insert(&range);
        physical->mappings++;
        result = CUDA_OK;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* The first of the mappings that fill that place; a part of one is none. */
static struct memory_range mapping_at(const char *what, uint64_t address, size_t bytes)
{
    struct memory_range range;
    if (!memory_find(address, &range) || range.sort != MEMORY_MAPPED || range.begin != address ||
        range.bytes > bytes)
        standin_die("%s: no mapping of %zu bytes is at %#llx", what, bytes,
                    (unsigned long long)address);
    return range;
}

void mapped_unmap(uint64_t address, size_t bytes)
{
    pthread_mutex_lock(&lock);
    for (size_t done = 0, part; done < bytes; done += part) {
        const struct memory_range range = mapping_at("cuMemUnmap", address + done, bytes - done);
        struct physical *const physical = &memories[range.slot];
        part = range.bytes;
        memory_remove(range.begin);
        clear(range.reached, part);
        physical->mappings--;
        let_go(physical);
    }
    pthread_mutex_unlock(&lock);
}

int mapped_give_access(uint64_t address, size_t bytes, int device, bool are_peers)
{
    pthread_mutex_lock(&lock);
    bool may = true;
    for (size_t done = 0, part; done < bytes && may; done += part) {
        struct memory_range range = mapping_at("cuMemSetAccess", address + done, bytes - done);
        part = range.bytes;
        may = are_peers || range.device == device;
        if (!may) continue;
        range.reached_by |= 1u << device;
        memory_remove(range.begin);
        memory_insert(&range);
    }
    pthread_mutex_unlock(&lock);
    return may ? CUDA_OK : CUDA_INVALID_DEVICE;
}

int mapped_range(const struct memory_range *range, uint64_t *base, size_t *bytes)
{
    if (manner == MAPPED_NO_RANGE) return CUDA_NOT_FOUND;
    pthread_mutex_lock(&lock);
    const struct reservation *const place = reserved("cuMemGetAddressRange", range->begin, 1);
    const bool is_whole = manner == MAPPED_RANGE_OF_RESERVATION;
    *base = is_whole ? place->begin : range->begin;
    *bytes = is_whole ? place->bytes : range->bytes;
    pthread_mutex_unlock(&lock);
    return CUDA_OK;
}

uint64_t mapped_types(const struct memory_range *range)
{
    pthread_mutex_lock(&lock);
    const bool may_be_exported = memories[range->slot].header.may_be_exported != 0;
    pthread_mutex_unlock(&lock);
    return may_be_exported ? CUDA_MEMORY_AS_DESCRIPTOR : 0;
}
