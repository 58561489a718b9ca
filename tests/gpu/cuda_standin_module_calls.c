/* cuda_standin_module_calls.c - modules, and the kernels in them, which run as their twins on the
 * host. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/cuda_standin_state.h"
#include "tests/gpu/twins.h"

enum { THREADS_MAX = 1024, KERNELS_MAX = 32 };

struct cuda_function {
    struct cuda_function *next;
    char name[STANDIN_NAME_BYTES];
    gpu_twin *run;
};

struct cuda_module {
    struct cuda_module *next;
    int device;
    bool is_unloaded;
    char *text;
    struct cuda_function *functions;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static struct cuda_module *modules; /* never freed: what was unloaded is found out */
static unsigned module_count;
static struct cuda_function kernels[KERNELS_MAX]; /* of tests */
static unsigned kernel_count;

void standin_add_kernel(const char *name, gpu_twin *run)
{
    pthread_mutex_lock(&lock);
    if (kernel_count == KERNELS_MAX) standin_die("too many kernels of tests");
    struct cuda_function *const kernel = &kernels[kernel_count++];
    snprintf(kernel->name, sizeof kernel->name, "%s", name);
    kernel->run = run;
    pthread_mutex_unlock(&lock);
}

unsigned standin_module_count(void)
{
    pthread_mutex_lock(&lock);
    const unsigned count = module_count;
    pthread_mutex_unlock(&lock);
    return count;
}

static gpu_twin *kernel_of_tests(const char *name)
{
    gpu_twin *found = NULL;
    pthread_mutex_lock(&lock);
    for (unsigned k = 0; k < kernel_count; k++)
        if (strcmp(kernels[k].name, name) == 0) found = kernels[k].run;
    pthread_mutex_unlock(&lock);
    return found;
}

/* The parameters of an entry of PTX; NULL: there is no such entry. */
static const char *parameters_of(const char *text, const char *name)
{
    const size_t length = strlen(name);
    for (const char *entry = text; (entry = strstr(entry, ".entry")) != NULL;) {
        entry += strlen(".entry");
        while (isspace((unsigned char)*entry)) entry++;
        if (strncmp(entry, name, length) != 0) continue;
        const char *next = entry + length;
        while (isspace((unsigned char)*next)) next++;
        if (*next == '(') return next + 1;
    }
    return NULL;
}

/* Whether these parameters are one number of 64 bits, as those of twins are. */
static bool is_one_number(const char *parameters)
{
    const char *const end = strchr(parameters, ')');
    unsigned count = 0;
    bool is_number = false;
    for (const char *one = parameters;
         end != NULL && (one = strstr(one, ".param")) != NULL && one < end;) {
        one += strlen(".param");
        while (isspace((unsigned char)*one)) one++;
        is_number = strncmp(one, ".u64", 4) == 0 || strncmp(one, ".b64", 4) == 0;
        count++;
    }
    return count == 1 && is_number;
}

static void write_log(unsigned count, const int *options, void **values, const char *text)
{
    char *log = NULL;
    size_t bytes = 0;
    for (unsigned o = 0; o < count; o++) {
        if (options[o] == CUDA_JIT_ERROR_LOG) log = values[o];
        if (options[o] == CUDA_JIT_ERROR_LOG_BYTES) bytes = (uintptr_t)values[o];
    }
    if (log != NULL && bytes > 0) snprintf(log, bytes, "%s", text);
}

int standin_module_load(struct cuda_module **module, const void *image, unsigned count,
                        int *options, void **values)
{
    BEGIN_IN_CONTEXT("cuModuleLoadDataEx");
    RETURN_UNLESS_OK(standin_refuse_in_capture());
    if (strstr(image, ".version") == NULL || strstr(image, ".target") == NULL) {
        write_log(count, options, values, "ptxas fatal: no .version, no .target");
        return CUDA_INVALID_PTX;
    }
    standin_finish_if_asked("cuModuleLoadDataEx");
    struct cuda_module *const made = calloc(1, sizeof *made);
    if (made == NULL || (made->text = strdup(image)) == NULL) standin_die("out of memory");
    made->device = standin_current()->device;
    pthread_mutex_lock(&lock);
    made->next = modules;
    modules = made;
    module_count++;
    pthread_mutex_unlock(&lock);
    *module = made;
    return CUDA_OK;
}

