/* calls.c - a rank that uses libtutti_jax.so as MPItrampoline does: it opens the library, looks up
 * all names, and calls what XLA calls.
 *
 *     calls LIBRARY names           all names are there; no job is needed
 *     calls LIBRARY operations      every operation, and what is refused; any number of ranks above 1, one device each
 *     calls LIBRARY devices FOLDER  two devices, that is two threads, in each process; they meet through files in the folder
 *     calls LIBRARY victim          the last rank dies, and the others hear of it
 *
 * tests/bindings/jax_front_test.sh starts it. It prints nothing if all is well, and ends with a
 * message otherwise.
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "front/front.h"

static void *library;

#define EXPECT(condition)                                                               \
    do {                                                                                \
        if (!(condition)) {                                                             \
            fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, \
                    #condition, last_error());                                          \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

static const char *last_error(void)
{
    const char *(*error)(void);
    *(void **)&error = dlsym(library, "tutti_jax_error");
    return error != NULL ? error() : "none";
}

static void *symbol(const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "the library has no %s\n", name);
        exit(1);
    }
    return found;
}

static void *constant(const char *name)
{
    char full[128];
    snprintf(full, sizeof(full), "MPIABI_%s", name);
    return symbol(full);
}

/* The function of that name, with the type that front.h says. */
#define CALL(name) ((__typeof__(&name))symbol(#name))
#define HANDLE(name) (*(const front_handle *)constant(name))
#define NUMBER(name) (*(const int *)constant(name))
#define MARK(name) (*(void *const *)constant(name))

/* ---------------------------------------------------------------------------------------- names */

static void look_up_all(void)
{
    int constants = 0, functions = 0;
    /* clang-format off */
#define CONSTANT(name, ...) symbol("MPIABI_" #name); constants++;
#define FUNCTION(name, ...) symbol("MPIABI_" #name); functions++;
#define EXTENSION(name) symbol("MPIXABI_" #name); functions++;
    FRONT_PROVIDED(FUNCTION) FRONT_MISSING(FUNCTION) FRONT_FROM_FORTRAN(FUNCTION) FRONT_TO_FORTRAN(FUNCTION) FRONT_OTHERS(FUNCTION)
    FRONT_EXTENSIONS(EXTENSION)
    FRONT_ERRORS(CONSTANT) FRONT_INTS(CONSTANT) FRONT_TYPES(CONSTANT) FRONT_OPS(CONSTANT) FRONT_HANDLES(CONSTANT)
    FRONT_NULLS(CONSTANT) FRONT_MARKS(CONSTANT)
    CONSTANT(ERR_BASE) CONSTANT(ERR_LASTCODE) CONSTANT(DISPLACEMENT_CURRENT)
        /* clang-format on */
        EXPECT(constants == 260 && functions == 374);
    static const char *const versions[] = {"mpiabi_version_major", "mpiabi_version_minor",
                                           "mpiabi_version_patch"};
    static const int expected[] = {FRONT_ABI_MAJOR, FRONT_ABI_MINOR, FRONT_ABI_PATCH};
    for (int i = 0; i < 3; i++) EXPECT(*(const int *)symbol(versions[i]) == expected[i]);
    EXPECT(*(const int *)symbol("mpiwrapper_version_major") == TUTTI_VERSION_MAJOR);
    ((void (*)(void))symbol("mpiwrapper_export_fortran_constants_"))();
}

