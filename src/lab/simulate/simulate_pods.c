/*
 * Reads a manifest for the command simulate: each workload is a shape, and its pods are a round of
 * arrivals. Called by simulate.c. Objects are expanded as for play; requests go through the
 * decoders of milligpud. Demands on nodes other than GPUs, CPU and memory are not considered, which
 * is reported once.
 */
#include <inttypes.h>

#include "milligpu/base/alloc.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "lab/cluster/admission.h"
#include "lab/cluster/left_out.h"
#include "lab/cluster/manifest.h"
#include "lab/cluster/nodefit.h"
#include "lab/cluster/unconsidered.h"
#include "simulate.h"

struct manifest_reader {
    struct world *world;
    const char *file;
    struct arena arena; /* documents; freed at the end */
    struct manifest manifest;
    struct left_out_list left_out;
    struct admission admission;
    FILE *warnings;
    struct rule_users selects;
    struct rule_users users[UNCONSIDEREDS];
};

/* --- what manifest.h calls back with --- */

static void manifest_skip(void *user, const char *kind, const char *name, const char *why)
{
    struct manifest_reader *reader = user;

    must(reader->left_out.arena != NULL);
    left_out_add(&reader->left_out, kind, name, why);
}

/* Reports an invalid object; others are simulated, and the exit status is a failure. */
static void manifest_leave(void *user, const char *text)
{
    struct manifest_reader *reader = user;

    must(text[0] != '\0');
    (void)fprintf(reader->warnings, "milligpuctl: %s\n", text);
    reader->world->wrong++;
}

static bool manifest_other(void *user, const struct document *object)
{
    struct manifest_reader *reader = user;
    struct err err;

    if (!admission_is_rule(object))
        return false;
    must(reader->admission.arena != NULL);
    if (admission_add(&reader->admission, object, &err) < 0)
        manifest_leave(reader, arena_printf(&reader->arena, "%.200s: %s %s: %s", reader->file,
                                            document_shown(object, "kind"),
                                            document_shown(object, "metadata.name"), err.text));
    return true;
}

/* --- one workload --- */

static int manifest_wrong(const struct manifest_reader *reader, const struct pod_maker *maker,
                          const char *what, struct err *err)
{
    must(what[0] != '\0');
    return err_set(err, ERR_INVALID, "%.200s: %s %.63s/%.253s: %s", reader->file, maker->word,
                   maker->namespace, maker->name, what);
}

/* Rounds up, so that no node has less than requested. */
static void manifest_read_host(const struct fit_pod *fit, struct host *out)
{
    const int64_t cpu = amounts_value(fit->requests, "cpu");
    const int64_t memory = amounts_value(fit->requests, "memory");
    const int64_t mib = memory / 1048576 + (memory % 1048576 > 0);

    must(cpu >= 0 && memory >= 0);
    out->cpu_milli = cpu > SIMULATE_AMOUNT_MAX ? SIMULATE_AMOUNT_MAX + 1 : (uint32_t)cpu;
    out->memory_mib = mib > SIMULATE_AMOUNT_MAX ? SIMULATE_AMOUNT_MAX + 1 : (uint32_t)mib;
}

static int manifest_read_request(struct manifest_reader *reader, const struct pod_maker *maker,
                                 struct document *document, struct world_shape *out,
                                 struct err *err)
{
    static const struct wire_rules wire = {.resource = SIMULATE_RESOURCE,
                                           .whole_resource = SIMULATE_WHOLE_RESOURCE};
    static const struct request_rules rules = {
        .resource = SIMULATE_RESOURCE, .min_milli = 1, .step_milli = 1};
    CLEANUP(strbuf_done) struct strbuf bytes;
    struct arena *kept = &reader->world->arena;
    struct refusal refusal;
    struct pod pod;

    strbuf_init(&bytes);
    document_set_str(&reader->arena, document_at(document, "metadata"), "uid", "simulated");
    document_write(&bytes, document);
    const struct text text = {bytes.data, bytes.len};
    if (pod_decode(text, &wire, &reader->arena, &pod, err) < 0)
        return manifest_wrong(reader, maker, err->text, err);
    const enum request_verdict verdict =
        request_parse(pod_keep(&pod, kept), &rules, kept, &out->request, &refusal);
    if (verdict == REQUEST_REFUSED)
        return manifest_wrong(reader, maker, refusal.text, err);
    if (verdict == REQUEST_ZERO || verdict == REQUEST_NOT_OURS)
        out->request = (struct request){.n_wants = 0};
    if (out->request.whole > 0)
        return manifest_wrong(reader, maker,
                              "asks for " SIMULATE_WHOLE_RESOURCE
                              ": simulate hands out " SIMULATE_RESOURCE " only",
                              err);
    must(out->request.n_wants <= PARTS_MAX);
    return 0;
}

