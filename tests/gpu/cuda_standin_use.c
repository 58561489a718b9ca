#include "tests/gpu/cuda_standin.h"

#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/option.h"

const char *cuda_standin_file(void)
{
    static char file[PATH_MAX + 64];
    const char *const build = option_text(OPTION_BUILD);
    if (build != NULL) {
        snprintf(file, sizeof file, "%s/lib/libcuda_standin.so", build);
    } else { /* a test that somebody starts by hand: it lies in build/tests */
        char self[PATH_MAX] = "";
        const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
        assert(length > 0 && strrchr(self, '/') != NULL);
        *strrchr(self, '/') = '\0';
        snprintf(file, sizeof file, "%s/../lib/libcuda_standin.so", self);
    }
    return file;
}

static void *open_file(const char *file)
{
    void *const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL) fprintf(stderr, "%s\n", dlerror());
    assert(handle != NULL);
    return handle;
}

const struct cuda_standin *cuda_standin_use(void)
{
    const char *const file = cuda_standin_file();
    const struct cuda_standin *const standin = dlsym(open_file(file), "cuda_standin");
    assert(standin != NULL);
    setenv(option_names.CUDA_DRIVER, file, 1);
    return standin;
}

void cuda_test_load(const char *file, struct cuda_test_library *library)
{
    void *const handle = open_file(file);
    bool is_there;
    const enum tutti_status status = cuda_library_load(file, &library->driver, &is_there);
    assert(status == TUTTI_OK && is_there);
#define FIND(slot, symbol, parameters)                \
    {                                                 \
        void *const found = dlsym(handle, symbol);    \
        assert(found != NULL);                        \
        memcpy(&library->slot, &found, sizeof found); \
    }
    CUDA_TEST_FUNCTION_LIST(FIND)
#undef FIND
}