static struct cuda_module *module_of(struct cuda_module *module)
{
    pthread_mutex_lock(&lock);
    struct cuda_module *found = modules;
    while (found != NULL && found != module) found = found->next;
    const bool is_there = found != NULL && !found->is_unloaded;
    pthread_mutex_unlock(&lock);
    if (!is_there) standin_die("%p is no module: it was unloaded, or never there", (void *)module);
    return found;
}

int standin_module_unload(struct cuda_module *module)
{
    BEGIN_IN_CONTEXT("cuModuleUnload");
    struct cuda_module *const found = module_of(module);
    standin_finish_device("cuModuleUnload", found->device);
    pthread_mutex_lock(&lock);
    found->is_unloaded = true;
    pthread_mutex_unlock(&lock);
    return CUDA_OK;
}

int standin_module_function(struct cuda_function **function, struct cuda_module *module,
                            const char *name)
{
    BEGIN_IN_CONTEXT("cuModuleGetFunction");
    struct cuda_module *const found = module_of(module);
    gpu_twin *run = kernel_of_tests(name);
    if (run == NULL) {
        const char *const parameters = parameters_of(found->text, name);
        if (parameters == NULL) return CUDA_NOT_FOUND;
        if (!is_one_number(parameters))
            standin_die("the kernel %s has other parameters than one of 64 bits", name);
        run = gpu_twin_find(name);
        if (run == NULL) standin_die("the kernel %s has no twin on the host", name);
    }
    standin_finish_if_asked("cuModuleGetFunction"); /* this may be the call that loads it */
    struct cuda_function *const made = calloc(1, sizeof *made);
    if (made == NULL) standin_die("out of memory");
    snprintf(made->name, sizeof made->name, "%s", name);
    made->run = run;
    pthread_mutex_lock(&lock);
    made->next = found->functions;
    found->functions = made;
    pthread_mutex_unlock(&lock);
    *function = made;
    return CUDA_OK;
}

int standin_function_attribute(int *value, int attribute, struct cuda_function *function)
{
    BEGIN_ANYWHERE("cuFuncGetAttribute");
    (void)function;
    if (attribute != CUDA_FUNCTION_MAX_THREADS) return CUDA_INVALID_VALUE;
    *value = THREADS_MAX;
    return CUDA_OK;
}

/* The device that has the function's module; -1: no module that is loaded has that function. */
static int device_of(const struct cuda_function *function)
{
    int device = -1;
    pthread_mutex_lock(&lock);
    for (const struct cuda_module *m = modules; m != NULL; m = m->next)
        for (const struct cuda_function *f = m->functions; f != NULL; f = f->next)
            if (f == function && !m->is_unloaded) device = m->device;
    pthread_mutex_unlock(&lock);
    return device;
}

int standin_launch(struct cuda_function *function, unsigned blocks_x, unsigned blocks_y,
                   unsigned blocks_z, unsigned threads_x, unsigned threads_y, unsigned threads_z,
                   unsigned shared_bytes, struct cuda_stream *stream, void **parameters,
                   void **extra)
{
    uint64_t argument;
    BEGIN_IN_CONTEXT("cuLaunchKernel");
    const int device = device_of(function);
    if (device < 0) standin_die("%p is no kernel of a loaded module", (void *)function);
    const int of_stream = work_stream_device(stream);
    if (device != standin_current()->device || (of_stream >= 0 && of_stream != device))
        return CUDA_INVALID_HANDLE;
    if (blocks_x == 0 || blocks_y != 1 || blocks_z != 1 || threads_x == 0 ||
        threads_x > THREADS_MAX || threads_y != 1 || threads_z != 1 || shared_bytes != 0 ||
        parameters == NULL || extra != NULL)
        return CUDA_INVALID_VALUE;
    memcpy(&argument, parameters[0], sizeof argument);
    work_launch(device, stream, function->name, function->run, argument, blocks_x);
    return CUDA_OK;
}
