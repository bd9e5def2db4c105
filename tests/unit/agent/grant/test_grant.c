/* grant - the GPUs of a container, and the reason that its owner reads if it gets none. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/annotations.h"
#include "milligpu/sign/signing.h"

#include "agent/grant/grant.h"
#include "support/test.h"
#include "unit/agent/support.h"

#define UID "3f6c1a2e-0000-4000-8000-000000000001"
#define TWO                                                                                        \
    "{\"v\":1,\"containers\":{\"main\":[{\"gpu\":\"GPU-a\",\"index\":0,\"milli\":300,"             \
    "\"mib\":4915}],\"side\":[{\"gpu\":\"GPU-b\",\"index\":1,\"milli\":501,\"mib\":0}]}}"
#define BOTH                                                                                       \
    "{\"v\":1,\"containers\":{\"main\":[{\"gpu\":\"GPU-a\",\"index\":0,\"milli\":300,"             \
    "\"mib\":4915},{\"gpu\":\"GPU-b\",\"index\":1,\"milli\":250,\"mib\":6000}]}}"

enum { PAIRS_MAX = 8 };

struct world {
    struct grant_rules rules;
    struct arena arena;
    struct signing_key *key;
    bool key_known;
    const char *recorded; /* for any uid; NULL: none */
    const char *kind;
    const char *unknown; /* the GPU that NVML has not shown; NULL: it has shown all */
    int mps;             /* the answer of the rules for any GPU */
    struct nri_pair pair[PAIRS_MAX];
    struct nri_pod pod;
    char signature[SIGNATURE_TEXT_BYTES];
    struct grant grant;
};

static const char *known_key(void *user, const char *id)
{
    const struct world *world = user;
    return world->key_known && strcmp(id, signing_key_id(world->key)) == 0
               ? signing_key_public(world->key)
               : NULL;
}

static bool known_record(void *user, struct text uid, struct text *out)
{
    const struct world *world = user;
    (void)uid;
    if (world->recorded != NULL)
        *out = text_of(world->recorded);
    return world->recorded != NULL;
}

static const char *known_kind(void *user, const char *const *gpu, uint32_t gpus, struct err *err)
{
    const struct world *world = user;
    assert_true(gpus > 0 && gpu[0] != NULL);
    if (world->kind == NULL)
        (void)err_set(err, ERR_NOT_FOUND, "no CDI specification names %s", gpu[0]);
    return world->kind;
}

static bool known_gpu(void *user, const char *gpu)
{
    const struct world *world = user;
    return world->unknown == NULL || strcmp(world->unknown, gpu) != 0;
}

static int known_mps(void *user, const char *gpu, struct mps_place *out, struct err *err)
{
    const struct world *world = user;
    assert_non_null(gpu);
    *out = (struct mps_place){"/host/pipe", "/host/shm"};
    return world->mps < 0 ? err_set(err, ERR_UNAVAILABLE, "the MPS daemon is down") : world->mps;
}

static int set_up(void **state)
{
    struct world *world = test_calloc(1, sizeof *world);
    char folder[] = "/tmp/grant-XXXXXX";
    char file[64];
    struct err err;

    assert_non_null(mkdtemp(folder));
    (void)snprintf(file, sizeof file, "%s/key", folder);
    assert_int_equal(signing_key_open(file, &world->key, &err), 0);
    (void)unlink(file);
    (void)rmdir(folder);
    world->rules = (struct grant_rules){.node = "n1",
                                        .user = world,
                                        .public_key = known_key,
                                        .record = known_record,
                                        .gpu = known_gpu,
                                        .kind = known_kind,
                                        .mps = known_mps};
    world->key_known = true;
    world->kind = "nvidia.com/gpu";
    world->pod = (struct nri_pod){.uid = TEXT(UID), .name = TEXT("web"), .annotation = world->pair};
    arena_init(&world->arena);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    arena_done(&world->arena);
    signing_key_free(world->key);
    test_free(world);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct world *world, set_up, tear_down)

static void carries(struct world *world, const char *key, const char *value)
{
    assert_true(world->pod.n_annotations < PAIRS_MAX);
    world->pair[world->pod.n_annotations++] = (struct nri_pair){text_of(key), text_of(value)};
}

