#include "elastic_trainer.h"

#include "mesh.h"
#include "tutti/train/elastic.h"

enum { REPORT_BYTES = 2000 };

struct elastic_trainer {
    struct trainer *trainer; /* borrowed */
    struct tutti_elastic *loop;
    struct tutti_elastic_step step;
};

static double seconds_since(uint64_t before_ns)
{
    return 1e-9 * (double)(timeline_now_ns() - before_ns);
}

struct elastic_trainer *elastic_trainer_open(struct trainer *trainer, const char *folder)
{
    struct elastic_trainer *const e = allocate(1, sizeof *e);
    const size_t elements = trainer->model->parameters.elements;
    const struct tutti_elastic_array arrays[] = {
        {"weights", TUTTI_ELASTIC_REPLICATED, REAL_DTYPE, elements, trainer->model->weights},
        {"first moments", TUTTI_ELASTIC_REPLICATED, REAL_DTYPE, elements, trainer->moments.first},
        {"second moments", TUTTI_ELASTIC_REPLICATED, REAL_DTYPE, elements, trainer->moments.second}};
    const struct tutti_exclude_policy policy = TUTTI_EXCLUDE_POLICY_INIT;
    struct tutti_comm_options comm = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_elastic_options options = TUTTI_ELASTIC_OPTIONS_INIT;
    comm.deterministic = 1; /* the same bits with and without faults */
    if (tutti_launcher(NULL, NULL) == NULL) {
        comm.rank = 0;
        comm.size = 1;
    }
    options.comm_options = &comm;
    options.step_count = trainer->options.schedule.steps;
    options.batch = trainer->options.batch;
    options.checkpoint_folder = folder;
    options.exclude_policy = &policy;
    e->trainer = trainer;
    e->step.size_bytes = sizeof e->step;
    expect(tutti_elastic_open(arrays, sizeof arrays / sizeof *arrays, &options, &e->loop),
           "meeting the other ranks");
    return e;
}

void elastic_trainer_close(struct elastic_trainer *e)
{
    expect(tutti_elastic_close(e->loop), "the last checkpoint");
    free(e);
}

/* The mean of all gradients in each rank's model, and the step's loss. */
static enum tutti_status add_up(struct elastic_trainer *e, double *loss)
{
    struct tutti_comm *const team = tutti_elastic_comm(e->loop);
    struct model *const model = e->trainer->model;
    const enum tutti_status status =
        tutti_allreduce(model->gradients, model->gradients, model->parameters.elements, REAL_DTYPE,
                        TUTTI_SUM, team);
    if (status != TUTTI_OK) return status;
    return tutti_allreduce(loss, loss, 1, TUTTI_FLOAT64, TUTTI_SUM, team);
}

bool elastic_trainer_step(struct elastic_trainer *e, size_t *step, struct step_report *report)
{
    for (;;) {
        int is_committed;
        expect(tutti_elastic_begin(e->loop, &e->step), "going on");
        if (e->step.is_over) return false;
        const uint64_t began_ns = timeline_now_ns();
        const struct range samples = {e->step.first, e->step.count};
        double loss = trainer_share(e->trainer, e->step.number, samples);
        const uint64_t computed_ns = timeline_now_ns();
        const enum tutti_status status = add_up(e, &loss);
        const double added_s = seconds_since(computed_ns);
        expect(tutti_elastic_commit(e->loop, status, &is_committed), "agreeing on a step");
        if (!is_committed) continue;
        *step = e->step.number;
        *report = trainer_update(e->trainer, e->step.number);
        report->loss = loss;
        report->waited_s[1] = added_s;
        report->step_s = seconds_since(began_ns);
        return true;
    }
}

bool elastic_trainer_is_first(const struct elastic_trainer *e)
{
    return e->step.rank == 0;
}

void elastic_trainer_describe(const struct elastic_trainer *e, FILE *file)
{
    char text[REPORT_BYTES];
    expect(tutti_elastic_report(e->loop, text, sizeof text), "accounts of the run");
    fputs(text, file);
    fflush(file);
}
