#include "tests/gpu/cuda_standin_memory.h"

#include <assert.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SLOTS = 65536, /* allocations of a device at a time */
    GRAIN = 512,   /* allocations begin at multiples, and have a gap behind them */
    BLOCK =
        2 << 20, /* what is exported; smaller allocations share one, and no other begins or ends in it */
    JUNK_BYTES = 1 << 20, /* so much of an allocation is filled, before and after */
    PAGE = 4096,
    REASON_BYTES = 160
};
#define DEVICE_BYTES (UINT64_C(8) << 30)
#define IMPORT_BYTES (UINT64_C(32) << 30)
#define RESERVABLE_BYTES (UINT64_C(32) << 30)
#define TABLE_BYTES (SLOTS * sizeof(uint64_t))
#define HANDLE_MAGIC UINT32_C(0x53544e44)

/* What a handle holds. */
struct handle {
    uint32_t magic;
    int32_t pid, fd, device;
    uint64_t inode, offset, bytes, buffer;
    uint32_t slot;
};

struct file {
    int fd;
    uint64_t inode;
    char *memory; /* all of it but the table */
    _Atomic(uint64_t) *table;
    uint32_t slot; /* where to look for a free one first */
};

static struct {
    int device_count;
    uint64_t hidden, hidden_bytes; /* the program's side */
    struct file files[STANDIN_DEVICES_MAX];
    pthread_rwlock_t lock;       /* of all that follows */
    struct memory_range *ranges; /* by address */
    size_t count, room;
    uint64_t buffers;
    unsigned counts[MEMORY_MAPPED + 1];
} state = {.lock = PTHREAD_RWLOCK_INITIALIZER};

/* Grows whenever a range goes, so that what threads remember of ranges counts no more. */
static _Atomic uint64_t epoch = 1;

_Noreturn void standin_die(const char *format, ...)
{
    char line[STANDIN_LINE_BYTES] = "cuda stand-in: ";
    const size_t begin = strlen(line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + begin, sizeof line - begin - 1, format, arguments);
    va_end(arguments);
    const size_t length = strlen(line);
    line[length] = '\n';
    if (write(STDERR_FILENO, line, length + 1) < 0) abort();
    abort();
}

/* The host touched memory of a device: says so, and lets it fault once more, now for whoever would
 * have been told otherwise. */
static struct sigaction before;
static void say_fault(int signal, siginfo_t *info, void *context)
{
    static const char line[] =
        "cuda stand-in: the host touches memory of a device, which it cannot reach\n";
    (void)signal;
    (void)context;
    if (memory_is_hidden((uintptr_t)info->si_addr)) {
        void *frames[24];
        const ssize_t written = write(STDERR_FILENO, line, sizeof line - 1);
        (void)written;
        backtrace_symbols_fd(frames, backtrace(frames, sizeof frames / sizeof *frames),
                             STDERR_FILENO);
    }
    sigaction(SIGSEGV, &before, NULL);
}

static void *map(void *at, size_t bytes, int access, int fd, uint64_t offset)
{
    const int flags = (fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS) | MAP_NORESERVE |
                      (at != NULL ? MAP_FIXED : 0);
    void *const memory = mmap(at, bytes, access, flags, fd, (off_t)offset);
    if (memory == MAP_FAILED) return NULL;
    madvise(memory, bytes, MADV_DONTFORK);
    madvise(memory, bytes, MADV_DONTDUMP);
    return memory;
}

static void init_file(struct file *file)
{
    struct stat known;
    file->fd = memfd_create("cuda_standin", MFD_CLOEXEC);
    if (file->fd < 0 || ftruncate(file->fd, (off_t)(TABLE_BYTES + DEVICE_BYTES)) != 0 ||
        fstat(file->fd, &known) != 0)
        standin_die("no memory for a device: %s", strerror(errno));
    file->inode = known.st_ino;
    file->table = map(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE, file->fd, 0);
    file->memory = map(NULL, DEVICE_BYTES, PROT_READ | PROT_WRITE, file->fd, TABLE_BYTES);
    if (file->table == NULL || file->memory == NULL)
        standin_die("no address space for a device: %s", strerror(errno));
}