/* What says nothing of a job, and what has no job yet. */
static void call_without_job(void)
{
    char text[1024];
    int length = 0, code = 0, flag = 1;
    EXPECT(CALL(MPIABI_Initialized)(&flag) == 0 && flag == 0);
    EXPECT(CALL(MPIABI_Barrier)(HANDLE("COMM_WORLD")) == FRONT_ERR_OTHER);
    EXPECT(CALL(MPIABI_Comm_rank)(HANDLE("COMM_WORLD"), &code) == FRONT_ERR_OTHER);
    EXPECT(strstr(last_error(), "MPI_Comm_rank: MPI_Init_thread was not called") != NULL);
    EXPECT(CALL(MPIABI_Error_string)(FRONT_ERR_OTHER, text, &length) == 0 &&
           strcmp(text, last_error()) == 0);
    EXPECT(CALL(MPIABI_Error_string)(FRONT_ERR_TAG, text, &length) == 0 &&
           strcmp(text, "MPI_ERR_TAG") == 0 && length == 11);
    EXPECT(CALL(MPIABI_Error_string)(-1, text, &length) == FRONT_ERR_ARG);
    EXPECT(CALL(MPIABI_Error_class)(FRONT_ERR_OP, &code) == 0 && code == FRONT_ERR_OP);
    EXPECT(CALL(MPIABI_Type_size)(HANDLE("C_DOUBLE_COMPLEX"), &length) == 0 && length == 16);
    EXPECT(CALL(MPIABI_Type_size)(HANDLE("DATATYPE_NULL"), &length) == FRONT_ERR_TYPE);
    EXPECT(CALL(MPIABI_Get_version)(&code, &length) == 0 && code == 3 && length == 1);
    EXPECT(CALL(MPIABI_Get_library_version)(text, &length) == 0 && strstr(text, "Tutti") != NULL);
    EXPECT(CALL(MPIABI_Get_processor_name)(text, &length) == 0 && length == (int)strlen(text));
    EXPECT(CALL(MPIABI_Wtime)() > 0 && CALL(MPIABI_Wtick)() > 0);
    EXPECT(CALL(MPIABI_Aint_diff)(CALL(MPIABI_Aint_add)(7, 5), 5) == 7);
    EXPECT(MARK("IN_PLACE") != NULL && MARK("IN_PLACE") != MARK("BOTTOM") &&
           MARK("STATUS_IGNORE") == NULL);
    EXPECT(NUMBER("SUCCESS") == 0 && NUMBER("UNDEFINED") == FRONT_UNDEFINED &&
           NUMBER("THREAD_MULTIPLE") == FRONT_THREAD_MULTIPLE);

    /* What XLA never calls: the name is in the message, and once in the log. The script counts. */
    for (int i = 0; i < 2; i++)
        EXPECT(((int (*)(void))symbol("MPIABI_Win_create"))() == FRONT_ERR_UNSUPPORTED_OPERATION);
    EXPECT(strcmp(last_error(), "MPI_Win_create: not provided by Tutti's JAX front") == 0);
    EXPECT(((front_handle(*)(int))symbol("MPIABI_Comm_f2c"))(1) == 0);
    EXPECT(((int (*)(void))symbol("MPIXABI_Query_cuda_support"))() == 0);
}

/* ----------------------------------------------------------------------------------- operations */

static int rank, size;

