#include "support/draw.h"

#include "core/rank/policy_internal.h"
#include "support/atoms.h"

uint32_t draw_below(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(*seed >> 33) % below;
}

static void draw_class(uint64_t *seed, struct workload_class *out)
{
    static const uint32_t parts[] = {0, 1, 1, 1, 1, 1, 2, 2, 3, 4};
    static const uint32_t milli[] = {1, 50, 63, 64, 65, 190, 250, 460, 500, 810, 999, 1000, 1000};
    static const uint32_t cpu[] = {0, 0, 500, 1000, 4000, 12000};
    static const uint32_t memory[] = {0, 0, 512, 1024, 4096};
    static const uint32_t share[] = {0, 0, 0, 0, 0, 100, 500, 800};
    static const char *t4[] = {"T4"};
    static const char *large[] = {"A100", "H100"};
    static const char *any[] = {"?100*"};
    static const char **const models[] = {t4, large, any};

    *out = (struct workload_class){
        .host = {cpu[draw_below(seed, ARRAY_LEN(cpu))],
                 memory[draw_below(seed, ARRAY_LEN(memory))]},
        .parts = parts[draw_below(seed, ARRAY_LEN(parts))],
        .milli = milli[draw_below(seed, ARRAY_LEN(milli))],
        .share_mib = share[draw_below(seed, ARRAY_LEN(share))],
        .count = 1 + draw_below(seed, 30),
    };
    const uint32_t model = draw_below(seed, 9);
    if (model < ARRAY_LEN(models)) {
        out->model = models[model];
        out->n_models = models[model] == large ? 2 : 1;
    }
}

uint32_t draw_classes(uint64_t *seed, uint32_t most, struct workload_class *out)
{
    const uint32_t tries = draw_below(seed, most + 1);
    uint32_t classes = 0;

    for (uint32_t i = 0; i < tries; i++) {
        struct workload_class *class = &out[classes];
        bool known = false;
        draw_class(seed, class);
        for (uint32_t j = 0; j < classes; j++)
            known = known || workload_alike(&out[j], class);
        classes += !known;
    }
    return classes;
}

struct workload *draw_workload(uint64_t *seed, uint32_t most)
{
    struct workload_class class[WORKLOAD_CLASSES_MAX];
    must(most <= WORKLOAD_CLASSES_MAX);
    return workload_new(class, draw_classes(seed, most, class));
}

static void draw_gpu(uint64_t *seed, struct gpu_room *out)
{
    static const char *const model[] = {"A100", "A100", "H100", "T4", "Tesla-T4"};
    static const uint32_t used[] = {0, 0, 0, 65, 190, 250, 460, 500, 810, 999, 1000};

    *out = (struct gpu_room){.milli = draw_below(seed, 6) == 0 ? 500 : GPU_MILLI,
                             .mib = draw_below(seed, 4) == 0 ? 400 : 1000,
                             .model = atom(model[draw_below(seed, ARRAY_LEN(model))])};
    const uint32_t milli = used[draw_below(seed, ARRAY_LEN(used))];
    out->free_milli = milli < out->milli ? out->milli - milli : 0;
    out->free_mib = out->mib;
    out->closed = draw_below(seed, 12) == 0 ? REASON_CORDONED : REASON_NONE;
}

void draw_room_of(uint64_t *seed, uint32_t gpus, struct room *out)
{
    static const uint32_t cpu[] = {0, 999, 1000, 5000, 16000, 96000, UINT32_MAX};
    static const uint32_t memory[] = {0, 600, 5000, 100000, UINT32_MAX};
    const bool alike = draw_below(seed, 2) == 0;

    *out = (struct room){.closed = draw_below(seed, 30) == 0 ? REASON_MIXED : REASON_NONE,
                         .host_known = draw_below(seed, 4) != 0,
                         .host = {cpu[draw_below(seed, ARRAY_LEN(cpu))],
                                  memory[draw_below(seed, ARRAY_LEN(memory))]},
                         .n_gpus = gpus};
    for (uint32_t i = 0; i < gpus; i++) {
        struct gpu_room *gpu = &out->gpu[i];
        draw_gpu(seed, gpu);
        if (!alike || i == 0)
            continue;
        gpu->model = out->gpu[0].model;
        gpu->milli = out->gpu[0].milli;
        gpu->mib = out->gpu[0].mib;
        gpu->free_milli = gpu->free_milli < gpu->milli ? gpu->free_milli : gpu->milli;
    }
    for (uint32_t i = 0; i < gpus; i++)
        if (out->closed == REASON_NONE && out->gpu[i].closed == REASON_NONE)
            out->free_milli += out->gpu[i].free_milli;
}

bool gpu_may_serve(const struct gpu_room *gpu, const struct workload_class *class)
{
    const struct request request = {.n_models = class->n_models, .model = class->model};
    return class->milli <= gpu->milli &&
           (uint64_t)gpu->mib * class->milli / gpu->milli >= class->share_mib &&
           request_takes_model(&request, atom_text(gpu->model));
}

void measure_room(const struct room *room, const struct workload *workload, struct remaining *out)
{
    static struct kinds kinds;

    kinds_done(&kinds);
    kinds_init(&kinds, workload);
    remaining_of(room, &kinds, out);
}
