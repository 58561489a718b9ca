/* missing.c - all names that MPItrampoline asks for beside the functions that work: constants, and
 * functions that say that they are not here. */
#include <stdatomic.h>
#include <stddef.h>

#include "front/error.h"

/* clang-format off */

/* ------------------------------------------------------------------------------------ constants */

#define FRONT_CONSTANT(type, name, value) FRONT_EXPORT extern type const name; type const name = (value);

FRONT_CONSTANT(int, mpiabi_version_major, FRONT_ABI_MAJOR)
FRONT_CONSTANT(int, mpiabi_version_minor, FRONT_ABI_MINOR)
FRONT_CONSTANT(int, mpiabi_version_patch, FRONT_ABI_PATCH)
FRONT_CONSTANT(int, mpiwrapper_version_major, TUTTI_VERSION_MAJOR)
FRONT_CONSTANT(int, mpiwrapper_version_minor, TUTTI_VERSION_MINOR)
FRONT_CONSTANT(int, mpiwrapper_version_patch, TUTTI_VERSION_PATCH)

#define FRONT_X(name, value) FRONT_CONSTANT(int, MPIABI_##name, value)
FRONT_INTS(FRONT_X)
#undef FRONT_X
#define FRONT_X(name) FRONT_CONSTANT(int, MPIABI_##name, FRONT_##name)
FRONT_ERRORS(FRONT_X)
FRONT_X(ERR_LASTCODE)
#undef FRONT_X
FRONT_CONSTANT(int, MPIABI_ERR_BASE, FRONT_ERR_LASTCODE)
#define FRONT_X(name, dtype, elements, kind) FRONT_CONSTANT(front_handle, MPIABI_##name, FRONT_TYPE_##name)
FRONT_TYPES(FRONT_X)
#undef FRONT_X
#define FRONT_X(name, op) FRONT_CONSTANT(front_handle, MPIABI_##name, FRONT_OP_##name)
FRONT_OPS(FRONT_X)
#undef FRONT_X
#define FRONT_X(name, value) FRONT_CONSTANT(front_handle, MPIABI_##name, value)
FRONT_HANDLES(FRONT_X)
#undef FRONT_X
#define FRONT_X(name) FRONT_CONSTANT(void *, MPIABI_##name, NULL)
FRONT_NULLS(FRONT_X)
#undef FRONT_X
/* Each has an address of its own, which nothing else has. */
#define FRONT_X(name) static const char mark_##name; FRONT_CONSTANT(void *, MPIABI_##name, (void *)&mark_##name)
FRONT_MARKS(FRONT_X)
#undef FRONT_X
FRONT_CONSTANT(int64_t, MPIABI_DISPLACEMENT_CURRENT, -1)

/* Constants of Fortran, which jaxlib has no use for. */
FRONT_EXPORT void mpiwrapper_export_fortran_constants_(void);
void mpiwrapper_export_fortran_constants_(void) {}

/* ------------------------------------------------------------------------------------ functions */

/* Says so in the log the first time that a program calls the function. */
static int missing(const char *function, atomic_flag *was_said)
{
    const int error = front_fail(FRONT_ERR_UNSUPPORTED_OPERATION, function, "not provided by Tutti's JAX front");
    if (!atomic_flag_test_and_set_explicit(was_said, memory_order_relaxed)) front_log("%s", tutti_jax_error());
    return error;
}

#define FRONT_DEFINE(type, name, text, returned) \
    FRONT_EXPORT type name(void); \
    type name(void) \
    { \
        static atomic_flag was_said = ATOMIC_FLAG_INIT; \
        const int error = missing(text, &was_said); \
        (void)error; \
        return (returned); \
    }

/* Their callers pass arguments; no calling convention of C on Linux minds that nobody reads
 * them. */
#define FRONT_X(name) FRONT_DEFINE(int, MPIABI_##name, "MPI_" #name, error)
FRONT_MISSING(FRONT_X)
#undef FRONT_X
#define FRONT_X(name) FRONT_DEFINE(front_handle, MPIABI_##name, "MPI_" #name, 0)
FRONT_FROM_FORTRAN(FRONT_X)
#undef FRONT_X
#define FRONT_X(name) FRONT_DEFINE(int, MPIABI_##name, "MPI_" #name, 0)
FRONT_TO_FORTRAN(FRONT_X)
#undef FRONT_X
#define FRONT_X(name) FRONT_EXPORT int MPIXABI_##name(void); int MPIXABI_##name(void) { return 0; }
FRONT_EXTENSIONS(FRONT_X)
#undef FRONT_X