static void reduce(front_handle comm)
{
    float values[6], sums[6];
    for (int i = 0; i < 6; i++) values[i] = (float)(rank + i);
    EXPECT(CALL(MPIABI_Allreduce)(values, sums, 6, HANDLE("FLOAT"), HANDLE("SUM"), comm) == 0);
    for (int i = 0; i < 6; i++) EXPECT(sums[i] == (float)(size * (size - 1) / 2 + size * i));
    EXPECT(CALL(MPIABI_Allreduce)(MARK("IN_PLACE"), values, 6, HANDLE("FLOAT"), HANDLE("MAX"),
                                  comm) == 0);
    for (int i = 0; i < 6; i++) EXPECT(values[i] == (float)(size - 1 + i));

    /* Sums of complex numbers, and products: 2i times 2i is -4. */
    double complex_values[4] = {1, rank, 0, 2}, results[4];
    EXPECT(CALL(MPIABI_Allreduce)(complex_values, results, 2, HANDLE("C_DOUBLE_COMPLEX"),
                                  HANDLE("SUM"), comm) == 0);
    EXPECT(results[0] == size && results[1] == size * (size - 1) / 2 && results[3] == 2 * size);
    EXPECT(CALL(MPIABI_Allreduce)(complex_values + 2, results, 1, HANDLE("C_DOUBLE_COMPLEX"),
                                  HANDLE("PROD"), comm) == 0);
    const double power = pow(2, size) * (size % 4 >= 2 ? -1 : 1);
    EXPECT(results[size % 2] == power && results[1 - size % 2] == 0);
    EXPECT(CALL(MPIABI_Allreduce)(results, results, 1, HANDLE("C_DOUBLE_COMPLEX"), HANDLE("MAX"),
                                  comm) == FRONT_ERR_OP);

    /* More of them than one piece holds. */
    enum { MANY = 10000 };
    float *many = malloc(MANY * 2 * sizeof(*many));
    for (int i = 0; i < MANY; i++) many[2 * i] = 1, many[2 * i + 1] = i % 7 == 0 && rank == 0;
    EXPECT(CALL(MPIABI_Allreduce)(many, many, MANY, HANDLE("C_COMPLEX"), HANDLE("PROD"), comm) == 0);
    for (int i = 0; i < MANY; i++) EXPECT(many[2 * i] == 1 && many[2 * i + 1] == (i % 7 == 0));
    free(many);
}

/* Every type and every operation that XLA names: on each pair either a right result or
 * MPI_ERR_OP. */
static void sweep_types(front_handle comm)
{
    static const char *const names[] = {"INT8_T",  "UINT8_T",  "INT16_T",   "UINT16_T",
                                        "INT32_T", "UINT32_T", "INT64_T",   "UINT64_T",
                                        "FLOAT",   "DOUBLE",   "C_COMPLEX", "C_DOUBLE_COMPLEX"};
    static const char *const ops[] = {"SUM", "PROD", "MIN", "MAX"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        int bytes = 0;
        EXPECT(CALL(MPIABI_Type_size)(HANDLE(names[i]), &bytes) == 0);
        for (size_t j = 0; j < sizeof(ops) / sizeof(*ops); j++) {
            const bool is_complex = names[i][0] == 'C';
            unsigned char one[16] = {0}, zero[16] = {0}, result[16];
            /* All give 0 but the last rank, which gives a number that is not 0. */
            one[bytes / (is_complex ? 2 : 1) - 1] =
                names[i][0] == 'F' || names[i][0] == 'D' || is_complex ? 0x40 : 0x10;
            const int error = CALL(MPIABI_Allreduce)(rank == size - 1 ? one : zero, result, 1,
                                                     HANDLE(names[i]), HANDLE(ops[j]), comm);
            if (is_complex && j >= 2) {
                EXPECT(error == FRONT_ERR_OP);
                continue;
            }
            EXPECT(error == 0);
            EXPECT(memcmp(result, j == 1 || j == 2 ? zero : one, (size_t)bytes) == 0);
        }
    }
}

