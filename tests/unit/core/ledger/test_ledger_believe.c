#include <stdio.h>
#include <string.h>

#include "core/ledger/ledger_internal.h"
#include "support/core_fixture.h"
#include "support/test.h"

struct row {
    const char *words;
    uint32_t memory_mib;
    const char *annotation; /* container, gpu, milli, mib, index, asked */
    bool believed;
};

/* A broken annotation with the same shares is not believed. */
static void assert_believed(struct core_fixture *core, const struct row *row, enum pod_proof proof,
                            uint32_t memory_mib)
{
    struct pod *pod = core_pod(core, "a", "n1");
    struct request *request = core_request(core, row->words);

    request->memory_mib = memory_mib;
    assert_false(adopt_believes(pod, request));
    core_note(core, pod, row->annotation);
    pod->proof = proof;
    if (adopt_believes(pod, request) != row->believed)
        fail_msg("%s as an answer to %s", row->annotation, row->words);
    pod->annotation = NOTE_BROKEN;
    assert_false(adopt_believes(pod, request));
}

CORE_TEST(believes__needs_shares_that_answer_the_request)
{
    static const struct row row[] = {
        {"300", 0, "c0 GPU-a 300 1", true},
        {"300", 0, "c0 GPU-a 300 0", true},
        {"300", 0, "c0 n1/gpu-0 300 1", true},
        {"300", 0, "c0 n1x/gpu-0 300 1", false},
        {"300", 0, "c0 n2/gpu-0 300 1", false},
        {"300", 0, "c0 GPU-a 301 1", false},
        {"300", 0, "c0 GPU-a 300 4194304", false},
        {"300", 0, "c0 GPU-a 300 1,c0 GPU-b 300 1", false},
        {"300", 0, "c1 GPU-a 300 1", false},
        {"300", 0, "", false},
        {"2000", 0, "c0 GPU-a 1000 1,c0 GPU-b 1000 1", true},
        {"2000", 0, "c0 GPU-a 1000 1,c0 GPU-a 1000 1", false},
        {"2000", 0, "c0 GPU-a 1000 1", false},
        {"100x3", 0, "c0 GPU-b 100 1,c0 GPU-a 100 1,c0 GPU-a 100 1", false},
        {"300+i700", 0, "c1 GPU-a 700 1,c0 GPU-b 300 1", true},
        {"300+i700", 0, "c0 GPU-b 300 1,c0 GPU-a 700 1", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        assert_believed(core, &row[i], PROOF_UNKNOWN, 0);
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

/* Only the annotation has the raised milli; the spec has the milli asked for. */
CORE_TEST(believes__accepts_a_raise_that_could_have_been_granted)
{
    static const struct row row[] = {
        {"100", 16384, "c0 GPU-a 200 16384 0 100", true},
        {"100", 16384, "c0 GPU-a 200 16383 0 100", false}, /* less memory than demanded */
        {"100", 0, "c0 GPU-a 200 16384 0 100", false},     /* no memory is demanded */
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
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        assert_believed(core, &row[i], PROOF_UNKNOWN, row[i].memory_mib);
}

/* The tenant may edit the demand for memory, but not the request in the spec. */
CORE_TEST(believes__accepts_a_signed_raise_with_any_memory_demand)
{
    static const struct row row[] = {
        {"100", 0, "c0 GPU-a 200 16384 0 100", true},
        {"100", 0, "c0 GPU-a 100 8192 0", true},
        {"100x2", 0, "c0 GPU-a 200 99 0 100,c0 GPU-b 201 99 0 100", true},
        {"100+150", 0, "c0 GPU-a 200 99 0 100,c1 GPU-a 150 99 0", true},
        {"100", 0, "c0 GPU-a 200 16384 0 99", false},
        {"100", 0, "c0 GPU-a 200 16384 0", false},
        {"100", 0, "c0 GPU-a 200 16384 0 100,c1 GPU-a 100 1 0", false},
        {"100", 0, "c0 GPU-a 200 4194304 0 100", false},
        {"100", 0, "c0 n2/gpu-0 200 16384 0 100", false},
        {"100x2", 0, "c0 GPU-a 200 99 0 100,c0 GPU-a 200 99 0 100", false},
    };
    static const uint32_t memory_mib[] = {0, 1, 16384, 16385, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        for (size_t m = 0; m < ARRAY_LEN(memory_mib); m++)
            assert_believed(core, &row[i], PROOF_SIGNED, memory_mib[m]);
    static const struct row raised = {"100", 0, "c0 GPU-a 200 16384 0 100", false};
    assert_believed(core, &raised, PROOF_UNSIGNED, 0);
    assert_believed(core, &raised, PROOF_UNKNOWN, 0);
}

CORE_TEST(believes__refuses_an_id_longer_than_a_made_up_name)
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

CORE_TEST(believes__accepts_the_most_shares_of_a_pod)
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
    pod->n_shares = PARTS_MAX;
    assert_true(adopt_believes(pod, core_request(core, words)));
    pod->n_shares--;
    assert_false(adopt_believes(pod, core_request(core, words)));
}
