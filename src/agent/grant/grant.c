/*
 * Judges the allocation of a pod and the GPUs of its containers; the first failed check is the
 * refusal. Called by the agent's main thread for each container that is created, and again for the
 * combined adjustments of all plugins.
 */
#include "grant.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/annotations.h"
#include "milligpu/sign/signing.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "agent/common/device.h"
#include "pod_records.h"

/* The variable that requests GPUs from runtimes without CDI. */
#define VISIBLE "NVIDIA_VISIBLE_DEVICES"

/* A pipe folder without an MPS daemon, for containers that are no MPS clients. */
#define NO_MPS_FOLDER "/run/milligpu/no-mps"

static bool grant_is_listed(struct text wanted, const struct text *list, uint32_t count)
{
    must(count == 0 || list != NULL);

    for (uint32_t i = 0; i < count; i++)
        if (list[i].len == wanted.len && memcmp(list[i].at, wanted.at, wanted.len) == 0)
            return true;
    return false;
}

/* True if a pod without an allocation has a signature, or requires our plugin. */
static bool is_marked(const struct nri_pod *pod)
{
    struct text value;

    if (nri_annotation(pod, ANNOTATION_SIGNATURE, &value))
        return true;
    for (uint32_t i = 0; i < pod->n_annotations; i++) {
        const struct nri_pair *pair = &pod->annotation[i];
        if (text_starts(pair->key, ANNOTATION_REQUIRED) && pair->value.len > 0 &&
            memmem(pair->value.at, pair->value.len, NRI_PLUGIN_NAME, strlen(NRI_PLUGIN_NAME)) !=
                NULL)
            return true;
    }
    return false;
}

/*
 * Verifies the signature. Unsigned allocations are refused: those from before milligpud signed
 * cannot be distinguished from another client's.
 */
static bool grant_prove(const struct grant_rules *rules, const struct nri_pod *pod,
                        struct grant *out)
{
    char id[KEY_ID_BYTES];
    struct text signature;

    must(out->annotation.at != NULL);
    if (!nri_annotation(pod, ANNOTATION_SIGNATURE, &signature)) {
        (void)err_set(&out->why, ERR_FORBIDDEN,
                      "its GPUs are not signed by milligpud (annotation " ANNOTATION_SIGNATURE
                      " is missing): delete the pod, so that it is scheduled again");
        return false;
    }
    if (!signature_key_id(signature, id)) {
        (void)err_set(&out->why, ERR_FORBIDDEN,
                      "annotation " ANNOTATION_SIGNATURE
                      " is no signature: delete the pod, so that it is scheduled again");
        return false;
    }
    const char *key = rules->public_key(rules->user, id);
    if (key == NULL) {
        (void)err_set(&out->why, ERR_UNAVAILABLE,
                      "its GPUs are signed with key %s, which node %s does not know (yet): "
                      "ConfigMap " KEYS_CONFIGMAP " must have it; will be retried automatically",
                      id, rules->node);
        return false;
    }
    const struct signed_facts facts = {pod->uid, text_of(rules->node), out->annotation,
                                       SIGNED_ALLOCATION};
    if (!signature_is_good(text_of(key), signature, &facts)) {
        (void)err_set(&out->why, ERR_FORBIDDEN,
                      "its GPUs are not what milligpud signed for this pod on node %s: delete the "
                      "pod, so that it is scheduled again, and leave annotations milligpu.io/... "
                      "and spec.nodeName out of a manifest that was copied",
                      rules->node);
        return false;
    }
    out->proof = PROOF_SIGNATURE;
    return true;
}

/* True if the allocation is accepted. False: GRANT_FOREIGN or GRANT_REFUSED. */
static bool grant_believe(const struct grant_rules *rules, const struct nri_pod *pod,
                          struct grant *out)
{
    struct text recorded;
    const bool carries = nri_annotation(pod, ANNOTATION_ALLOCATION, &out->annotation);
    const bool known = rules->record(rules->user, pod->uid, &recorded);