static void gather_and_exchange(front_handle comm)
{
    const int n = size;
    int own[2] = {rank, 10 * rank}, *all = calloc((size_t)n * 4, sizeof(int)),
        *given = calloc((size_t)n * 4, sizeof(int));
    EXPECT(CALL(MPIABI_Allgather)(own, 2, HANDLE("INT"), all, 2, HANDLE("INT32_T"), comm) == 0);
    for (int i = 0; i < n; i++) EXPECT(all[2 * i] == i && all[2 * i + 1] == 10 * i);
    EXPECT(CALL(MPIABI_Allgather)(own, 2, HANDLE("INT"), all, 1, HANDLE("INT"), comm) ==
           FRONT_ERR_TYPE);
    EXPECT(CALL(MPIABI_Allgather)(MARK("IN_PLACE"), 2, HANDLE("INT"), all, 2, HANDLE("INT"),
                                  comm) == FRONT_ERR_UNSUPPORTED_OPERATION);

    for (int i = 0; i < n; i++) given[i] = 100 * rank + i;
    EXPECT(CALL(MPIABI_Alltoall)(given, 1, HANDLE("INT"), all, 1, HANDLE("INT"), comm) == 0);
    for (int i = 0; i < n; i++) EXPECT(all[i] == 100 * i + rank);

    /* Blocks of one value or two, the last rank's first. */
    int *counts = calloc((size_t)n * 2, sizeof(int)), *displs = counts + n;
    for (int i = n - 1, place = 0; i >= 0; i--) {
        counts[i] = 1 + i % 2;
        displs[i] = place;
        place += counts[i];
    }
    EXPECT(CALL(MPIABI_Allgatherv)(own, counts[rank], HANDLE("INT"), all, counts, displs,
                                   HANDLE("INT"), comm) == 0);
    for (int i = 0; i < n; i++)
        EXPECT(all[displs[i]] == i && (counts[i] == 1 || all[displs[i] + 1] == 10 * i));

    /* Rank i gets as many values from each as its own number says, modulo 2, and one more. */
    int *send_displs = calloc((size_t)n * 3, sizeof(int)), *same = send_displs + n,
        *in_order = same + n;
    for (int i = 0; i < n; i++) {
        send_displs[i] = 2 * i;
        same[i] = counts[rank];
        in_order[i] = i * counts[rank];
        given[2 * i] = 1000 * rank + i;
        given[2 * i + 1] = -given[2 * i];
    }
    EXPECT(CALL(MPIABI_Alltoallv)(given, counts, send_displs, HANDLE("INT"), all, same, in_order,
                                  HANDLE("INT"), comm) == 0);
    for (int i = 0; i < n; i++) {
        EXPECT(all[in_order[i]] == 1000 * i + rank);
        EXPECT(same[i] == 1 || all[in_order[i] + 1] == -1000 * i - rank);
    }
    counts[0] = -1;
    EXPECT(CALL(MPIABI_Alltoallv)(given, counts, send_displs, HANDLE("INT"), all, same, in_order,
                                  HANDLE("INT"), comm) == FRONT_ERR_COUNT);

    int word = rank == 1 ? 77 : 0;
    EXPECT(CALL(MPIABI_Bcast)(&word, 1, HANDLE("INT"), 1, comm) == 0 && word == 77);
    EXPECT(CALL(MPIABI_Bcast)(&word, 1, HANDLE("INT"), size, comm) == FRONT_ERR_ROOT);
    free(send_displs), free(counts), free(all), free(given);
}

static void scatter(front_handle comm)
{
    const int n = size;
    double *given = calloc((size_t)n * 8, sizeof(double)), got[8];
    int *counts = calloc((size_t)n, sizeof(int));
    for (int i = 0; i < 4 * n; i++) given[i] = i * (rank + 1);
    for (int i = 0; i < n; i++) counts[i] = 2;
    const double weight = n * (n + 1) / 2.0;
    EXPECT(CALL(MPIABI_Reduce_scatter)(given, got, counts, HANDLE("DOUBLE"), HANDLE("SUM"), comm) ==
           0);
    EXPECT(got[0] == 2 * rank * weight && got[1] == (2 * rank + 1) * weight);
    EXPECT(CALL(MPIABI_Reduce_scatter_block)(given, got, 3, HANDLE("DOUBLE"), HANDLE("MAX"),
                                             comm) == 0);
    for (int i = 0; i < 3; i++) EXPECT(got[i] == (3 * rank + i) * n);
    int before = 0;
    for (int i = 0; i < n; i++) {
        counts[i] = i + 1 < 4 ? i + 1 : 1;
        if (i < rank) before += counts[i];
    }
    EXPECT(CALL(MPIABI_Reduce_scatter)(given, got, counts, HANDLE("DOUBLE"), HANDLE("SUM"), comm) ==
           0);
    for (int i = 0; i < counts[rank]; i++) EXPECT(got[i] == (before + i) * weight);
    /* Products of complex numbers: block r is (r + 1)i on rank 0, and 1 on all others. */
    for (int i = 0; i < n; i++) {
        counts[i] = 1;
        given[2 * i] = rank != 0;
        given[2 * i + 1] = rank == 0 ? i + 1 : 0;
    }
    EXPECT(CALL(MPIABI_Reduce_scatter)(given, got, counts, HANDLE("C_DOUBLE_COMPLEX"),
                                       HANDLE("PROD"), comm) == 0);
    EXPECT(got[0] == 0 && got[1] == rank + 1);
    free(counts), free(given);
}

