#include "gpu/cuda_library.h"

#include <assert.h>
#include <dlfcn.h>
#include <string.h>

#include "base/status.h"

static enum tutti_status fill(void *handle, const char *file, struct cuda_library *library)
{
#define FIND(slot, name, parameters)                                                          \
    {                                                                                         \
        void *const symbol = dlsym(handle, name);                                             \
        static_assert(sizeof symbol == sizeof library->slot, "POSIX");                        \
        memcpy(&library->slot, &symbol, sizeof symbol);                                       \
        if (symbol == NULL)                                                                   \
            return error_set(TUTTI_INVALID_OPTIONS,                                           \
                             "%s has no function " name ": it is no CUDA driver, or too old", \
                             file);                                                           \
    }
    CUDA_FUNCTION_LIST(FIND)
#undef FIND
    return TUTTI_OK;
}

enum tutti_status cuda_library_load(const char *file, struct cuda_library *library, bool *is_there)
{
    const int mode = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | (file == NULL ? RTLD_NOLOAD : 0);
    *is_there = false;
    void *const handle = dlopen(file != NULL ? file : CUDA_LIBRARY_FILE, mode);
    if (handle == NULL && file == NULL) return TUTTI_OK;
    if (handle == NULL) {
        const char *const reason = dlerror();
        return error_set(TUTTI_INVALID_OPTIONS, "the CUDA driver cannot be loaded: %.300s",
                         reason != NULL ? reason : file);
    }
    const enum tutti_status status = fill(handle, file != NULL ? file : CUDA_LIBRARY_FILE, library);
    dlclose(handle); /* stays, see RTLD_NODELETE */
    *is_there = status == TUTTI_OK;
    return status;
}