/* The reason why no scheduler places the pod; NULL if one does. */
static const char *manifest_unasked(const struct document *pod)
{
    const struct document *gates = document_at(pod, "spec.schedulingGates");

    must(pod->kind == DOCUMENT_OBJECT);
    if (document_shown(pod, "spec.nodeName")[0] != '\0')
        return "spec.nodeName is set: its kubelet takes it without any scheduler";
    if (gates != NULL && gates->kind == DOCUMENT_ARRAY && gates->count > 0)
        return "spec.schedulingGates: kube-scheduler waits until they are removed";
    return NULL;
}

static void manifest_notice(struct manifest_reader *reader, const struct pod_maker *maker,
                            const struct document *pod, const struct fit_pod *fit)
{
    uint32_t bits = unconsidered_of(pod);

    must(pod->kind == DOCUMENT_OBJECT);
    if (maker->has_claims)
        bits |= 1U << UNCONSIDERED_VOLUMES;
    for (unsigned i = 0; i < UNCONSIDEREDS; i++)
        if ((bits >> i & 1) != 0)
            rule_users_add(&reader->users[i], maker);
    if (fit->demands.n_selectors > 0 || fit->demands.affine)
        rule_users_add(&reader->selects, maker);
}

/* Adds the shape of a workload's pods, which differ only in their names. */
static int manifest_take_shape(struct manifest_reader *reader, const struct pod_maker *maker,
                               struct err *err)
{
    struct world *world = reader->world;
    struct world_shape shape = {.count = maker->pods};
    struct document *pod = pod_maker_pod(&reader->arena, maker, 0);
    struct workload_class class;
    struct fit_pod fit;
    struct err inner;

    must(maker->pods > 0);
    admission_fill(&reader->admission, &reader->arena, pod);
    if (fit_pod_read(&reader->arena, pod, &fit, &inner) < 0 || admission_check(pod, &inner) < 0)
        return manifest_wrong(reader, maker,
                              arena_printf(&reader->arena, "%s%s", maker->prefix, inner.text), err);
    if (manifest_read_request(reader, maker, pod, &shape, err) < 0)
        return err_same(err);
    manifest_read_host(&fit, &shape.request.host);
    manifest_notice(reader, maker, pod, &fit);
    workload_class_of(&shape.request, &class);
    shape.want = (struct want){.container = "", .parts = class.parts, .milli = class.milli};
    shape.text =
        arena_printf(&world->arena, "%s %s/%s", maker->word, maker->namespace, maker->name);
    shape.namespace = arena_copy(&world->arena, text_of(maker->namespace));
    world->shape =
        xgrow(world->shape, world->n_shapes, &world->shape_capacity, sizeof *world->shape);
    world->shape[world->n_shapes++] = shape;
    for (uint32_t i = 0; i < maker->pods; i++) {
        world->pod = xgrow(world->pod, world->n_pods, &world->pod_capacity, sizeof *world->pod);
        world->pod[world->n_pods++] =
            (struct world_pod){.name = text_of(shape.text), .shape = world->n_shapes - 1};
    }
    return 0;
}

/* Makes a DaemonSet one pod for each node with GPUs; they are placed like others, on any node. */
static void manifest_spread(struct manifest_reader *reader, struct pod_maker *maker)
{
    must(maker->kind == WORKLOAD_DAEMON_SET && maker->pods == 0);
    for (uint32_t i = 0; i < reader->world->n_nodes; i++)
        maker->pods += reader->world->node[i].inventory->n_gpus > 0;
    maker->note = arena_printf(&reader->arena,
                               "%" PRIu32 " pod%s, one for each node with GPUs; simulate places "
                               "them anywhere",
                               maker->pods, maker->pods == 1 ? "" : "s");
}

/* The reason if LimitRanges forbid the pod, else NULL; quotas are not considered. */
static const char *manifest_forbidden(struct manifest_reader *reader, struct document *pod)
{
    const struct admission ranges = {.arena = &reader->arena,
                                     .namespace = reader->admission.namespace,
                                     .range = reader->admission.range};
    struct err err;

    must(pod->kind == DOCUMENT_OBJECT);
    admission_fill(&reader->admission, &reader->arena, pod);
    if (admission_review(&ranges, pod, &err) == 0)
        return NULL;
    return arena_printf(&reader->arena, "%s", err.text);
}