static void exchange_messages(front_handle comm)
{
    const int next = (rank + 1) % size, last = (rank + size - 1) % size;
    int given = rank, got = -1, count = 0;
    struct front_status status;
    EXPECT(CALL(MPIABI_Sendrecv)(&given, 1, HANDLE("INT"), next, 5, &got, 1, HANDLE("INT"), last, 5,
                                 comm, &status) == 0);
    EXPECT(got == last && status.source == last && status.tag == 5 && status.error == 0);
    EXPECT(CALL(MPIABI_Get_count)(&status, HANDLE("INT"), &count) == 0 && count == 1);
    EXPECT(CALL(MPIABI_Get_count)(&status, HANDLE("DOUBLE"), &count) == 0 &&
           count == FRONT_UNDEFINED);

    char letters[3] = "ab", received[3] = "";
    front_handle requests[3] = {0};
    struct front_status statuses[3];
    EXPECT(CALL(MPIABI_Irecv)(received, 3, HANDLE("BYTE"), FRONT_ANY, FRONT_ANY, comm,
                              &requests[0]) == 0);
    EXPECT(CALL(MPIABI_Isend)(letters, 3, HANDLE("BYTE"), next, 0, comm, &requests[1]) == 0);
    EXPECT(CALL(MPIABI_Irecv)(received, 3, HANDLE("BYTE"), FRONT_PROC_NULL, 0, comm,
                              &requests[2]) == 0);
    const front_handle stale = requests[0];
    EXPECT(CALL(MPIABI_Waitall)(3, requests, statuses) == 0 && strcmp(received, "ab") == 0);
    EXPECT(statuses[0].source == last && statuses[0].size_bytes == 3 &&
           statuses[2].source == FRONT_PROC_NULL);
    for (int i = 0; i < 3; i++) EXPECT(requests[i] == HANDLE("REQUEST_NULL"));
    EXPECT(CALL(MPIABI_Wait)(&requests[0], NULL) == 0);
    requests[0] = stale;
    EXPECT(CALL(MPIABI_Wait)(&requests[0], NULL) == FRONT_ERR_REQUEST);

    if (rank == 0) EXPECT(CALL(MPIABI_Send)(&given, 1, HANDLE("INT"), 1, 9, comm) == 0);
    if (rank == 1)
        EXPECT(CALL(MPIABI_Recv)(&got, 1, HANDLE("INT"), 0, 9, comm, MARK("STATUS_IGNORE")) == 0 &&
               got == 0);
    EXPECT(CALL(MPIABI_Send)(&given, 1, HANDLE("INT"), FRONT_PROC_NULL, 9, comm) == 0);
    EXPECT(CALL(MPIABI_Send)(&given, 1, HANDLE("INT"), size, 9, comm) == FRONT_ERR_RANK);
    EXPECT(CALL(MPIABI_Send)(&given, 1, HANDLE("INT"), 0, -7, comm) == FRONT_ERR_TAG);
    /* The receive that had begun is taken back, and no later message goes there. */
    EXPECT(CALL(MPIABI_Sendrecv)(&given, 1, HANDLE("INT"), size, 5, &got, 1, HANDLE("INT"), last, 5,
                                 comm, NULL) == FRONT_ERR_RANK);
    EXPECT(CALL(MPIABI_Barrier)(comm) == 0);
}