/* milligpud signed this for that uid and node. */
static void signs(struct world *world, const char *uid, const char *node, const char *annotation)
{
    const struct signed_facts facts = {text_of(uid), text_of(node), text_of(annotation),
                                       SIGNED_ALLOCATION};
    struct err err;
    assert_int_equal(signing_sign(world->key, &facts, world->signature, &err), 0);
    carries(world, ANNOTATION_SIGNATURE, world->signature);
}

static void bound_with(struct world *world, const char *annotation)
{
    carries(world, "team", "blue");
    carries(world, ANNOTATION_ALLOCATION, annotation);
    signs(world, UID, "n1", annotation);
}

static enum grant_verdict judged(struct world *world, const char *container)
{
    grant_check(&world->rules, &world->pod, text_of(container), &world->arena, &world->grant);
    return world->grant.verdict;
}

static const struct nri_container plain = {.name = TEXT("main")};

/* The adjustment of the named container; words as for assert_outcome(). */
static struct nri_adjustment adjusted(struct world *world, const char *name,
                                      const struct nri_container *container, const char *words)
{
    struct nri_adjustment out;
    struct err err = {0};
    (void)judged(world, name);
    assert_outcome(grant_adjust(&world->rules, &world->grant, container, &world->arena, &out, &err),
                   &err, words);
    return out;
}

static const char *env_of(const struct nri_adjustment *adjustment, const char *name)
{
    for (uint32_t i = 0; i < adjustment->n_envs; i++)
        if (text_is(adjustment->env[i].key, name))
            return adjustment->env[i].value.at;
    return NULL;
}

static void refused(struct world *world, const char *container, const char *words)
{
    assert_int_equal(judged(world, container), GRANT_REFUSED);
    assert_says(world->grant.why.text, words);
}

static void judges_all(struct world *world, const char *container, const char *devices,
                       const char *asked, const char *words)
{
    struct text list[8];
    struct text wanted[1] = {text_of(asked)};
    struct nri_pair none[] = {{TEXT("NVIDIA_VISIBLE_DEVICES"), TEXT("void")}};
    struct nri_adjustment all = {.cdi_device = list, .env = none, .n_envs = 1};
    const struct nri_container is = {.n_cdi_devices = asked != NULL ? 1 : 0, .cdi_device = wanted};
    struct text rest = text_of(devices);
    struct text device;
    struct err err = {0};

    while (text_cut(&rest, ' ', &device))
        list[all.n_cdi_devices++] = device;
    (void)judged(world, container);
    assert_outcome(grant_validate(&world->rules, &world->grant, &is, &all, &err), &err, words);
}

FIXTURE_TEST(grant__gives_a_container_exactly_its_shares)
{
    bound_with(world, TWO);
    assert_int_equal(judged(world, "main"), GRANT_GPUS);
    assert_int_equal(world->grant.proof, PROOF_SIGNATURE);
    assert_int_equal(world->grant.n_shares, 1);
    assert_string_equal(world->grant.share[0]->gpu, "GPU-a");
    assert_int_equal(judged(world, "side"), GRANT_GPUS);
    assert_string_equal(world->grant.share[0]->gpu, "GPU-b");
}

FIXTURE_TEST(grant__gives_a_container_without_share_nothing)
{
    bound_with(world, TWO);
    assert_int_equal(judged(world, "proxy"), GRANT_NOTHING);
    assert_int_equal(judged(world, "mai"), GRANT_NOTHING);
    assert_int_equal(judged(world, ""), GRANT_NOTHING);
}

FIXTURE_TEST(grant__leaves_other_pods_foreign)
{
    carries(world, "team", "blue");
    carries(world, "required-plugins.noderesource.dev/pod", "[\"other\"]");
    const struct nri_adjustment out = adjusted(world, "main", &plain, NULL);
    assert_int_equal(world->grant.verdict, GRANT_FOREIGN);
    assert_int_equal(out.n_envs + out.n_cdi_devices + out.n_mounts + out.n_devices, 0);
}

