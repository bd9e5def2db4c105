/* Any pod that is read can be judged, and its note is whole or broken. */
#include <string.h>

#include "milligpu/request.h"
#include "milligpu/wire_kube.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct wire_rules rules = {"nvidia.com/vgpu", "nvidia.com/gpu"};

static void check(const struct pod *pod, struct arena *arena)
{
    static const struct request_rules judge = {"nvidia.com/vgpu", 1, 1};
    struct request request;
    struct refusal refusal;
    must(strlen(pod->name) <= NAME_BYTES_MAX && strlen(pod->uid) <= UID_BYTES_MAX);
    must(pod->containers <= CONTAINERS_MAX + 1 && pod->cpu_milli >= 0 && pod->memory_bytes >= 0);
    must((pod->note == NOTE_OK) == (pod->shares > 0));
    must((pod->note == NOTE_BROKEN) == (strlen(pod->note_error) > 0));
    const enum request_verdict verdict = request_parse(pod, &judge, arena, &request, &refusal);
    must(pod->ours || verdict == REQUEST_NOT_OURS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text bytes = {(const char *)data, size};
    struct arena arena;
    struct pod pod;
    struct err err;
    arena_init(&arena);
    if (pod_decode(bytes, &rules, &arena, &pod, &err) == 0)
        check(&pod, &arena);
    arena_done(&arena);
    return 0;
}