static void refuse(front_handle comm)
{
    float value = 1;
    EXPECT(CALL(MPIABI_Allreduce)(&value, &value, -1, HANDLE("FLOAT"), HANDLE("SUM"), comm) ==
           FRONT_ERR_COUNT);
    EXPECT(strstr(last_error(), "MPI_Allreduce: the count is -1") != NULL);
    EXPECT(CALL(MPIABI_Allreduce)(&value, &value, 1, 12345, HANDLE("SUM"), comm) == FRONT_ERR_TYPE);
    EXPECT(CALL(MPIABI_Allreduce)(&value, &value, 1, HANDLE("FLOAT"), 12345, comm) == FRONT_ERR_OP);
    EXPECT(CALL(MPIABI_Allreduce)(&value, &value, 1, HANDLE("FLOAT"), HANDLE("MAXLOC"), comm) ==
           FRONT_ERR_OP);
    EXPECT(CALL(MPIABI_Allreduce)(&value, &value, 1, HANDLE("FLOAT"), HANDLE("BAND"), comm) ==
           FRONT_ERR_OP);
    EXPECT(CALL(MPIABI_Allreduce)(&value, &value, 1, HANDLE("LONG_DOUBLE"), HANDLE("SUM"), comm) ==
           FRONT_ERR_OP);
    EXPECT(CALL(MPIABI_Allreduce)(NULL, &value, 1, HANDLE("FLOAT"), HANDLE("SUM"), comm) ==
           FRONT_ERR_BUFFER);
    static const front_handle wrong[] = {0,       1,       0xffff,          0x10000 + 4095,
                                         0x11000, 0x20000, (front_handle)-1};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        front_handle handle = wrong[i];
        EXPECT(CALL(MPIABI_Allreduce)(&value, &value, 1, HANDLE("FLOAT"), HANDLE("SUM"), handle) ==
               FRONT_ERR_COMM);
        EXPECT(CALL(MPIABI_Comm_free)(&handle) == FRONT_ERR_COMM);
    }
}

static void run_operations(void)
{
    const front_handle world = HANDLE("COMM_WORLD");
    front_handle comm = 0, other = 0;
    int provided = 0, flag = 0, number = 0;
    EXPECT(CALL(MPIABI_Init_thread)(NULL, NULL, NUMBER("THREAD_FUNNELED"), &provided) == 0 &&
           provided == FRONT_THREAD_MULTIPLE);
    EXPECT(CALL(MPIABI_Init_thread)(NULL, NULL, 0, &provided) == FRONT_ERR_OTHER); /* once is enough */
    EXPECT(CALL(MPIABI_Initialized)(&flag) == 0 && flag == 1 &&
           CALL(MPIABI_Finalized)(&flag) == 0 && flag == 0);
    EXPECT(CALL(MPIABI_Query_thread)(&provided) == 0 && CALL(MPIABI_Is_thread_main)(&flag) == 0 &&
           flag == 1);
    EXPECT(CALL(MPIABI_Comm_rank)(world, &rank) == 0 && CALL(MPIABI_Comm_size)(world, &size) == 0 &&
           size > 1);

    EXPECT(CALL(MPIABI_Comm_split)(world, 2048, rank, &comm) == 0);
    EXPECT(CALL(MPIABI_Comm_rank)(comm, &number) == 0 && number == rank);
    EXPECT(CALL(MPIABI_Comm_size)(comm, &number) == 0 && number == size);
    reduce(comm);
    sweep_types(comm);
    gather_and_exchange(comm);
    scatter(comm);
    exchange_messages(comm);
    refuse(comm);
    reduce(world);

    /* The even ranks, and nobody else. */
    EXPECT(CALL(MPIABI_Comm_split)(world, rank % 2 == 0 ? 0 : FRONT_UNDEFINED, rank / 2, &other) ==
           0);
    EXPECT((other == HANDLE("COMM_NULL")) == (rank % 2 == 1));
    if (other != 0) EXPECT(CALL(MPIABI_Comm_size)(other, &number) == 0 && number == (size + 1) / 2);
    if (other != 0) EXPECT(CALL(MPIABI_Comm_free)(&other) == 0 && other == 0);
    EXPECT(CALL(MPIABI_Comm_split)(comm, 0, rank, &other) == FRONT_ERR_COMM &&
           CALL(MPIABI_Comm_split)(world, -5, 0, &other) == FRONT_ERR_ARG);
    EXPECT(CALL(MPIABI_Comm_dup)(comm, &other) == 0 && other != comm);
    EXPECT(CALL(MPIABI_Barrier)(other) == 0 && CALL(MPIABI_Comm_free)(&other) == 0);

    /* Each rank names a group of its own, and says that it is not the first there: operations
     * repeat what the split said. */
    EXPECT(CALL(MPIABI_Comm_split)(world, rank, 3, &other) == FRONT_ERR_COMM && other != 0);
    float value = 1;
    EXPECT(CALL(MPIABI_Comm_rank)(other, &number) == 0 && number == 3);
    EXPECT(CALL(MPIABI_Allreduce)(&value, &value, 1, HANDLE("FLOAT"), HANDLE("SUM"), other) ==
           FRONT_ERR_COMM);
    EXPECT(strstr(last_error(),
                  "MPI_Comm_split: this is device 3 of the group that begins with device") != NULL);

    EXPECT(CALL(MPIABI_Finalize)() == 0 && CALL(MPIABI_Finalized)(&flag) == 0 && flag == 1);
    EXPECT(CALL(MPIABI_Comm_free)(&comm) == FRONT_ERR_COMM &&
           CALL(MPIABI_Finalize)() == FRONT_ERR_OTHER);
    EXPECT(CALL(MPIABI_Allreduce)(&value, &value, 1, HANDLE("FLOAT"), HANDLE("SUM"), world) ==
           FRONT_ERR_OTHER);
}