static void manifest_take_one(struct manifest_reader *reader, struct pod_maker *maker)
{
    struct err err;

    must(maker->pods <= WORKLOAD_PODS_MAX);
    if (maker->kind == WORKLOAD_DAEMON_SET)
        manifest_spread(reader, maker);
    if (maker->note != NULL)
        (void)fprintf(reader->warnings, "%s %s/%s: %s\n", maker->word, maker->namespace,
                      maker->name, maker->note);
    if (maker->pods == 0)
        return;
    struct document *pod = pod_maker_pod(&reader->arena, maker, 0);
    const char *why = manifest_unasked(pod);
    if (why == NULL)
        why = manifest_forbidden(reader, pod);
    if (why != NULL)
        left_out_add(&reader->left_out, maker->word, maker->name, why);
    else if (manifest_take_shape(reader, maker, &err) < 0)
        manifest_leave(reader, err.text);
}

/* --- the file --- */

static void manifest_report(const struct manifest_reader *reader, FILE *out)
{
    must(out != NULL);
    left_out_say(&reader->left_out, out);
    admission_say(&reader->admission, false, out);
    rule_users_say(&reader->selects, "nodeSelector and required node affinity", out);
    for (unsigned i = 0; i < UNCONSIDEREDS; i++)
        rule_users_say(&reader->users[i], unconsidered_text((enum unconsidered)i), out);
}

static int manifest_set_rounds(struct manifest_reader *reader, uint32_t rounds, struct err *err)
{
    struct world *world = reader->world;

    if (world->n_pods == 0 && world->wrong > 0)
        return err_set(err, ERR_INVALID, "%.200s: no pod is left to simulate", reader->file);
    if (world->n_pods == 0)
        return err_set(err, ERR_INVALID,
                       "%.200s: no pod arrives: write Pods, or objects that make some, such as "
                       "Deployments with replicas",
                       reader->file);
    const uint32_t most = SIMULATE_ARRIVALS_MAX / world->n_pods;
    must(most > 0);
    if (rounds > most)
        return err_set(err, ERR_INVALID,
                       "--count is %" PRIu32 ": with the %" PRIu32
                       " pods of %.200s, write at most %" PRIu32,
                       rounds, world->n_pods, reader->file, most);
    world->rounds = rounds > 0 ? rounds : SIMULATE_ROUNDS;
    if (world->rounds > most)
        world->rounds = most;
    return 0;
}

int world_read_manifest(struct world *world, const char *file, uint32_t rounds, FILE *warnings,
                        struct err *err)
{
    struct manifest_reader reader = {.world = world, .file = file, .warnings = warnings};

    must(world->n_pods == 0);
    arena_init(&reader.arena);
    reader.left_out.arena = &reader.arena;
    reader.admission = (struct admission){.arena = &reader.arena, .namespace = "default"};
    reader.manifest = (struct manifest){
        .arena = &reader.arena,
        .namespace = "default",
        .user = &reader,
        .skip = manifest_skip,
        .wrong = manifest_leave,
        .other = manifest_other,
    };
    int status = manifest_read(&reader.manifest, file, err);
    if (status == 0) {
        manifest_finish(&reader.manifest);
        for (struct pod_maker *at = reader.manifest.first; at != NULL; at = at->next)
            manifest_take_one(&reader, at);
    }
    if (status == 0)
        status = manifest_set_rounds(&reader, rounds, err);
    manifest_report(&reader, warnings);
    arena_done(&reader.arena);
    return status;
}

/* --- the workload --- */

struct workload *world_manifest_workload(const struct world *world, uint32_t *dropped)
{
    struct workload_class *class = xcalloc(WORKLOAD_CLASSES_MAX, sizeof *class);
    uint32_t classes = 0;

    must(world->n_shapes > 0);
    *dropped = 0;
    for (uint32_t i = 0; i < world->n_shapes; i++) {
        struct workload_class own;
        uint32_t at = 0;
        workload_class_of(&world->shape[i].request, &own);
        own.count = world->shape[i].count;
        while (at < classes && !workload_alike(&class[at], &own))
            at++;
        if (at < classes)
            class[at].count += own.count;
        else if (classes < WORKLOAD_CLASSES_MAX)
            class[classes++] = own;
        else
            (*dropped)++;
    }
    static_assert((int)WORKLOAD_PODS_MAX <= (int)WORKLOAD_COUNT_MAX, "so the counts are no more");
    struct workload *workload = workload_new(class, classes);
    xfree(class);
    must(workload->n_classes == classes);
    return workload;
}
