/* msccl_import_wire.c - which block takes whose messages, and whether the file's numbers fit each
 * other. */
#include "base/collective.h"
#include "studio/foreign/msccl_import_state.h"

/* In place, files may name the same memory by either buffer, so one of the two counts is enough. */
static bool check_chunks(struct msccl_importer *importer)
{
    const struct msccl_algo *algo = importer->algo;
    bool fine = true;
    for (int gpu = 0; gpu < algo->gpu_count; gpu++)
        for (int buffer = MSCCL_INPUT; buffer <= MSCCL_OUTPUT; buffer++) {
            const int said = algo->gpus[gpu].chunks[buffer];
            const int wanted = msccl_import_chunks_of(importer, gpu, (enum msccl_buffer)buffer);
            if (said == wanted || said == 0) continue;
            if (wanted == 0) continue; /* of a rank that is not the root */
            fine = msccl_refuse(importer->report, MSCCL_WRONG, algo->gpus[gpu].line, gpu, -1, -1,
                                "%c_chunks=\"%d\" where %s of %d chunks on %d gpus has %d",
                                "io"[buffer], said, collective_name(algo->collective),
                                algo -> chunk_count, algo -> gpu_count, wanted);
        }
    return fine;
}

static bool check_places(struct msccl_importer *importer, int step)
{
    const struct msccl_step *of = &importer->algo->steps[step];
    const struct msccl_traits *traits = &msccl_types[of->type];
    const int gpu = msccl_import_block_at(importer, step)->gpu;
    const struct {
        bool is_used;
        enum msccl_buffer buffer;
        int first;
    } places[] = {{traits->reads, of->source_buffer, of->source},
                  {traits->stores, of->destination_buffer, of->destination}};
    bool fine = true;
    for (int i = 0; i < 2; i++) {
        if (!places[i].is_used) continue;
        const int count = msccl_import_chunks_of(importer, gpu, places[i].buffer);
        if (places[i].first > count || of->count > count - places[i].first)
            fine = msccl_import_wrong_step(importer, step, "%s chunks %d to %d of %c, which has %d",
                                           i == 0 ? "reads" : "stores", places[i].first,
                                           places[i].first + of->count - 1, "ios"[places[i].buffer],
                                           count);
    }
    return fine;
}

static bool find_partner(struct msccl_importer *importer, int block)
{
    const struct msccl_algo *algo = importer->algo;
    const struct msccl_block *of = &algo->blocks[block];
    const struct msccl_gpu *gpu = &algo->gpus[of->gpu];
    const int number = msccl_import_number_of_block(importer, of);
    for (int i = gpu->first_block; i < block; i++) {
        const struct msccl_block *other = &algo->blocks[i];
        if (other->channel != of->channel) continue;
        if ((of->send >= 0 && of->send == other->send) ||
            (of->receive >= 0 && of->receive == other->receive))
            return msccl_refuse(importer->report, MSCCL_WRONG, of->line, of->gpu, number, -1,
                                "tb %d has the same connection on channel %d",
                                msccl_import_number_of_block(importer, other), of->channel);
    }
    importer->partners[block] = -1;
    if (of->receive < 0) return true;
    const struct msccl_gpu *peer = &algo->gpus[of->receive];
    for (int i = peer->first_block; i < peer->first_block + peer->block_count; i++)
        if (algo->blocks[i].send == of->gpu && algo->blocks[i].channel == of->channel)
            importer->partners[block] = i;
    return true;
}

static int count_receives(const struct msccl_importer *importer, int block)
{
    const struct msccl_block *of = &importer->algo->blocks[block];
    int count = 0;
    for (int i = 0; i < of->step_count; i++)
        count += msccl_types[importer->algo->steps[of->first_step + i].type].receives;
    return count;
}

static int count_sends(const struct msccl_importer *importer, int block)
{
    return importer->first_sends[block + 1] - importer->first_sends[block];
}

/* Each connection receives as many messages as it sends. */
static bool check_partners(struct msccl_importer *importer)
{
    const struct msccl_algo *algo = importer->algo;
    bool fine = true;
    for (int block = 0; block < algo->block_count; block++) {
        const struct msccl_block *of = &algo->blocks[block];
        const int partner = importer->partners[block];
        const int received = count_receives(importer, block);
        const int sent = partner >= 0 ? count_sends(importer, partner) : 0;
        if (received != sent)
            fine = msccl_refuse(importer->report, MSCCL_WRONG, of->line, of->gpu,
                                msccl_import_number_of_block(importer, of), -1,
                                "%d messages are received of %d that gpu %d sends on channel %d",
                                received, sent, of->receive, of->channel);
        if (partner >= 0) importer->taken[partner] = 1; /* for the check below */
    }
    for (int block = 0; block < algo->block_count; block++) {
        const struct msccl_block *of = &algo->blocks[block];
        if (!importer->taken[block] && count_sends(importer, block) > 0)
            fine = msccl_refuse(importer->report, MSCCL_WRONG, of->line, of->gpu,
                                msccl_import_number_of_block(importer, of), -1,
                                "gpu %d has no thread block that receives this on channel %d",
                                of->send, of->channel);
        importer->taken[block] = 0;
    }
    return fine;
}

static bool check_dependency(struct msccl_importer *importer, int step)
{
    const struct msccl_algo *algo = importer->algo;
    const struct msccl_step *of = &algo->steps[step];
    const struct msccl_gpu *gpu = &algo->gpus[msccl_import_block_at(importer, step)->gpu];
    if (of->after_block < 0) return true;
    if (of->after_block >= gpu->block_count)
        return msccl_import_wrong_step(importer, step, "waits for tb %d, which does not exist",
                                       of->after_block);
    const struct msccl_block *other = &algo->blocks[gpu->first_block + of->after_block];
    if (of->after_step >= other->step_count)
        return msccl_import_wrong_step(importer, step,
                                       "waits for tb %d step %d, which does not exist",
                                       of->after_block, of->after_step);
    if (!algo->steps[other->first_step + of->after_step].is_awaited)
        return msccl_import_wrong_step(importer, step,
                                       "waits for tb %d step %d, which has hasdep=\"0\"",
                                       of->after_block, of->after_step);
    return true;
}

bool msccl_import_wire(struct msccl_importer *importer)
{
    const struct msccl_algo *algo = importer->algo;
    int sends = 0;
    bool fine = true;
    if (!check_chunks(importer)) return false;
    for (int block = 0; block < algo->block_count; block++) {
        const struct msccl_block *of = &algo->blocks[block];
        importer->first_sends[block] = sends;
        for (int i = of->first_step; i < of->first_step + of->step_count; i++) {
            importer->block_of[i] = block;
            if (msccl_types[algo->steps[i].type].sends) importer->send_lists[sends++] = i;
        }
        importer->first_sends[block + 1] = sends;
        if (!find_partner(importer, block)) fine = false;
    }
    if (fine) fine = check_partners(importer);
    for (int step = 0; step < algo->step_count; step++) {
        if (!check_places(importer, step)) fine = false;
        if (!check_dependency(importer, step)) fine = false;
    }
    return fine;
}