/* -------------------------------------------------------------------------------------- devices */

/* A key-value store of files: a value appears as a whole. */
static int store_set(void *context, const char *key, const void *value, size_t value_bytes)
{
    char path[512], draft[600], name[256];
    snprintf(name, sizeof(name), "%s", key);
    for (char *c = name; *c != '\0'; c++)
        if (*c == '/') *c = '_';
    snprintf(path, sizeof(path), "%s/%s", (const char *)context, name);
    snprintf(draft, sizeof(draft), "%s.%d.%lx", path, (int)getpid(), (unsigned long)pthread_self());
    FILE *file = fopen(draft, "w");
    if (file == NULL) return 1;
    const bool is_written = fwrite(value, 1, value_bytes, file) == value_bytes;
    return fclose(file) == 0 && is_written && rename(draft, path) == 0 ? 0 : 1;
}

static int store_get(void *context, const char *key, void *value, size_t value_bytes,
                     uint64_t timeout_ns)
{
    char path[512], name[256];
    snprintf(name, sizeof(name), "%s", key);
    for (char *c = name; *c != '\0'; c++)
        if (*c == '/') *c = '_';
    snprintf(path, sizeof(path), "%s/%s", (const char *)context, name);
    for (uint64_t waited_ns = 0; waited_ns < timeout_ns; waited_ns += 1000000) {
        FILE *file = fopen(path, "r");
        if (file != NULL) {
            const bool is_read = fread(value, 1, value_bytes, file) == value_bytes;
            fclose(file);
            return is_read ? 0 : 1;
        }
        usleep(1000);
    }
    return 1;
}

enum { DEVICES = 2, ROUNDS = 3 };
static int process, process_count;

/* What XLA's thread of one device does: groups of all, of each process, and of equal devices, then
 * a sum in each. */