FIXTURE_TEST(grant__refuses_a_marked_pod_without_allocation)
{
    carries(world, "required-plugins.noderesource.dev/container.main", "[\"milligpu\"]");
    refused(world, "main", "milligpu.io/allocation is missing, since milligpud did not bind");
}

FIXTURE_TEST(grant__refuses_an_unsigned_allocation)
{
    carries(world, ANNOTATION_ALLOCATION, TWO);
    refused(world, "main", "not signed by milligpud");
    refused(world, "proxy", "not signed by milligpud");
    judges_all(world, "main", "nvidia.com/gpu=GPU-a", NULL, "not signed");
    carries(world, ANNOTATION_SIGNATURE, "v1:abc");
    refused(world, "main", "is no signature");
}

FIXTURE_TEST(grant__retries_with_an_unknown_key)
{
    bound_with(world, TWO);
    world->key_known = false;
    refused(world, "main", "ConfigMap milligpu-keys");
    world->key_known = true;
    assert_int_equal(judged(world, "main"), GRANT_GPUS);
}

FIXTURE_TEST(grant__refuses_the_signature_of_other_facts)
{
    static const struct {
        const char *uid;
        const char *node;
        const char *annotation;
    } other[] = {{"another", "n1", TWO}, {UID, "n2", TWO}, {UID, "n1", BOTH}};

    for (size_t i = 0; i < ARRAY_LEN(other); i++) {
        world->pod.n_annotations = 0;
        carries(world, ANNOTATION_ALLOCATION, TWO);
        signs(world, other[i].uid, other[i].node, other[i].annotation);
        refused(world, "main", "not what milligpud signed");
        refused(world, "main",
                "leave annotations milligpu.io/... and spec.nodeName out of a manifest");
    }
}

FIXTURE_TEST(grant__allows_one_allocation_for_a_uid)
{
    world->recorded = TWO;
    bound_with(world, BOTH); /* even signed */
    refused(world, "main", "was changed");
}

FIXTURE_TEST(grant__needs_no_signature_for_a_recorded_pod)
{
    world->recorded = TWO;
    refused(world, "main", "is gone"); /* it cannot hide its allocation */
    carries(world, ANNOTATION_ALLOCATION, TWO);
    assert_int_equal(judged(world, "main"), GRANT_GPUS);
    assert_int_equal(world->grant.proof, PROOF_RECORD);
}

FIXTURE_TEST(grant__refuses_a_uid_that_is_not_a_file_name)
{
    world->pod.uid = TEXT("../../etc");
    carries(world, ANNOTATION_ALLOCATION, TWO);
    refused(world, "main", "uid");
}

FIXTURE_TEST(grant__refuses_a_signed_invalid_allocation)
{
    bound_with(world, "{\"v\":1,\"containers\":{}}");
    refused(world, "main", "milligpu.io/allocation");
}

/* Also with a proof: any other name could be that of another device. */
FIXTURE_TEST(grant__accepts_only_gpu_uuids_as_devices)
{
    static const char names[] = "all 0 n1/gpu-0 gpu-a GPU- GPU-a=b GPU-a/b MIG-GPU-a GPU-a:0 "
                                "xGPU-a nvidia.com/gpu=all GPU-a.GPU-b";
    struct text rest = text_of(names);
    struct text name;
    char annotation[256];

    while (text_cut(&rest, ' ', &name)) {
        world->pod.n_annotations = 0;
        world->recorded = NULL;
        (void)snprintf(annotation, sizeof annotation,
                       "{\"v\":1,\"containers\":{\"main\":[{\"gpu\":\"%.*s\",\"index\":0,"
                       "\"milli\":300,\"mib\":0}]}}",
                       TEXT_ARG(name));
        bound_with(world, annotation);
        refused(world, "main", "which is not the UUID of a GPU");
        world->recorded = annotation;
        refused(world, "main", "which is not the UUID of a GPU");
        world->pod.n_annotations = 0;
        carries(world, ANNOTATION_ALLOCATION, annotation);
        refused(world, "main", "which is not the UUID of a GPU");
        assert_int_equal(judged(world, "proxy"), GRANT_NOTHING);
    }
}

/* --- adjustments --- */