void memory_init(int device_count)
{
    const struct sigaction action = {.sa_sigaction = say_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    void *frame;
    backtrace(&frame, 1); /* the first time it loads a library, which a handler must not */
    state.device_count = device_count;
    state.hidden_bytes = (uint64_t)device_count * DEVICE_BYTES + IMPORT_BYTES + RESERVABLE_BYTES;
    state.hidden = (uintptr_t)map(NULL, state.hidden_bytes + BLOCK, PROT_NONE, -1, 0);
    if (state.hidden == 0) standin_die("no address space for devices: %s", strerror(errno));
    state.hidden = (state.hidden + BLOCK - 1) / BLOCK * BLOCK;
    for (int d = 0; d < device_count; d++) init_file(&state.files[d]);
    sigaction(SIGSEGV, &action, &before);
}

bool memory_is_hidden(uint64_t address)
{
    return address - state.hidden < state.hidden_bytes;
}

/* The first range that ends behind the address. */
static size_t place_of(uint64_t address)
{
    size_t low = 0, high = state.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (state.ranges[middle].begin + state.ranges[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct memory_range *range_of(uint64_t address)
{
    const size_t place = place_of(address);
    return place < state.count && state.ranges[place].begin <= address ? &state.ranges[place] : NULL;
}

static struct memory_range *insert(const struct memory_range *range)
{
    if (state.count == state.room) {
        const size_t room = state.room == 0 ? 64 : 2 * state.room;
        struct memory_range *const ranges = realloc(state.ranges, room * sizeof *ranges);
        if (ranges == NULL) standin_die("out of memory");
        state.ranges = ranges;
        state.room = room;
    }
    const size_t place = place_of(range->begin);
    memmove(&state.ranges[place + 1], &state.ranges[place],
            (state.count - place) * sizeof *state.ranges);
    state.ranges[place] = *range;
    state.count++;
    state.counts[range->sort]++;
    return &state.ranges[place];
}

static void erase(struct memory_range *range)
{
    const size_t place = (size_t)(range - state.ranges);
    state.counts[range->sort]--;
    state.count--;
    memmove(range, range + 1, (state.count - place) * sizeof *range);
    atomic_fetch_add(&epoch, 1);
}

/* The lowest place between two addresses for so many bytes with a gap behind them; 0: there is
 * none. */
static uint64_t find_room(uint64_t begin, uint64_t end, uint64_t bytes, uint64_t grain)
{
    uint64_t address = begin;
    for (size_t r = place_of(begin); r < state.count && state.ranges[r].begin < end; r++) {
        if (state.ranges[r].begin >= address && state.ranges[r].begin - address >= bytes + grain)
            break;
        address = (state.ranges[r].begin + state.ranges[r].bytes + 2 * grain - 1) / grain * grain;
    }
    return address < end && end - address >= bytes + grain ? address : 0;
}

/* Small allocations come from the front of a device's memory, and never lie in two blocks. */
static uint64_t find_place(uint64_t window, uint64_t bytes)
{
    const uint64_t border = window + DEVICE_BYTES / 8;
    if (bytes + GRAIN > BLOCK) return find_room(border, window + DEVICE_BYTES, bytes, BLOCK);
    for (uint64_t block = window; block < border; block += BLOCK) {
        const uint64_t address = find_room(block, block + BLOCK, bytes, GRAIN);
        if (address != 0) return address;
    }
    return 0;
}

static uint64_t window_of(int device)
{
    return state.hidden + (uint64_t)device * DEVICE_BYTES;
}

static void fill_with_junk(const struct memory_range *range, int junk)
{
    memset(range->reached, junk, range->bytes < JUNK_BYTES ? range->bytes : JUNK_BYTES);
}

static bool allocate_of_device(struct memory_range *range)
{
    struct file *const file = &state.files[range->device];
    const uint64_t window = window_of(range->device);
    range->begin = find_place(window, range->bytes);
    if (range->begin == 0) return false;
    range->reached = file->memory + (range->begin - window);
    range->reached_by = 1u << range->device;
    unsigned tries = 0;
    while (atomic_load(&file->table[file->slot]) != 0) {
        file->slot = (file->slot + 1) % SLOTS;
        if (++tries == SLOTS) return false;
    }
    range->slot = file->slot;
    atomic_store(&file->table[range->slot], range->buffer);
    return true;
}

static bool allocate_of_host(struct memory_range *range)
{
    range->reached = map(NULL, range->bytes, PROT_READ | PROT_WRITE, -1, 0);
    range->begin = (uintptr_t)range->reached;
    range->reached_by = UINT32_MAX;
    return range->reached != NULL;
}

int memory_allocate(enum memory_sort sort, int device, size_t bytes, uint64_t *address)
{
    struct memory_range range = {.sort = sort, .device = device, .bytes = bytes};
    if (bytes == 0) return CUDA_INVALID_VALUE;
    if (bytes > DEVICE_BYTES) return CUDA_OUT_OF_MEMORY;
    pthread_rwlock_wrlock(&state.lock);
    range.buffer = ++state.buffers;
    const bool is_there = sort == MEMORY_PINNED || sort == MEMORY_MANAGED
                              ? allocate_of_host(&range)
                              : allocate_of_device(&range);
    if (is_there) {
        fill_with_junk(&range, 0xcb);
        insert(&range);
        *address = range.begin;
    }
    pthread_rwlock_unlock(&state.lock);
    return is_there ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

static void release_of_device(const struct memory_range *range)
{
    struct file *const file = &state.files[range->device];
    const uint64_t offset = (uint64_t)(range->reached - file->memory);
    const uint64_t begin = (offset + PAGE - 1) / PAGE * PAGE;
    const uint64_t end = (offset + range->bytes) / PAGE * PAGE;
    atomic_store(&file->table[range->slot], 0);
    fill_with_junk(range, 0xdb);
    if (range->bytes > JUNK_BYTES && end > begin)
        fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  (off_t)(TABLE_BYTES + begin), (off_t)(end - begin));
}

static void release_import(const struct memory_range *range)
{
    map((void *)(uintptr_t)(range->begin - range->block_lead), range->window_bytes, PROT_NONE, -1,
        0);
    munmap(range->window, range->window_bytes);
    munmap((void *)(uintptr_t)range->table, TABLE_BYTES);
}

void memory_release(const char *what, uint32_t sorts, uint64_t address)
{
    pthread_rwlock_wrlock(&state.lock);
    struct memory_range *const range = range_of(address);
    if (range == NULL)
        standin_die("%s: nothing is at %#llx: it was freed already, or never there", what,
                    (unsigned long long)address);
    if (range->begin != address)
        standin_die("%s: %#llx lies in an allocation and does not begin it", what,
                    (unsigned long long)address);
    if ((sorts >> range->sort & 1) == 0)
        standin_die("%s: %#llx was made by another function", what, (unsigned long long)address);
    if (range->opened <= 1) {
        if (range->sort == MEMORY_IMPORTED)
            release_import(range);
        else if (range->sort == MEMORY_PINNED || range->sort == MEMORY_MANAGED)
            munmap(range->reached, range->bytes);
        else
            release_of_device(range);
        erase(range);
    } else {
        range->opened--;
    }
    pthread_rwlock_unlock(&state.lock);
}

static bool is_mapped(const void *memory, size_t bytes)
{
    enum { AT_ONCE = 4096 };
    unsigned char is_resident[AT_ONCE];
    const uintptr_t end = ((uintptr_t)memory + bytes + PAGE - 1) / PAGE * PAGE;
    for (uintptr_t page = (uintptr_t)memory / PAGE * PAGE; page < end; page += AT_ONCE * PAGE) {
        const size_t left = end - page;
        if (mincore((void *)page, left < AT_ONCE * PAGE ? left : AT_ONCE * PAGE, is_resident) != 0)
            return false;
    }
    return true;
}

int memory_register(void *memory, size_t bytes)
{
    struct memory_range range = {.sort = MEMORY_REGISTERED, .bytes = bytes};
    int result = CUDA_OK;
    range.begin = (uintptr_t)memory;
    range.reached = memory;
    range.reached_by = UINT32_MAX;
    if (bytes == 0 || memory_is_hidden(range.begin) || !is_mapped(memory, bytes))
        return CUDA_INVALID_VALUE;
    pthread_rwlock_wrlock(&state.lock);
    const size_t place = place_of(range.begin);
    if (place < state.count && state.ranges[place].begin < range.begin + bytes) {
        result = CUDA_HOST_MEMORY_ALREADY_REGISTERED;
    } else {
        range.buffer = ++state.buffers;
        insert(&range);
    }
    pthread_rwlock_unlock(&state.lock);
    return result;
}

int memory_unregister(void *memory)
{
    pthread_rwlock_wrlock(&state.lock);
    struct memory_range *const range = range_of((uintptr_t)memory);
    const bool is_there =
        range != NULL && range->sort == MEMORY_REGISTERED && range->begin == (uintptr_t)memory;
    if (is_there) erase(range);
    pthread_rwlock_unlock(&state.lock);
    return is_there ? CUDA_OK : CUDA_HOST_MEMORY_NOT_REGISTERED;
}

bool memory_find(uint64_t address, struct memory_range *range)
{
    pthread_rwlock_rdlock(&state.lock);
    const struct memory_range *const found = range_of(address);
    if (found != NULL) *range = *found;
    pthread_rwlock_unlock(&state.lock);
    return found != NULL;
}

/* What a thread remembers of ranges: twins come for every few bytes. */
enum { REMEMBERED = 8 };
static _Thread_local struct {
    uint64_t epoch;
    unsigned next;
    int device;
    struct memory_range ranges[REMEMBERED];
} remembered;

static const struct memory_range *recall(int device, uint64_t address, size_t bytes)
{
    if (remembered.epoch != atomic_load(&epoch) || remembered.device != device) return NULL;
    for (unsigned r = 0; r < REMEMBERED; r++) {
        const struct memory_range *const range = &remembered.ranges[r];
        if (address - range->begin < range->bytes && bytes <= range->bytes - (address - range->begin))
            return range;
    }
    return NULL;
}

static void expect_access(const char *what, int device, uint64_t address,
                          const struct memory_range *range)
{
    if ((range->reached_by >> device & 1) == 0)
        standin_die("%s touches %#llx, which is memory of device %d, on device %d", what,
                    (unsigned long long)address, range->device, device);
}

/* Memory that was mapped by hand may go on in the next mapping of its reservation, which is the
 * next one on this side, too. */
static void expect_more(const char *what, int device, uint64_t address, size_t bytes,
                        const struct memory_range *first)
{
    struct memory_range last = *first;
    while (bytes > last.begin + last.bytes - address) {
        struct memory_range next;
        if (last.sort != MEMORY_MAPPED || !memory_find(last.begin + last.bytes, &next) ||
            next.sort != MEMORY_MAPPED || next.reached != last.reached + last.bytes)
            standin_die("%s touches %zu bytes at %#llx, beyond the end of an allocation of %llu "
                        "bytes",
                        what, bytes, (unsigned long long)address, (unsigned long long)first->bytes);
        expect_access(what, device, next.begin, &next);
        last = next;
    }
}

static const struct memory_range *look_up(const char *what, int device, uint64_t address,
                                          size_t bytes)
{
    const uint64_t now = atomic_load(&epoch);
    struct memory_range range;
    if (!memory_find(address, &range))
        standin_die("%s touches %zu bytes at %#llx, where nothing is that device %d reaches%s",
                    what, bytes, (unsigned long long)address, device,
                    memory_is_hidden(address) ? ": it was freed, or never there" : "");
    expect_access(what, device, address, &range);
    expect_more(what, device, address, bytes, &range);
    if (remembered.epoch != now || remembered.device != device) {
        memset(&remembered, 0, sizeof remembered);
        remembered.epoch = now;
        remembered.device = device;
    }
    struct memory_range *const place = &remembered.ranges[remembered.next++ % REMEMBERED];
    *place = range;
    return place;
}

void *memory_reach(const char *what, int device, uint64_t address, size_t bytes)
{
    const struct memory_range *range = recall(device, address, bytes);
    if (range == NULL) range = look_up(what, device, address, bytes);
    if (range->sort == MEMORY_IMPORTED &&
        atomic_load(&range->table[range->slot]) != range->owner_buffer)
        standin_die("%s touches imported memory, which its owner (pid %d) has freed", what,
                    range->owner_pid);
    return range->reached + (address - range->begin);
}

int memory_export(uint64_t address, struct cuda_ipc_handle *handle)
{
    struct memory_range range;
    if (!memory_find(address, &range) || range.sort != MEMORY_DEVICE) return CUDA_INVALID_VALUE;
    if (range.begin != address)
        standin_die("cuIpcGetMemHandle: %#llx lies in an allocation and does not begin it",
                    (unsigned long long)address);
    const struct file *const file = &state.files[range.device];
    const struct handle made = {.magic = HANDLE_MAGIC,
                                .pid = getpid(),
                                .fd = file->fd,
                                .device = range.device,
                                .inode = file->inode,
                                .offset = (uint64_t)(range.reached - file->memory),
                                .bytes = range.bytes,
                                .buffer = range.buffer,
                                .slot = range.slot};
    static_assert(sizeof made <= sizeof handle->bytes, "it has to fit");
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &made, sizeof made);
    return CUDA_OK;
}

static int open_file(const struct handle *handle)
{
    char path[64];
    struct stat known;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)handle->pid, (int)handle->fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return -1;
    if (fstat(fd, &known) == 0 && known.st_ino == handle->inode &&
        (uint64_t)known.st_size == TABLE_BYTES + DEVICE_BYTES)
        return fd;
    close(fd);
    return -1;
}

static int map_import(int fd, const struct handle *handle, struct memory_range *range)
{
    const uint64_t lead = handle->offset % BLOCK, from = TABLE_BYTES + handle->offset - lead;
    range->window_bytes = (lead + handle->bytes + BLOCK - 1) / BLOCK * BLOCK;
    range->block_lead = lead;
    range->block_rest = range->window_bytes - lead - handle->bytes;
    const uint64_t imports = window_of(state.device_count);
    range->begin = find_room(imports, imports + IMPORT_BYTES, range->window_bytes, BLOCK);
    if (range->begin == 0) return CUDA_OUT_OF_MEMORY;
    const _Atomic(uint64_t) *const table = map(NULL, TABLE_BYTES, PROT_READ, fd, 0);
    if (table == NULL) return CUDA_OUT_OF_MEMORY;
    range->table = table;
    range->window = map(NULL, range->window_bytes, PROT_READ | PROT_WRITE, fd, from);
    const bool is_live = atomic_load(&table[handle->slot]) == handle->buffer;
    if (range->window == NULL || !is_live) {
        if (range->window != NULL) munmap(range->window, range->window_bytes);
        munmap((void *)(uintptr_t)table, TABLE_BYTES);
        return is_live ? CUDA_OUT_OF_MEMORY : CUDA_INVALID_HANDLE;
    }
    range->begin += lead;
    range->reached = range->window + lead;
    return CUDA_OK;
}

static int import_anew(int device, const struct handle *handle, uint64_t *address)
{
    struct memory_range range = {.sort = MEMORY_IMPORTED,
                                 .device = handle->device,
                                 .opener = device,
                                 .bytes = handle->bytes,
                                 .reached_by = 1u << handle->device | 1u << device,
                                 .slot = handle->slot,
                                 .opened = 1,
                                 .owner_pid = handle->pid,
                                 .owner_buffer = handle->buffer};
    const int fd = open_file(handle);
    if (fd < 0) return CUDA_INVALID_HANDLE;
    const int result = map_import(fd, handle, &range);
    close(fd);
    if (result != CUDA_OK) return result;
    range.buffer = ++state.buffers;
    insert(&range);
    *address = range.begin;
    return CUDA_OK;
}

/* One that is open already, from this device. */
static struct memory_range *find_import(int device, const struct handle *handle)
{
    for (size_t r = 0; r < state.count; r++) {
        struct memory_range *const range = &state.ranges[r];
        if (range->sort == MEMORY_IMPORTED && range->owner_pid == handle->pid &&
            range->owner_buffer == handle->buffer && range->device == handle->device &&
            range->opener == device)
            return range;
    }
    return NULL;
}

int memory_import(int device, bool are_peers, const struct cuda_ipc_handle *handle,
                  uint64_t *address)
{
    struct handle theirs;
    memcpy(&theirs, handle, sizeof theirs);
    if (theirs.magic != HANDLE_MAGIC || theirs.device < 0 || theirs.device >= state.device_count ||
        theirs.slot >= SLOTS || theirs.bytes == 0 || theirs.offset > DEVICE_BYTES ||
        theirs.bytes > DEVICE_BYTES - theirs.offset)
        return CUDA_INVALID_HANDLE;
    if (theirs.pid == getpid()) return CUDA_INVALID_CONTEXT; /* a driver opens none of its own */
    if (theirs.device != device && !are_peers) return CUDA_PEER_ACCESS_UNSUPPORTED;
    int result = CUDA_OK;
    pthread_rwlock_wrlock(&state.lock);
    struct memory_range *const open = find_import(device, &theirs);
    if (open != NULL) {
        open->opened++;
        *address = open->begin;
    } else {
        result = import_anew(device, &theirs, address);
    }
    pthread_rwlock_unlock(&state.lock);
    return result;
}

unsigned memory_count(enum memory_sort sort)
{
    pthread_rwlock_rdlock(&state.lock);
    const unsigned count = state.counts[sort];
    pthread_rwlock_unlock(&state.lock);
    return count;
}

uint64_t memory_reservable(uint64_t *bytes)
{
    *bytes = RESERVABLE_BYTES;
    return window_of(state.device_count) + IMPORT_BYTES;
}

uint64_t memory_new_number(void)
{
    pthread_rwlock_wrlock(&state.lock);
    const uint64_t number = ++state.buffers;
    pthread_rwlock_unlock(&state.lock);
    return number;
}

void memory_insert(const struct memory_range *range)
{
    pthread_rwlock_wrlock(&state.lock);
    insert(range);
    pthread_rwlock_unlock(&state.lock);
}

void memory_remove(uint64_t begin)
{
    pthread_rwlock_wrlock(&state.lock);
    erase(range_of(begin));
    pthread_rwlock_unlock(&state.lock);
}

bool memory_is_in(uint64_t address, size_t bytes)
{
    pthread_rwlock_rdlock(&state.lock);
    const size_t place = place_of(address);
    const bool is_in = place < state.count && state.ranges[place].begin < address + bytes;
    pthread_rwlock_unlock(&state.lock);
    return is_in;
}