static void *run_device(void *argument)
{
    const int device = *(int *)argument, all = process_count * DEVICES;
    for (int round = 0; round < ROUNDS; round++) {
        const int colors[] = {0, 100 + process, 200 + device},
                  keys[] = {process * DEVICES + device, device, process};
        const int counts[] = {all, DEVICES, process_count};
        for (int i = 0; i < 3; i++) {
            front_handle comm = 0;
            int number = -1;
            EXPECT(CALL(MPIABI_Comm_split)(HANDLE("COMM_WORLD"), colors[i], keys[i], &comm) == 0);
            EXPECT(CALL(MPIABI_Comm_rank)(comm, &number) == 0 && number == keys[i]);
            EXPECT(CALL(MPIABI_Comm_size)(comm, &number) == 0 && number == counts[i]);
            int sum = 0;
            EXPECT(CALL(MPIABI_Allreduce)(&keys[i], &sum, 1, HANDLE("INT"), HANDLE("SUM"), comm) ==
                   0);
            EXPECT(sum == counts[i] * (counts[i] - 1) / 2);
            EXPECT(CALL(MPIABI_Comm_free)(&comm) == 0);
        }
    }
    return NULL;
}

static void run_devices(char *folder)
{
    process = atoi(getenv("RANK"));
    process_count = atoi(getenv("WORLD_SIZE"));
    const struct tutti_store store = {sizeof(store), store_set, store_get, folder};
    struct tutti_jax_options options = {sizeof(options), process, process_count, 0, &store};
    EXPECT(CALL(tutti_jax_start)(&options) == TUTTI_INVALID_OPTIONS);
    options.device_count = DEVICES;
    EXPECT(CALL(tutti_jax_start)(&options) == TUTTI_OK);
    float value = 1;
    EXPECT(CALL(MPIABI_Allreduce)(&value, &value, 1, HANDLE("FLOAT"), HANDLE("SUM"),
                                  HANDLE("COMM_WORLD")) == FRONT_ERR_COMM);
    pthread_t threads[DEVICES];
    int numbers[DEVICES];
    for (int i = 0; i < DEVICES; i++) {
        numbers[i] = i;
        EXPECT(pthread_create(&threads[i], NULL, run_device, &numbers[i]) == 0);
    }
    for (int i = 0; i < DEVICES; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
    EXPECT(CALL(MPIABI_Finalize)() == 0);
}

/* -------------------------------------------------------------------------------------- a death */

static void lose_a_rank(void)
{
    front_handle comm = 0;
    int provided;
    EXPECT(CALL(MPIABI_Init_thread)(NULL, NULL, 0, &provided) == 0);
    EXPECT(CALL(MPIABI_Comm_rank)(HANDLE("COMM_WORLD"), &rank) == 0 &&
           CALL(MPIABI_Comm_size)(HANDLE("COMM_WORLD"), &size) == 0);
    EXPECT(CALL(MPIABI_Comm_split)(HANDLE("COMM_WORLD"), 0, rank, &comm) == 0);
    EXPECT(CALL(MPIABI_Barrier)(comm) == 0);
    if (rank == size - 1) raise(SIGKILL);
    char text[1024], named[64];
    int length = 0, error = 0;
    float value = 1;
    while (error == 0)
        error = CALL(MPIABI_Allreduce)(&value, &value, 1, HANDLE("FLOAT"), HANDLE("MAX"), comm);
    EXPECT(CALL(MPIABI_Error_string)(error, text, &length) == 0);
    snprintf(named, sizeof(named), "rank %d (host", size - 1);
    EXPECT(strstr(text, "MPI_Allreduce: PROC_FAILED: allreduce") != NULL &&
           strstr(text, named) != NULL);
    EXPECT(CALL(MPIABI_Comm_free)(&comm) == 0 && CALL(MPIABI_Finalize)() == 0);
}

int main(int argument_count, char **arguments)
{
    if (argument_count < 3) return 2;
    library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    const char *what = arguments[2];
    if (strcmp(what, "names") == 0) {
        look_up_all();
        call_without_job();
    } else if (strcmp(what, "operations") == 0) {
        run_operations();
    } else if (strcmp(what, "devices") == 0 && argument_count == 4) {
        run_devices(arguments[3]);
    } else if (strcmp(what, "victim") == 0) {
        lose_a_rank();
    } else {
        return 2;
    }
    return 0;
}