FIXTURE_TEST(adjust__injects_gpus_by_uuid)
{
    bound_with(world, BOTH);
    const struct nri_adjustment out = adjusted(world, "main", &plain, NULL);
    assert_int_equal(out.n_cdi_devices, 2);
    assert_true(text_is(out.cdi_device[0], "nvidia.com/gpu=GPU-a"));
    assert_true(text_is(out.cdi_device[1], "nvidia.com/gpu=GPU-b"));
    assert_int_equal(out.n_envs, 1);
    assert_string_equal(env_of(&out, "NVIDIA_VISIBLE_DEVICES"), "void");
}

FIXTURE_TEST(adjust__overwrites_limits_that_the_pod_wrote)
{
    const struct text env[] = {TEXT("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100"),
                               TEXT("CUDA_MPS_PIPE_DIRECTORY=/elsewhere"),
                               TEXT("NVIDIA_GPU_MEMORY_LIMIT=99999"), TEXT("HOME=/"),
                               TEXT("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=")};
    const struct nri_container greedy = {.n_envs = ARRAY_LEN(env), .env = env};
    bound_with(world, BOTH);
    const struct nri_adjustment out = adjusted(world, "main", &greedy, NULL);
    assert_string_equal(env_of(&out, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "25");
    assert_string_equal(env_of(&out, "CUDA_MPS_PIPE_DIRECTORY"), "/run/milligpu/no-mps");
    assert_string_equal(env_of(&out, "NVIDIA_GPU_MEMORY_LIMIT"), "4915");
    assert_string_equal(env_of(&out, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=4915M");
    assert_null(env_of(&out, "NVIDIA_GPU_MEMORY_REQUEST"));
    assert_null(env_of(&out, "HOME"));
}

FIXTURE_TEST(adjust__voids_the_variable_without_a_share)
{
    bound_with(world, TWO);
    const struct nri_adjustment out = adjusted(world, "proxy", &plain, NULL);
    assert_int_equal(world->grant.verdict, GRANT_NOTHING);
    assert_int_equal(out.n_envs, 1);
    assert_int_equal(out.n_cdi_devices, 0);
}

FIXTURE_TEST(adjust__refuses_gpus_without_a_specification)
{
    bound_with(world, TWO);
    world->kind = NULL;
    (void)adjusted(world, "main", &plain, "no CDI specification names GPU-a");
}

FIXTURE_TEST(adjust__injects_only_gpus_that_nvml_has_shown)
{
    struct nri_adjustment out;
    bound_with(world, BOTH);
    for (int recorded = 0; recorded < 2; recorded++) {
        world->recorded = recorded == 1 ? BOTH : NULL;
        world->unknown = "GPU-b";
        out = adjusted(world, "main", &plain,
                       "its GPU GPU-b is not known to NVIDIA's driver on node n1 "
                       "(yet); will be retried automatically");
        assert_int_equal(world->grant.verdict, GRANT_GPUS); /* it may run already */
        assert_int_equal(out.n_cdi_devices, 0);
        world->unknown = NULL;
        out = adjusted(world, "main", &plain, NULL);
        assert_int_equal(out.n_cdi_devices, 2);
    }
}

/* --- MPS --- */

#define ONE(milli, mib)                                                                            \
    "{\"v\":1,\"containers\":{\"main\":[{\"gpu\":\"GPU-a\",\"index\":0,\"milli\":" #milli          \
    ",\"mib\":" #mib "}]}}"
#define WHOLE                                                                                      \
    "{\"v\":1,\"containers\":{\"main\":[{\"gpu\":\"GPU-a\",\"index\":0,\"milli\":1000,\"mib\":9}," \
    "{\"gpu\":\"GPU-b\",\"index\":1,\"milli\":1000,\"mib\":9}]}}"

static const struct nri_container of_a_user = {.name = TEXT("main"), .has_user = true, .user = 7};

FIXTURE_TEST(mps__gives_a_client_its_limits_and_mounts)
{
    static const struct {
        const char *annotation;
        const char *percent;
        const char *memory;
    } share[] = {{ONE(1, 1), "1", "0=1M"},
                 {ONE(10, 16), "1", "0=16M"},
                 {ONE(501, 4915), "51", "0=4915M"},
                 {ONE(999, 81559), "100", "0=81559M"},
                 {ONE(300, 0), "30", NULL}}; /* no memory is known of its GPU */
    struct nri_adjustment out;

    world->mps = 1;
    for (size_t i = 0; i < ARRAY_LEN(share); i++) {
        world->pod.n_annotations = 0;
        bound_with(world, share[i].annotation);
        out = adjusted(world, "main", &of_a_user, NULL);
        assert_int_equal(world->grant.mps, GRANT_MPS_CLIENT);
        assert_string_equal(env_of(&out, "CUDA_MPS_PIPE_DIRECTORY"), "/run/milligpu/mps");
        assert_string_equal(env_of(&out, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), share[i].percent);
        if (share[i].memory == NULL)
            assert_null(env_of(&out, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"));
        else
            assert_string_equal(env_of(&out, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), share[i].memory);
        assert_null(env_of(&out, "NVIDIA_GPU_MEMORY_LIMIT"));
        assert_int_equal(out.n_mounts, 2);
        assert_true(text_is(out.mount[0].destination, "/run/milligpu/mps"));
        assert_true(text_is(out.mount[0].source, "/host/pipe"));
        assert_true(text_is(out.mount[1].destination, "/dev/shm"));
        assert_true(text_is(out.mount[1].source, "/host/shm"));
        assert_true(text_is(out.mount[1].type, "bind"));
    }
}

FIXTURE_TEST(mps__leaves_no_trace_when_off)
{
    struct nri_adjustment out;

    bound_with(world, ONE(300, 4915));
    out = adjusted(world, "main", &of_a_user, NULL);
    assert_int_equal(world->grant.mps, GRANT_MPS_NONE);
    assert_int_equal(out.n_envs, 1);
    assert_int_equal(out.n_mounts, 0);
    world->mps = -1; /* it is not asked for these */
    world->pod.n_annotations = 0;
    bound_with(world, WHOLE);
    out = adjusted(world, "main", &of_a_user, NULL);
    assert_int_equal(out.n_cdi_devices, 2);
    assert_int_equal(out.n_mounts, 0);
    assert_int_equal(judged(world, "proxy"), GRANT_NOTHING);
}

FIXTURE_TEST(mps__recognizes_a_running_client)
{
    static const struct {
        struct text env[3];
        bool is;
    } seen[] = {
        {{TEXT("HOME=/"), TEXT("CUDA_MPS_PIPE_DIRECTORY=/run/milligpu/mps"), TEXT("A=1")}, true},
        {{TEXT("HOME=/"), TEXT("CUDA_MPS_PIPE_DIRECTORY=/run/milligpu/no-mps"), TEXT("A=1")},
         false},
        {{TEXT("CUDA_MPS_PIPE_DIRECTORY=/x"), TEXT("A=1"),
          TEXT("CUDA_MPS_PIPE_DIRECTORY=/run/milligpu/mps")},
         true},
        {{TEXT("CUDA_MPS_PIPE_DIRECTORY=/run/milligpu/mps"), TEXT("A=1"),
          TEXT("CUDA_MPS_PIPE_DIRECTORY=/x")},
         false},
    };
    for (size_t i = 0; i < ARRAY_LEN(seen); i++) {
        const struct nri_container runs = {.n_envs = 3, .env = seen[i].env, .has_user = true};
        world->pod.n_annotations = 0;
        bound_with(world, ONE(300, 4915));
        (void)judged(world, "main");
        assert_int_equal(grant_is_client(&world->grant, &runs), seen[i].is);
        world->grant.mps = GRANT_MPS_NONE; /* the decision is stronger */
        assert_false(grant_is_client(&world->grant, &runs));
        (void)judged(world, "proxy");
        assert_false(grant_is_client(&world->grant, &runs));
    }
}

static void adjust_refuses(struct world *world, const struct nri_container *container,
                           const char *words)
{
    (void)adjusted(world, "main", container, words);
    assert_int_equal(world->grant.mps, GRANT_MPS_NONE);
}

FIXTURE_TEST(mps__refuses_containers_that_cannot_be_clients)
{
    bound_with(world, ONE(300, 4915));
    world->mps = -1;
    adjust_refuses(world, &of_a_user, "the MPS daemon is down");
    world->mps = 1;
    adjust_refuses(world, &plain, "does not say which user");
    world->pod.n_annotations = 0;
    bound_with(world, BOTH);
    adjust_refuses(world, &of_a_user, "shares of 2 GPUs");
    world->mps = -1;
    adjust_refuses(world, &of_a_user, "shares of 2 GPUs"); /* which no daemon could change */
}

/* --- adjustments of all plugins --- */

FIXTURE_TEST(validate__allows_the_granted_gpus_and_no_others)
{
    static const struct {
        const char *container; /* main has GPU-a, proxy nothing */
        const char *devices;   /* that all plugins made */
        const char *asked;     /* kubelet asked for it: a device plugin's */
        const char *words;     /* of the refusal */
    } row[] = {
        {"main", "nvidia.com/gpu=GPU-a", NULL, NULL},
        {"main", "example.com/nic=1 k8s.device-plugin.nvidia.com/gpu=GPU-a", NULL, NULL},
        {"main", "milligpu.io/gpu=GPU-a", NULL, NULL},
        {"proxy", "example.com/nic=1", NULL, NULL},
        {"main", "", NULL, "without its GPU GPU-a"},
        {"main", "example.com/gpu=GPU-a", NULL, "without its GPU GPU-a"},
        {"main", "nvidia.com/gpu=GPU-a nvidia.com/gpu=GPU-b", NULL,
         "gives it nvidia.com/gpu=GPU-b"},
        {"main", "nvidia.com/gpu=GPU-a management.nvidia.com/gpu=all", NULL, "all"},
        {"proxy", "nvidia.com/gpu=all", NULL, "nvidia.com/gpu=all"},
        {"proxy", "nvidia.com/gpu", NULL, "nvidia.com/gpu"},
        {"main", "nvidia.com/gpu=GPU-a nvidia.com/gpu=GPU-c", "nvidia.com/gpu=GPU-c", NULL},
    };
    bound_with(world, TWO);
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        judges_all(world, row[i].container, row[i].devices, row[i].asked, row[i].words);
}

static void validates(struct world *world, const struct nri_container *container,
                      const struct nri_adjustment *all, const char *words)
{
    struct err err = {0};

    (void)judged(world, "main");
    assert_outcome(grant_validate(&world->rules, &world->grant, container, all, &err), &err, words);
}

FIXTURE_TEST(validate__refuses_a_client_without_its_mps)
{
    static const char without[] = "would run without the MPS of its GPUs (one is GPU-a)";
    struct nri_adjustment all;

    bound_with(world, ONE(300, 4915));
    world->mps = 1;
    all = adjusted(world, "main", &of_a_user, NULL);
    validates(world, &of_a_user, &all, NULL);
    for (uint32_t i = 0; i < all.n_mounts; i++) {
        const struct text source = all.mount[i].source;
        all.mount[i].source = TEXT("/elsewhere");
        validates(world, &of_a_user, &all, without);
        all.mount[i].source = source;
    }
    all.n_mounts = 1;
    validates(world, &of_a_user, &all, without);
    all.n_mounts = 2;
    for (uint32_t i = 0; i < all.n_envs; i++)
        if (text_is(all.env[i].key, "CUDA_MPS_PIPE_DIRECTORY"))
            all.env[i].value = TEXT("/elsewhere");
    validates(world, &of_a_user, &all, without);
    all.env[1].value = TEXT("/run/milligpu/mps");
    assert_true(text_is(all.env[1].key, "CUDA_MPS_PIPE_DIRECTORY"));
    validates(world, &of_a_user, &all, NULL);
    world->mps = 0; /* turned off a moment ago: its daemon may be gone when it starts */
    validates(world, &of_a_user, &all, without);
}

FIXTURE_TEST(validate__keeps_gpus_from_other_pods_unless_allowed)
{
    judges_all(world, "main", "nvidia.com/gpu=all", NULL, "nvidia.com/gpu=all");
    judges_all(world, "main", "management.nvidia.com/gpu=all", NULL, NULL);
    judges_all(world, "main", "nvidia.com/gpu=GPU-a", "nvidia.com/gpu=GPU-a", NULL);
    world->rules.foreign_gpus = true;
    judges_all(world, "main", "nvidia.com/gpu=all", NULL, NULL);
}

FIXTURE_TEST(validate__counts_a_gpu_device_node_as_a_gpu)
{
    struct nri_device node = {TEXT("/dev/nvidia3"), TEXT("c"), 195, 3};
    struct text granted = TEXT("nvidia.com/gpu=GPU-a");
    struct nri_pair none = {TEXT("NVIDIA_VISIBLE_DEVICES"), TEXT("void")};
    const struct nri_adjustment all = {.n_cdi_devices = 1,
                                       .cdi_device = &granted,
                                       .n_devices = 1,
                                       .device = &node,
                                       .n_envs = 1,
                                       .env = &none};
    const struct nri_container has = {.n_devices = 1, .device = &node};
    bound_with(world, TWO);
    validates(world, &plain, &all, "gives it /dev/nvidia3");
    validates(world, &has, &all, NULL);
}

/* The major number of nvidia-uvm on this machine: the kernel chose it. */
static bool is_uvm(void *user, int64_t major)
{
    (void)user;
    return major == 509;
}

/* Another plugin adds a node, or a rule, to a container that has one of each. */
static void adds(struct world *world, const struct nri_device *node,
                 const struct nri_device_rule *rule, const char *words)
{
    struct text granted = TEXT("nvidia.com/gpu=GPU-a");
    struct nri_pair none = {TEXT("NVIDIA_VISIBLE_DEVICES"), TEXT("void")};
    struct nri_device nodes[] = {
        node != NULL ? *node : (struct nri_device){TEXT("/dev/fuse"), TEXT("c"), 10, 229}};
    struct nri_device_rule rules[1];
    struct nri_adjustment all = {.n_cdi_devices = world->grant.verdict == GRANT_GPUS ? 1 : 0,
                                 .cdi_device = &granted,
                                 .n_devices = 1,
                                 .device = nodes,
                                 .n_rules = rule != NULL ? 1 : 0,
                                 .rule = rules,
                                 .n_envs = 1,
                                 .env = &none};
    static const struct nri_device has[] = {{TEXT("/dev/mine"), TEXT("c"), 195, 7},
                                            {TEXT("/dev/sda"), TEXT("b"), 195, 4}};
    static const struct nri_device_rule may[] = {
        {false, TEXT(""), NRI_ANY_NUMBER, NRI_ANY_NUMBER, TEXT("rwm")},
        {true, TEXT("c"), 195, 7, TEXT("rwm")},
        {true, TEXT("c"), 195, 6, TEXT("rwm")},
        {false, TEXT("c"), 195, 6, TEXT("rwm")},
        {true, TEXT("b"), NRI_ANY_NUMBER, NRI_ANY_NUMBER, TEXT("rwm")}};
    const struct nri_container is = {
        .n_devices = ARRAY_LEN(has), .device = has, .n_rules = ARRAY_LEN(may), .rule = may};
    struct err err = {0};
    if (rule != NULL)
        rules[0] = *rule;
    assert_outcome(grant_validate(&world->rules, &world->grant, &is, &all, &err), &err, words);
}

static void adds_node(struct world *world, const char *path, const char *type, int64_t major,
                      int64_t minor, const char *words)
{
    adds(world, &(struct nri_device){text_of(path), text_of(type), major, minor}, NULL, words);
}

static void adds_rule(struct world *world, const char *type, int64_t major, int64_t minor,
                      const char *words)
{
    adds(world, NULL, &(struct nri_device_rule){true, text_of(type), major, minor, TEXT("rwm")},
         words);
}

FIXTURE_TEST(validate__knows_a_gpu_by_its_device_numbers)
{
    bound_with(world, TWO);
    (void)judged(world, "main");
    adds_node(world, "/dev/x1", "c", 195, 1, "gives it /dev/x1 (device 195:1)");
    adds_node(world, "/dev/x1", "u", 195, 1, "195:1");
    adds_node(world, "/dev/x1", "", 195, 255, "195:255");
    adds_node(world, "/dev/nvidia3", "c", 1, 3, "/dev/nvidia3");
    adds_node(world, "/dev/x1", "b", 195, 1, NULL); /* a disk */
    adds_node(world, "/dev/x1", "p", 195, 1, NULL);
    adds_node(world, "/dev/x1", "c", 194, 1, NULL);
    adds_node(world, "/dev/x1", "c", 195, 7, NULL);    /* it has this one */
    adds_node(world, "/dev/x1", "c", 195, 4, "195:4"); /* it has a disk of these numbers */
    adds_node(world, "-/dev/x1", "c", 195, 1, NULL);   /* it is taken away */
    adds_node(world, "/dev/x1", "c", 509, 0, NULL);
    world->rules.gpu_major = is_uvm;
    adds_node(world, "/dev/x1", "c", 509, 0, "/dev/x1 (device 509:0)");
    adds_node(world, "/dev/x1", "c", 510, 0, NULL);
    (void)judged(world, "proxy");
    adds_node(world, "/dev/x1", "c", 195, 1, "195:1");
    world->pod.n_annotations = 0;
    (void)judged(world, "main");
    adds_node(world, "/dev/x1", "c", 195, 1, "195:1");
    world->rules.foreign_gpus = true;
    adds_node(world, "/dev/x1", "c", 195, 1, NULL);
}

/* With it, a container makes the node itself. */
FIXTURE_TEST(validate__counts_a_device_rule_as_a_gpu)
{
    bound_with(world, TWO);
    (void)judged(world, "main");
    adds_rule(world, "c", 195, 1, "gives it the right to open GPUs (device 195:1)");
    adds_rule(world, "c", 195, NRI_ANY_NUMBER, "(device 195:*)");
    adds_rule(world, "c", NRI_ANY_NUMBER, NRI_ANY_NUMBER, "(device *:*)");
    adds_rule(world, "a", NRI_ANY_NUMBER, 7, "(device *:7)");
    adds_rule(world, "", 195, 7, "195:7");  /* it may open the character device only */
    adds_rule(world, "c", 195, 6, "195:6"); /* allowed, then denied */
    adds_rule(world, "c", 195, 7, NULL);
    adds_rule(world, "b", 195, 1, NULL);
    adds_rule(world, "c", 10, 229, NULL);
    adds(world, NULL, &(struct nri_device_rule){false, TEXT("c"), 195, 1, TEXT("rwm")}, NULL);
}

FIXTURE_TEST(validate__keeps_the_variable)
{
    struct text granted = TEXT("nvidia.com/gpu=GPU-a");
    struct nri_pair pair[] = {{TEXT("NVIDIA_VISIBLE_DEVICES"), TEXT("void")},
                              {TEXT("HOME"), TEXT("all")},
                              {TEXT("-NVIDIA_VISIBLE_DEVICES"), TEXT("")}};
    struct nri_adjustment all = {
        .n_cdi_devices = 1, .cdi_device = &granted, .n_envs = 2, .env = pair};
    bound_with(world, TWO);
    validates(world, &plain, &all, NULL);
    all.n_envs = 3;
    validates(world, &plain, &all, "NVIDIA_VISIBLE_DEVICES");
    all.n_envs = 1;
    pair[0].value = TEXT("all");
    validates(world, &plain, &all, "NVIDIA_VISIBLE_DEVICES");
    all.n_envs = 0;
    validates(world, &plain, &all, "NVIDIA_VISIBLE_DEVICES");
}

FIXTURE_TEST(grant__recognizes_an_adjusted_container)
{
    const struct text env[] = {TEXT("A=b"), TEXT("NVIDIA_VISIBLE_DEVICES=void")};
    const struct nri_container passed = {.n_envs = 2, .env = env};
    const struct nri_container strange = {.n_envs = 1, .env = env};
    bound_with(world, TWO);
    (void)judged(world, "main");
    assert_true(grant_is_seen(&world->grant, &passed));
    assert_false(grant_is_seen(&world->grant, &strange));
}