    if (!carries && !known && !is_marked(pod))
        return false;
    out->verdict = GRANT_REFUSED;
    if (!carries) {
        (void)err_set(&out->why, ERR_FORBIDDEN,
                      "annotation " ANNOTATION_ALLOCATION
                      " is %s: delete the pod, so that it is scheduled again",
                      known ? "gone" : "missing, since milligpud did not bind the pod");
        return false;
    }
    if (!pod_records_takes(pod->uid)) {
        (void)err_set(&out->why, ERR_INVALID, "its uid is not letters, digits and '-'");
        return false;
    }
    if (!known)
        return grant_prove(rules, pod, out);
    out->proof = PROOF_RECORD;
    if (text_eq(recorded, out->annotation))
        return true;
    (void)err_set(&out->why, ERR_FORBIDDEN,
                  "annotation " ANNOTATION_ALLOCATION " was changed after the pod got its GPUs: "
                  "delete the pod, so that it is scheduled again");
    return false;
}

/* Finds the shares of one container. Names other than UUIDs ("all", an index) are ambiguous. */
static void grant_pick(struct text container, const struct pod *read, struct arena *arena,
                       struct grant *out)
{
    must(read->annotation == NOTE_OK);
    must(out->proof != PROOF_NONE);
    out->share = arena_array(arena, read->n_shares + 1, sizeof(const struct pod_share *));
    for (uint32_t i = 0; i < read->n_shares; i++)
        if (text_is(container, read->share[i].container))
            out->share[out->n_shares++] = &read->share[i];
    out->verdict = out->n_shares > 0 ? GRANT_GPUS : GRANT_NOTHING;
    for (uint32_t i = 0; i < out->n_shares; i++) {
        if (device_is_gpu_uuid(text_of(out->share[i]->gpu)))
            continue;
        out->verdict = GRANT_REFUSED;
        (void)err_set(&out->why, ERR_UNAVAILABLE,
                      "its GPU was given as \"%.100s\", which is not the UUID of a GPU (the node "
                      "showed no UUIDs then): delete the pod, so that it is scheduled again",
                      out->share[i]->gpu);
        return;
    }
}

void grant_check(const struct grant_rules *rules, const struct nri_pod *pod, struct text container,
                 struct arena *arena, struct grant *out)
{
    struct pod *read = arena_alloc(arena, sizeof *read);

    must(rules->node[0] != '\0');
    *out = (struct grant){.verdict = GRANT_FOREIGN};
    if (!grant_believe(rules, pod, out))
        return;
    annotation_decode(out->annotation, arena, read);
    if (read->annotation == NOTE_OK) {
        grant_pick(container, read, arena, out);
        return;
    }
    out->verdict = GRANT_REFUSED;
    (void)err_set(&out->why, ERR_INVALID, "%.200s: delete the pod, so that it is scheduled again",
                  read->note_error != NULL ? read->note_error : "its allocation cannot be read");
}

/* --- what is changed --- */

struct grant_change {
    struct arena *arena;
    const struct nri_container *container;
    struct nri_adjustment *out;
    bool is_mps;
};

enum { ENV_MAX = 8, MPS_MOUNTS = 2 };

static void set_env(struct grant_change *change, const char *name, const char *value)
{
    struct nri_adjustment *out = change->out;

    must(out->n_envs < ENV_MAX);
    out->env[out->n_envs++] = (struct nri_pair){text_of(name), text_of(value)};
}

static bool has_env(const struct nri_container *container, const char *name)
{
    const size_t len = strlen(name);

    must(len > 0);
    for (uint32_t i = 0; i < container->n_envs; i++) {
        const struct text env = container->env[i];
        if (env.len > len && memcmp(env.at, name, len) == 0 && env.at[len] == '=')
            return true;
    }
    return false;
}

/* The minimum of its shares, for variables that have one value for all GPUs. */
static struct pod_share least_of(const struct grant *grant)
{
    struct pod_share least = *grant->share[0];

