/* mesh.c - communicators along the axes of a mesh.
 *
 *     dp=2, tp=3:   tp ──►
 *               dp  0  1  2      rank 4 is (1, 1): its tp communicator is 3 4 5, it is rank 1 there,
 *                │  3  4  5      its dp communicator is 1 4, it is rank 1 there too
 *                ▼
 *
 * Along an axis those belong together who differ only there: their rank without that coordinate is
 * their color.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "comm/derive.h"
#include "health/failure.h"
#include "team/options.h"

struct mesh_axis {
    char *name;
    struct tutti_comm *comm;
};

struct tutti_mesh {
    int axis_count;
    struct mesh_axis axes[];
};

static enum tutti_status check_axis(const struct tutti_axis *axes, int index)
{
    const struct tutti_axis *axis = &axes[index];
    if (axis->name == NULL || *axis->name == '\0')
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_mesh_create: axis %d must have a name, has none", index);
    for (int other = 0; other < index; other++)
        if (strcmp(axes[other].name, axis->name) == 0)
            return error_set(TUTTI_INVALID_OPTIONS,
                             "tutti_mesh_create: axes %d and %d are both \"%.40s\"", other, index,
                             axis->name);
    if (axis->size < 1)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_mesh_create: the size of axis \"%.40s\" must be 1 or more, is %d",
                         axis->name, axis->size);
    return options_check_comm(axis->options);
}

static enum tutti_status check_axes(const struct tutti_comm *comm, const struct tutti_axis *axes,
                                    int axis_count)
{
    if (axis_count < 1)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_mesh_create: there must be 1 axis or more, are %d", axis_count);
    if (axes == NULL)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_mesh_create: axes must be a list of %d axes, is NULL", axis_count);
    int64_t product = 1;
    for (int i = 0; i < axis_count; i++) {
        TRY(check_axis(axes, i));
        if (product <= comm->team.size) product *= axes[i].size; /* of two ints: it fits */
    }
    if (product != comm->team.size)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_mesh_create: the product of the axes' sizes is %s%lld, the "
                         "communicator has %d ranks",
                         product > comm->team.size ? "at least " : "", (long long)product,
                         comm->team.size);
    return TUTTI_OK;
}

/* A hash (FNV-1a) of everything that ranks must say alike. */
static uint32_t signature_of(const struct tutti_axis *axes, int axis_count)
{
    uint32_t hash = 2166136261u;
    for (int i = 0; i < axis_count; i++) {
        for (const char *c = axes[i].name;; c++) {
            hash = (hash ^ (unsigned char)*c) * 16777619u;
            if (*c == '\0') break;
        }
        for (int shift = 0; shift < 32; shift += 8)
            hash = (hash ^ ((uint32_t)axes[i].size >> shift & 255)) * 16777619u;
    }
    return hash;
}

/* stride: how far apart in rank neighbours along this axis are. */
static enum tutti_status create_axis(struct tutti_comm *comm, const struct tutti_axis *axis,
                                     int stride, uint32_t signature, struct mesh_axis *created)
{
    const int coordinate = comm->team.rank / stride % axis->size;
    const int outer = comm->team.rank / stride / axis->size, inner = comm->team.rank % stride;
    const struct derive_wish wish = {CALL_FOR_MESH, signature, outer * stride + inner, coordinate,
                                     axis->options};
    created->name = strdup(axis->name);
    /* The split comes first: the other ranks wait in it. */
    TRY(derive_split(comm, "mesh_create", &wish, &created->comm));
    if (created->name == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_mesh_create: out of memory");
    return TUTTI_OK;
}

static enum tutti_status create_axes(struct tutti_comm *comm, const struct tutti_axis *axes,
                                     int axis_count, struct mesh_axis *created)
{
    const uint32_t signature = signature_of(axes, axis_count);
    int stride = comm->team.size;
    for (int i = 0; i < axis_count; i++) {
        stride /= axes[i].size;
        TRY(create_axis(comm, &axes[i], stride, signature, &created[i]));
    }
    return TUTTI_OK;
}

enum tutti_status tutti_mesh_create(struct tutti_comm *comm, const struct tutti_axis *axes,
                                    int axis_count, struct tutti_mesh **mesh)
{
    if (mesh != NULL) *mesh = NULL;
    TRY(communicator_check_handle(comm, "mesh_create"));
    if (mesh == NULL)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_mesh_create: mesh must be the address of a pointer, is NULL");
    TRY(check_axes(comm, axes, axis_count));
    struct tutti_mesh *const made =
        calloc(1, sizeof *made + (size_t)axis_count * sizeof *made->axes);
    if (made == NULL) {
        /* The other ranks wait for this call: it cannot fail here alone. */
        health_fail(&comm->health, NULL, TUTTI_NO_MEMORY, comm->team.rank,
                    "tutti_mesh_create: out of memory");
        return health_check(&comm->health);
    }
    made->axis_count = axis_count;
    const enum tutti_status status = create_axes(comm, axes, axis_count, made->axes);
    if (status == TUTTI_OK)
        *mesh = made;
    else
        tutti_mesh_free(made);
    return status;
}

enum tutti_status tutti_mesh_free(struct tutti_mesh *mesh)
{
    if (mesh == NULL) return TUTTI_OK;
    enum tutti_status status = TUTTI_OK;
    for (int i = mesh->axis_count - 1; i >= 0; i--) {
        const enum tutti_status freed = tutti_comm_free(mesh->axes[i].comm);
        if (status == TUTTI_OK) status = freed;
        free(mesh->axes[i].name);
    }
    free(mesh);
    return status;
}

struct tutti_comm *tutti_mesh_axis(const struct tutti_mesh *mesh, const char *name)
{
    if (mesh == NULL || name == NULL) return NULL;
    for (int i = 0; i < mesh->axis_count; i++)
        if (strcmp(mesh->axes[i].name, name) == 0) return mesh->axes[i].comm;
    return NULL;
}
