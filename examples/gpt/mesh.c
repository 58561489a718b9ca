#include "mesh.h"

static struct axis axis_of(const struct mesh *mesh, const char *name)
{
    struct tutti_comm *comm = tutti_mesh_axis(mesh->axes, name);
    return (struct axis){comm, (size_t)tutti_comm_rank(comm), (size_t)tutti_comm_size(comm)};
}

void mesh_open(struct mesh *mesh, const struct mesh_sizes *sizes, struct tutti_comm *world)
{
    const struct tutti_axis axes[3] = {{"pp", (int)sizes->stages, NULL},
                                       {"dp", (int)sizes->replicas, NULL},
                                       {"tp", (int)sizes->slices, NULL}};
    *mesh = (struct mesh){.world = world};
    expect(tutti_mesh_create(world, axes, 3, &mesh->axes), "making the mesh");
    mesh->stage = axis_of(mesh, "pp");
    mesh->replica = axis_of(mesh, "dp");
    mesh->slice = axis_of(mesh, "tp");
    if (mesh->stage.size == 1) return;
    const bool is_end = mesh->stage.index == 0 || mesh->stage.index + 1 == mesh->stage.size;
    expect(tutti_comm_split(mesh->stage.comm, is_end ? 0 : TUTTI_NO_COLOR, (int)mesh->stage.index,
                            NULL, &mesh->ends),
           "joining the first and the last stage");
}

void mesh_close(struct mesh *mesh)
{
    tutti_comm_free(mesh->ends);
    tutti_mesh_free(mesh->axes);
}

struct axis mesh_axis(const struct mesh *mesh, enum mesh_axis axis)
{
    const struct axis nobody = {.size = 1};
    switch (axis) {
    case AXIS_STAGES: return mesh->stage;
    case AXIS_REPLICAS: return mesh->replica;
    case AXIS_SLICES: return mesh->slice;
    case AXIS_ENDS:
        if (mesh->ends == NULL) return nobody;
        return (struct axis){mesh->ends, (size_t)tutti_comm_rank(mesh->ends), 2};
    default:
        return (struct axis){mesh->world, (size_t)tutti_comm_rank(mesh->world),
                             (size_t)tutti_comm_size(mesh->world)};
    }
}

struct part mesh_part(const struct mesh *mesh, const struct shape *shape, size_t chunk,
                      size_t chunks)
{
    const size_t index = chunk * mesh->stage.size + mesh->stage.index;
    return (struct part){.layers = range_share(shape->layers, index, chunks * mesh->stage.size),
                         .tensor_index = mesh->slice.index,
                         .tensor_count = mesh->slice.size};
}

void end_together(struct tutti_comm *world, int teller, const char *what, const char *why)
{
    if (tutti_comm_rank(world) == teller) fprintf(stderr, "gpt: %s: %s\n", what, why);
    tutti_comm_free(world);
    exit(1);
}

static double sum(struct tutti_comm *comm, double value)
{
    expect(tutti_allreduce(&value, &value, 1, TUTTI_FLOAT64, TUTTI_SUM, comm), "adding up");
    return value;
}

double axis_sum(const struct axis *axis, double value)
{
    return axis->size > 1 ? sum(axis->comm, value) : value;
}

void mesh_sum_all(const struct mesh *mesh, double *values, size_t count)
{
    expect(tutti_allreduce(values, values, count, TUTTI_FLOAT64, TUTTI_SUM, mesh->world),
           "adding up");
}

double mesh_sum(const struct mesh *mesh, double value)
{
    return sum(mesh->world, value);
}