    for (uint32_t i = 1; i < grant->n_shares; i++) {
        const struct pod_share *share = grant->share[i];
        least.milli = share->milli < least.milli ? share->milli : least.milli;
        least.mib = share->mib < least.mib ? share->mib : least.mib;
    }
    must(least.milli > 0);
    return least;
}

/*
 * Overrides limits that the pod sets. A plugin cannot remove a variable of the pod, so it is set to
 * the granted value; variables that the pod does not set stay unset. An MPS client always gets the
 * variables of MPS; its only GPU has the index 0.
 */
static void override_limits(struct grant_change *change, const struct grant *grant)
{
    const struct pod_share least = least_of(grant);
    const char *mib = arena_printf(change->arena, "%u", (unsigned)least.mib);
    const char *percent = arena_printf(change->arena, "%u", (unsigned)(least.milli + 9) / 10);
    const char *pinned = arena_printf(change->arena, "0=%uM", (unsigned)least.mib);
    const struct {
        const char *name;
        const char *value;
        bool sized; /* needs the MiB of the share */
        bool mps;   /* needed by MPS clients */
    } limit[] = {
        {MPS_PIPES, change->is_mps ? MPS_FOLDER : NO_MPS_FOLDER, false, true},
        {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percent, false, true},
        {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", pinned, true, true},
        {"NVIDIA_GPU_MEMORY_LIMIT", mib, true, false},
        {"NVIDIA_GPU_MEMORY_REQUEST", mib, true, false},
    };

    static_assert(ARRAY_LEN(limit) < ENV_MAX, "each may be set, and the devices");
    for (size_t i = 0; i < ARRAY_LEN(limit); i++)
        if ((has_env(change->container, limit[i].name) || (change->is_mps && limit[i].mps)) &&
            (!limit[i].sized || least.mib > 0))
            set_env(change, limit[i].name, limit[i].value);
}

/* True if any of its shares is less than a whole GPU. */
static bool has_part(const struct grant *grant)
{
    for (uint32_t i = 0; i < grant->n_shares; i++)
        if (grant->share[i]->milli < GPU_MILLI)
            return true;
    return false;
}

/* Returns 1 for an MPS client and sets *out, 0 for no client, negative if refused. */
static int find_mps(const struct grant_rules *rules, const struct grant *grant,
                    const struct nri_container *container, struct mps_place *out, struct err *err)
{
    must(grant->verdict == GRANT_GPUS);
    if (rules->mps == NULL || !has_part(grant))
        return 0;
    const int rc = rules->mps(rules->user, grant->share[0]->gpu, out, err);
    if (rc == 0)
        return 0;
    if (grant->n_shares > 1)
        return err_set(err, ERR_INVALID,
                       "it has shares of %u GPUs, and a client of MPS, by which this node shares "
                       "them, uses one: give each of its containers a share of one GPU, or whole "
                       "GPUs, or keep the pod off nodes with the label milligpu.io/mps",
                       (unsigned)grant->n_shares);
    if (rc > 0 && !container->has_user)
        return err_set(
            err, ERR_UNAVAILABLE,
            "its GPU is shared by MPS, for one user, and this container runtime does not "
            "say which user it runs as: containerd 2.2 and later do");
    return rc;
}

static void add_mount(struct grant_change *change, const char *destination, const char *source)
{
    static const struct text options[] = {TEXT("rbind"), TEXT("rw"), TEXT("nosuid"), TEXT("nodev"),
                                          TEXT("noexec")};
    struct nri_adjustment *out = change->out;

    must(out->n_mounts < MPS_MOUNTS);
    out->mount[out->n_mounts++] = (struct nri_mount){.destination = text_of(destination),
                                                     .source = text_of(source),
                                                     .type = TEXT("bind"),
                                                     .n_options = ARRAY_LEN(options),
                                                     .option = options};
}

static void add_mps(struct grant_change *change, const struct mps_place *place)
{
    change->out->mount = arena_array(change->arena, MPS_MOUNTS, sizeof *change->out->mount);
    add_mount(change, MPS_FOLDER, place->pipe);
    add_mount(change, "/dev/shm", place->shm);
}

static int add_devices(struct grant_change *change, const struct grant_rules *rules,
                       const struct grant *grant, struct err *err)
{
    const char **gpu = arena_array(change->arena, grant->n_shares, sizeof *gpu);

    for (uint32_t i = 0; i < grant->n_shares; i++) {
        gpu[i] = grant->share[i]->gpu;
        must(device_is_gpu_uuid(text_of(gpu[i])));
        if (!rules->gpu(rules->user, gpu[i]))
            return err_set(
                err, ERR_UNAVAILABLE,
                "its GPU %.100s is not known to NVIDIA's driver on node %s (yet); will be "
                "retried automatically",
                gpu[i], rules->node);
    }
    const char *kind = rules->kind(rules->user, gpu, grant->n_shares, err);
    if (kind == NULL)
        return err_same(err);
    change->out->cdi_device =
        arena_array(change->arena, grant->n_shares, sizeof *change->out->cdi_device);
    for (uint32_t i = 0; i < grant->n_shares; i++)
        change->out->cdi_device[change->out->n_cdi_devices++] =
            text_of(arena_printf(change->arena, "%s=%s", kind, gpu[i]));
    return 0;
}

int grant_adjust(const struct grant_rules *rules, struct grant *grant,
                 const struct nri_container *container, struct arena *arena,
                 struct nri_adjustment *out, struct err *err)
{
    struct grant_change change = {arena, container, out, false};
    struct mps_place place;

    *out = (struct nri_adjustment){0};
    grant->mps = GRANT_MPS_NONE;
    if (grant->verdict == GRANT_FOREIGN)
        return 0;
    if (grant->verdict == GRANT_REFUSED) {
        *err = grant->why;
        return err_same(err);
    }
    if (grant->n_shares > NRI_CDI_DEVICES_MAX)
        return err_set(err, ERR_TOO_LARGE, "it has %u GPUs, more than %d",
                       (unsigned)grant->n_shares, NRI_CDI_DEVICES_MAX);
    out->env = arena_array(arena, ENV_MAX, sizeof *out->env);
    /* Runtimes that use this variable must give no GPUs besides those of CDI. */
    set_env(&change, VISIBLE, "void");
    if (grant->verdict == GRANT_NOTHING)
        return 0;
    const int mps = find_mps(rules, grant, container, &place, err);
    if (mps < 0)
        return err_same(err);
    change.is_mps = mps > 0;
    if (change.is_mps) {
        grant->mps = GRANT_MPS_CLIENT;
        add_mps(&change, &place);
    }
    override_limits(&change, grant);
    return add_devices(&change, rules, grant, err);
}

/* --- what all plugins made of it --- */

static bool is_granted(const struct grant *grant, struct text name)
{
    for (uint32_t i = 0; i < grant->n_shares; i++)
        if (text_is(name, grant->share[i]->gpu))
            return true;
    return false;
}

static int refuse_device(struct text device, struct err *err)
{
    char shown[120];

    text_clip(device, shown, sizeof shown);
    return err_set(err, ERR_FORBIDDEN,
                   "another NRI plugin gives it %s, which milligpu did not grant: remove the "
                   "annotation that asks for it, or ask for a share by a resource limit",
                   shown);
}

/* --- device nodes, and rules of which may be opened --- */

static bool is_gpu_major(const struct grant_rules *rules, int64_t major)
{
    return major == DEVICE_MAJOR ||
           (rules->gpu_major != NULL && rules->gpu_major(rules->user, major));
}

/* A "-" before the path means that another plugin removes the node. */
static bool is_gpu_node(const struct grant_rules *rules, const struct nri_device *node)
{
    if (text_starts(node->path, "-"))
        return false;
    return device_is_gpu_path(node->path) ||
           (device_is_character(node->type) && is_gpu_major(rules, node->major));
}

static bool has_node(const struct nri_container *container, const struct nri_device *node)
{
    for (uint32_t i = 0; i < container->n_devices; i++) {
        const struct nri_device *has = &container->device[i];
        if (text_eq(has->type, node->type) && has->major == node->major &&
            has->minor == node->minor)
            return true;
    }
    return false;
}

static bool is_gpu_rule(const struct grant_rules *rules, const struct nri_device_rule *rule)
{
    return rule->allow && device_is_character(rule->type) &&
           (rule->major == NRI_ANY_NUMBER || is_gpu_major(rules, rule->major));
}

static bool is_any_type(struct text type)
{
    return type.len == 0 || text_is(type, "a");
}

/* True if the rule matches all devices that the other one matches. */
static bool covers(const struct nri_device_rule *rule, const struct nri_device_rule *other)
{
    return (is_any_type(rule->type) || text_eq(rule->type, other->type)) &&
           (rule->major == NRI_ANY_NUMBER || rule->major == other->major) &&
           (rule->minor == NRI_ANY_NUMBER || rule->minor == other->minor);
}

static bool has_rule(const struct nri_container *container, const struct nri_device_rule *rule)
{
    bool allowed = false;

    for (uint32_t i = 0; i < container->n_rules; i++)
        if (covers(&container->rule[i], rule))
            allowed = container->rule[i].allow;
    return allowed;
}

static int refuse_numbers(struct text path, int64_t major, int64_t minor, struct err *err)
{
    char number[2][24] = {"*", "*"};
    char shown[120];
    char text[200];

    text_clip(path, shown, sizeof shown);
    if (major >= 0)
        (void)snprintf(number[0], sizeof number[0], "%lld", (long long)major);
    if (minor >= 0)
        (void)snprintf(number[1], sizeof number[1], "%lld", (long long)minor);
    (void)snprintf(text, sizeof text, "%s (device %s:%s)", shown, number[0], number[1]);
    return refuse_device(text_of(text), err);
}

static int check_nodes(const struct grant_rules *rules, const struct nri_container *container,
                       const struct nri_adjustment *all, struct err *err)
{
    for (uint32_t i = 0; i < all->n_devices; i++) {
        const struct nri_device *node = &all->device[i];
        if (is_gpu_node(rules, node) && !has_node(container, node))
            return refuse_numbers(node->path, node->major, node->minor, err);
    }
    for (uint32_t i = 0; i < all->n_rules; i++) {
        const struct nri_device_rule *rule = &all->rule[i];
        if (is_gpu_rule(rules, rule) && !has_rule(container, rule))
            return refuse_numbers(TEXT("the right to open GPUs"), rule->major, rule->minor, err);
    }
    return 0;
}

/* Each added GPU must be granted here, or requested by kubelet. */
static int check_added(const struct grant_rules *rules, const struct grant *grant,
                       const struct nri_container *container, const struct nri_adjustment *all,
                       struct err *err)
{
    const bool ours = grant->verdict != GRANT_FOREIGN;

    if (!ours && rules->foreign_gpus)
        return 0;
    for (uint32_t i = 0; i < all->n_cdi_devices; i++) {
        const struct text device = all->cdi_device[i];
        if (device_gives_gpus(device) && !is_granted(grant, device_name(device)) &&
            !grant_is_listed(device, container->cdi_device, container->n_cdi_devices) &&
            (ours || !device_is_management(device)))
            return refuse_device(device, err);
    }
    return check_nodes(rules, container, all, err);
}

static int check_lacking(const struct grant *grant, const struct nri_adjustment *all,
                         struct err *err)
{
    for (uint32_t i = 0; i < grant->n_shares; i++) {
        bool found = false;
        for (uint32_t j = 0; j < all->n_cdi_devices && !found; j++)
            found = device_gives_gpus(all->cdi_device[j]) &&
                    text_is(device_name(all->cdi_device[j]), grant->share[i]->gpu);
        if (!found)
            return err_set(err, ERR_UNAVAILABLE,
                           "it would run without its GPU %.100s: the agent of the node did not "
                           "answer in time; will be retried automatically",
                           grant->share[i]->gpu);
    }
    return 0;
}

/* Our value must override the pod's, which could request GPUs from the runtime. */
static int check_void(const struct nri_adjustment *all, struct err *err)
{
    bool is_void = false;

    for (uint32_t i = 0; i < all->n_envs; i++) {
        if (text_is(all->env[i].key, VISIBLE))
            is_void = text_is(all->env[i].value, "void");
        else if (text_is(all->env[i].key, "-" VISIBLE))
            is_void = false;
    }
    if (is_void)
        return 0;
    return err_set(err, ERR_FORBIDDEN, "it would run with a " VISIBLE " that is not milligpu's");
}

static bool is_set(const struct nri_adjustment *all, const char *name, const char *value)
{
    bool found = false;

    for (uint32_t i = 0; i < all->n_envs; i++)
        if (text_is(all->env[i].key, name))
            found = text_is(all->env[i].value, value);
    return found;
}

static bool is_mounted(const struct nri_adjustment *all, const char *destination,
                       const char *source)
{
    bool found = false;

    for (uint32_t i = 0; i < all->n_mounts; i++)
        if (text_is(all->mount[i].destination, destination))
            found = text_is(all->mount[i].source, source);
    return found;
}

/* An MPS client that does not find its daemon would run without limits. */
static int check_mps(const struct grant_rules *rules, const struct grant *grant,
                     const struct nri_container *container, const struct nri_adjustment *all,
                     struct err *err)
{
    struct mps_place place;

    if (grant->verdict != GRANT_GPUS)
        return 0;
    const int rc = find_mps(rules, grant, container, &place, err);
    if (rc < 0)
        return err_same(err);
    const bool is_client = is_set(all, MPS_PIPES, MPS_FOLDER);
    if (rc == 0 && !is_client)
        return 0;
    if (rc > 0 && is_client && is_mounted(all, MPS_FOLDER, place.pipe) &&
        is_mounted(all, "/dev/shm", place.shm))
        return 0;
    return err_set(
        err, ERR_UNAVAILABLE,
        "it would run without the MPS of its GPUs (one is %.100s): MPS was turned on or "
        "off a moment ago, or another NRI plugin took it away; will be retried automatically",
        grant->share[0]->gpu);
}

int grant_validate(const struct grant_rules *rules, const struct grant *grant,
                   const struct nri_container *container, const struct nri_adjustment *all,
                   struct err *err)
{
    if (grant->verdict == GRANT_REFUSED) {
        *err = grant->why;
        return err_same(err);
    }
    must(grant->verdict == GRANT_GPUS || grant->verdict == GRANT_NOTHING ||
         grant->verdict == GRANT_FOREIGN);
    if (grant->verdict == GRANT_GPUS && check_lacking(grant, all, err) < 0)
        return err_same(err);
    if (grant->verdict != GRANT_FOREIGN && check_void(all, err) < 0)
        return err_same(err);
    if (check_mps(rules, grant, container, all, err) < 0)
        return err_same(err);
    return check_added(rules, grant, container, all, err);
}

bool grant_is_client(const struct grant *grant, const struct nri_container *container)
{
    bool found = false;

    if (grant->verdict != GRANT_GPUS || grant->mps != GRANT_MPS_AS_IT_RUNS)
        return grant->mps == GRANT_MPS_CLIENT;
    /* The last one counts: ours overrides a variable of the pod. */
    for (uint32_t i = 0; i < container->n_envs; i++)
        if (text_starts(container->env[i], MPS_PIPES "="))
            found = text_is(container->env[i], MPS_PIPES "=" MPS_FOLDER);
    return found && grant->n_shares == 1 && container->has_user;
}

bool grant_is_seen(const struct grant *grant, const struct nri_container *container)
{
    static const struct text ours = TEXT(VISIBLE "=void");

    must(grant->verdict == GRANT_GPUS || grant->verdict == GRANT_NOTHING);
    return grant_is_listed(ours, container->env, container->n_envs);
}
