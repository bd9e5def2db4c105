#include <stdio.h>
#include <string.h>

#include "core/ledger/ledger_internal.h"
#include "support/core_fixture.h"
#include "support/test.h"

CORE_TEST(only_what_answers_the_request_is_believed)
{
    static const struct {
        const char *words;
        const char *annotation;
        bool believed;
    } annotated[] = {
        {"300", "c0 GPU-a 300 1", true},
        {"300", "c0 GPU-a 300 0", true},
        {"300", "c0 n1/gpu-0 300 1", true},
        {"300", "c0 n1x/gpu-0 300 1", false},
        {"300", "c0 n2/gpu-0 300 1", false},
        {"300", "c0 GPU-a 301 1", false},
        {"300", "c0 GPU-a 300 4194304", false},
        {"300", "c0 GPU-a 300 1,c0 GPU-b 300 1", false},
        {"300", "c1 GPU-a 300 1", false},
        {"300", "", false},
        {"2000", "c0 GPU-a 1000 1,c0 GPU-b 1000 1", true},
        {"2000", "c0 GPU-a 1000 1,c0 GPU-a 1000 1", false},
        {"2000", "c0 GPU-a 1000 1", false},
        {"100x3", "c0 GPU-b 100 1,c0 GPU-a 100 1,c0 GPU-a 100 1", false},
        {"300+i700", "c1 GPU-a 700 1,c0 GPU-b 300 1", true},
        {"300+i700", "c0 GPU-b 300 1,c0 GPU-a 700 1", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(annotated); i++) {
        struct pod *pod = core_pod(core, "a", "n1");
        const struct request *request = core_request(core, annotated[i].words);
        assert_false(adopt_believes(pod, request));
        core_note(core, pod, annotated[i].annotation);
        if (adopt_believes(pod, request) != annotated[i].believed)
            fail_msg("%s as an answer to %s", annotated[i].annotation, annotated[i].words);
        pod->annotation = NOTE_BROKEN;
        assert_false(adopt_believes(pod, request));
    }
    struct pod *pod = core_pod(core, "a", "n1");
    core_note(core, pod, "c0 GPU-a 300 1");
    char id[GPU_ID_BYTES_MAX + 2];
    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    pod->share[0].gpu = id;
    assert_false(adopt_believes(pod, core_request(core, "300")));
    id[GPU_ID_BYTES_MAX] = '\0';
    assert_true(adopt_believes(pod, core_request(core, "300")));
    pod->share[0].gpu = "";
    assert_false(adopt_believes(pod, core_request(core, "300")));
}

/* How far a share was raised is written nowhere else; what was asked for stands in the spec. */
CORE_TEST(a_raise_is_believed_where_it_could_have_been_granted)
{
    static const struct {
        const char *words;
        uint32_t memory_mib;
        const char *annotation; /* container, gpu, milli, mib, index, asked */
        bool believed;
    } annotated[] = {
        {"100", 16384, "c0 GPU-a 200 16384 0 100", true},
        {"100", 16384, "c0 GPU-a 200 16383 0 100", false}, /* less than was demanded */
        {"100", 0, "c0 GPU-a 200 16384 0 100", false},     /* nothing demands it */
        {"100", 16384, "c0 GPU-a 200 16384 0 99", false},  /* another request */
        {"100", 16384, "c0 GPU-a 200 16384 0", false},
        {"100", 16384, "c0 GPU-a 100 8192 0", true}, /* as before, whatever the memory */
        {"100x2", 9, "c0 GPU-a 200 99 0 100,c0 GPU-b 200 99 0 100", true},
        {"100", 1, "c0 GPU-a 200 1 0 100", true},
        {"100x2", 9, "c0 GPU-a 200 99 0 100,c0 GPU-b 201 99 0 100", false},
        {"100x2", 9, "c0 GPU-a 200 99 0 100,c0 GPU-b 100 99 0", false},
        {"100x2", 9, "c0 GPU-b 100 99 0,c0 GPU-a 200 99 0 100", false},
        {"100+300", 9, "c0 GPU-a 200 99 0 100,c1 GPU-a 300 99 0", true},
        {"100+150", 9, "c0 GPU-a 200 99 0 100,c1 GPU-a 200 99 0 150", true},
        {"100+200", 9, "c0 GPU-a 200 99 0 100,c1 GPU-a 200 99 0", true},
        {"100+150", 9, "c0 GPU-a 200 99 0 100,c1 GPU-a 150 99 0", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(annotated); i++) {
        struct pod *pod = core_pod(core, "a", "n1");
        struct request *request = core_request(core, annotated[i].words);
        request->memory_mib = annotated[i].memory_mib;
        core_note(core, pod, annotated[i].annotation);
        if (adopt_believes(pod, request) != annotated[i].believed)
            fail_msg("%s as an answer to %s", annotated[i].annotation, annotated[i].words);
    }
}

/* Whether the pod still demands memory is up to its tenant; what the spec requests is not. */
CORE_TEST(a_raise_that_we_signed_is_believed_whatever_memory_is_demanded_now)
{
    static const struct {
        const char *words;
        const char *annotation; /* container, gpu, milli, mib, index, asked */
        bool believed;
    } annotated[] = {
        {"100", "c0 GPU-a 200 16384 0 100", true},
        {"100", "c0 GPU-a 100 8192 0", true},
        {"100x2", "c0 GPU-a 200 99 0 100,c0 GPU-b 201 99 0 100", true},
        {"100+150", "c0 GPU-a 200 99 0 100,c1 GPU-a 150 99 0", true},
        {"100", "c0 GPU-a 200 16384 0 99", false},
        {"100", "c0 GPU-a 200 16384 0", false},
        {"100", "c0 GPU-a 200 16384 0 100,c1 GPU-a 100 1 0", false},
        {"100", "c0 GPU-a 200 4194304 0 100", false},
        {"100", "c0 n2/gpu-0 200 16384 0 100", false},
        {"100x2", "c0 GPU-a 200 99 0 100,c0 GPU-a 200 99 0 100", false},
    };
    static const uint32_t memory_mib[] = {0, 1, 16384, 16385, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(annotated); i++) {
        struct pod *pod = core_pod(core, "a", "n1");
        struct request *request = core_request(core, annotated[i].words);
        core_note(core, pod, annotated[i].annotation);
        pod->proof = PROOF_SIGNED;
        for (size_t m = 0; m < ARRAY_LEN(memory_mib); m++) {
            request->memory_mib = memory_mib[m];
            if (adopt_believes(pod, request) != annotated[i].believed)
                fail_msg("%s as an answer to %s", annotated[i].annotation, annotated[i].words);
        }
        pod->annotation = NOTE_BROKEN;
        assert_false(adopt_believes(pod, request));
    }
    struct pod *pod = core_pod(core, "a", "n1");
    core_note(core, pod, "c0 GPU-a 200 16384 0 100");
    pod->proof = PROOF_UNSIGNED;
    assert_false(adopt_believes(pod, core_request(core, "100")));
    pod->proof = PROOF_UNKNOWN;
    assert_false(adopt_believes(pod, core_request(core, "100")));
}

CORE_TEST(a_note_that_is_twice_as_long_as_any_gpu_is_not_believed)
{
    char id[GPU_ID_BYTES_MAX + NAME_BYTES_MAX + 2];
    struct pod *pod = core_pod(core, "a", "n1");
    core_note(core, pod, "c0 GPU-a 300 1");
    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    memcpy(id, "n1/", 3);
    pod->share[0].gpu = id;
    assert_false(adopt_believes(pod, core_request(core, "300")));
    id[sizeof id - 2] = '\0';
    assert_true(adopt_believes(pod, core_request(core, "300")));
}

CORE_TEST(as_many_shares_as_a_pod_may_have_are_believed)
{
    static const char *const words = "100x64+100x64+100x64+100x64+100x64+100x64+100x64+100x64";
    static struct pod_share share[PARTS_MAX];
    char name[PARTS_MAX / GPUS_PER_NODE_MAX][8];
    char gpu[GPUS_PER_NODE_MAX][8];
    for (uint32_t i = 0; i < PARTS_MAX; i++) {
        const uint32_t container = i / GPUS_PER_NODE_MAX;
        const uint32_t number = i % GPUS_PER_NODE_MAX;
        (void)snprintf(name[container], sizeof name[0], "c%u", container);
        (void)snprintf(gpu[number], sizeof gpu[0], "GPU-%u", number);
        share[i] = (struct pod_share){
            .container = name[container], .gpu = gpu[number], .milli = 100, .mib = 1};
    }
    struct pod *pod = core_pod(core, "a", "n1");
    pod->annotation = NOTE_OK;
    pod->share = share;
    pod->shares = PARTS_MAX;
    assert_true(adopt_believes(pod, core_request(core, words)));
    pod->shares--;
    assert_false(adopt_believes(pod, core_request(core, words)));
}
