/*
 * Makes pods of a Deployment, StatefulSet, ReplicaSet, ReplicationController, DaemonSet, Job or
 * CronJob, or of a template from guess.c. manifest.c reads objects; play.c and simulate_pods.c make
 * the pods one by one. Only fields for number, names and labels of the pods are checked here; other
 * fields by nodefit.c and by the API server. In order: kinds, fields, counts, reading, making.
 */
#include "pod_maker.h"

#include <string.h>

#include "milligpu/base/limits.h"

#include "fields.h"

/* --- kinds --- */

static const struct {
    const char *name;
    const char *group;    /* "" is the core group */
    const char *path;     /* of the template; "" if the object is the pod */
    const char *prefix;   /* the path as a prefix of fields */
    const char *owner;    /* kind of the object that owns the pods */
    const char *owner_is; /* apiVersion of the owner */
} kinds[WORKLOAD_KINDS] = {
    [WORKLOAD_POD] = {"Pod", "", "", "", "", ""},
    [WORKLOAD_DEPLOYMENT] = {"Deployment", "apps", "spec.template", "spec.template.", "ReplicaSet",
                             "apps/v1"},
    [WORKLOAD_REPLICA_SET] = {"ReplicaSet", "apps", "spec.template", "spec.template.", "ReplicaSet",
                              "apps/v1"},
    [WORKLOAD_REPLICATION_CONTROLLER] = {"ReplicationController", "", "spec.template",
                                         "spec.template.", "ReplicationController", "v1"},
    [WORKLOAD_STATEFUL_SET] = {"StatefulSet", "apps", "spec.template", "spec.template.",
                               "StatefulSet", "apps/v1"},
    [WORKLOAD_JOB] = {"Job", "batch", "spec.template", "spec.template.", "Job", "batch/v1"},
    [WORKLOAD_CRON_JOB] = {"CronJob", "batch", "spec.jobTemplate.spec.template",
                           "spec.jobTemplate.spec.template.", "Job", "batch/v1"},
    [WORKLOAD_DAEMON_SET] = {"DaemonSet", "apps", "spec.template", "spec.template.", "DaemonSet",
                             "apps/v1"},
    [WORKLOAD_GUESS] = {"", "", "", "", "", ""}, /* kind and apiVersion are in the object */
};

/* Checks the group, too: other groups have kinds of the same names. */
enum workload_kind workload_kind_of(const char *kind, const char *api_version)
{
    const char *slash = strchr(api_version, '/');
    const size_t group = slash != NULL ? (size_t)(slash - api_version) : 0;
    int found = 0;

    while (found < WORKLOAD_GUESS && strcmp(kinds[found].name, kind) != 0)
        found++;
    must(found <= WORKLOAD_GUESS);
    if (found == WORKLOAD_GUESS)
        return WORKLOAD_KINDS;
    if (api_version[0] == '\0')
        return (enum workload_kind)found;
    const bool same =
        strlen(kinds[found].group) == group && strncmp(kinds[found].group, api_version, group) == 0;
    return same ? (enum workload_kind)found : WORKLOAD_KINDS;
}

/* --- fields --- */

static int workload_text(const struct document *object, const char *path, const char **out,
                         struct err *err)
{
    if (field_expect(document_at(object, path), DOCUMENT_STRING, path, err) < 0)
        return err_same(err);
    *out = document_str(object, path);
    must(*out != NULL);
    return 0;
}

/* Reads a non-negative int32 as Kubernetes does; *out is unchanged if absent. */
static int workload_number(const struct document *object, const char *path, int64_t *out,
                           struct err *err)
{
    const struct document *value = document_at(object, path);
    int64_t number = 0;

    must(*out >= 0);
    if (value == NULL)
        return 0;
    if (value->kind != DOCUMENT_NUMBER)
        return err_set(err, ERR_INVALID, "%s: expected an integer, found %s%s", path,
                       document_kind_name(value->kind),
                       value->kind == DOCUMENT_STRING ? "; write it without quotes" : "");
    if (text_starts(value->text, "-"))
        return err_set(err, ERR_INVALID, "%s: %.40s must be greater than or equal to 0", path,
                       value->text.at);
    for (size_t i = 0; i < value->text.len; i++) {
        const char c = value->text.at[i];
        if (c < '0' || c > '9')
            return err_set(err, ERR_INVALID, "%s: expected an integer, found %.40s", path,
                           value->text.at);
        number = number * 10 + (c - '0');
        if (number > INT32_MAX)
            return err_set(err, ERR_INVALID, "%s: %.40s is beyond %d", path, value->text.at,
                           INT32_MAX);
    }
    *out = number;
    return 0;
}

static int workload_strings(const struct document *map, const char *path, struct err *err)
{
    must(path[0] != '\0');
    if (field_expect(map, DOCUMENT_OBJECT, path, err) < 0)
        return err_same(err);
    document_each (value, map) {
        char at[FIELD_PATH_BYTES];
        char key[FIELD_KEY_BYTES];
        FIELD_PATH(at, "%.150s[\"%s\"]", path, field_key(value, key));
        if (field_expect(value, DOCUMENT_STRING, at, err) < 0)
            return err_same(err);
    }
    return 0;
}

/* --- counts --- */

static int count_checked(struct pod_maker *out, int64_t pods, const char *path, struct err *err)
{
    must(pods >= 0);
    if (pods > WORKLOAD_PODS_MAX)
        return err_set(err, ERR_TOO_LARGE, "%s: %lld pods are too many: play makes at most %d",
                       path, (long long)pods, WORKLOAD_PODS_MAX);
    out->pods = (uint32_t)pods;
    return 0;
}

static int replicas_count(const struct document *object, struct pod_maker *out, struct err *err)
{
    int64_t replicas = 1;

    must(out->kind != WORKLOAD_POD);
    if (workload_number(object, "spec.replicas", &replicas, err) < 0)
        return err_same(err);
    return count_checked(out, replicas, "spec.replicas", err);
}

static int stateful_count(const struct document *object, struct pod_maker *out, struct err *err)
{
    const char *policy = "";
    int64_t start = 0;

    must(out->kind == WORKLOAD_STATEFUL_SET);
    if (replicas_count(object, out, err) < 0 ||
        workload_number(object, "spec.ordinals.start", &start, err) < 0 ||
        workload_text(object, "spec.podManagementPolicy", &policy, err) < 0)
        return err_same(err);
    if (policy[0] != '\0' && strcmp(policy, "OrderedReady") != 0 && strcmp(policy, "Parallel") != 0)
        return err_set(
            err, ERR_INVALID,
            "spec.podManagementPolicy: \"%.40s\" is not one of OrderedReady and Parallel",
            document_shown(object, "spec.podManagementPolicy"));
    const struct document *claims = document_at(object, "spec.volumeClaimTemplates");
    if (field_expect(claims, DOCUMENT_ARRAY, "spec.volumeClaimTemplates", err) < 0)
        return err_same(err);
    out->has_claims = claims != NULL && claims->count > 0;
    out->first = (uint32_t)start;
    out->ordered = strcmp(policy, "Parallel") != 0;
    return 0;
}

/*
 * Reads the number of pods that the controller starts at first: parallelism, limited by
 * completions.
 */
static int job_count(struct arena *arena, const struct document *job, const char *prefix,
                     struct pod_maker *out, struct err *err)
{
    const char *mode = "";
    int64_t parallelism = 1;
    int64_t completions = INT32_MAX;
    const char *at_parallelism = arena_printf(arena, "%sparallelism", prefix);
    const char *at_completions = arena_printf(arena, "%scompletions", prefix);

    must(out->kind == WORKLOAD_JOB || out->kind == WORKLOAD_CRON_JOB);
    if (workload_number(job, at_parallelism, &parallelism, err) < 0 ||
        workload_number(job, at_completions, &completions, err) < 0 ||
        workload_text(job, arena_printf(arena, "%scompletionMode", prefix), &mode, err) < 0)
        return err_same(err);
    const bool counted = document_at(job, at_completions) != NULL;
    out->indexed = strcmp(mode, "Indexed") == 0;
    if (mode[0] != '\0' && !out->indexed && strcmp(mode, "NonIndexed") != 0)
        return err_set(err, ERR_INVALID,
                       "%scompletionMode: \"%.40s\" is not one of NonIndexed and Indexed", prefix,
                       document_shown(job, arena_printf(arena, "%scompletionMode", prefix)));
    if (out->indexed && !counted)
        return err_set(err, ERR_INVALID, "%s: a number is required where completionMode is Indexed",
                       at_completions);
    const int64_t pods = parallelism < completions ? parallelism : completions;
    if (count_checked(out, pods, at_parallelism, err) < 0)
        return err_same(err);
    if (counted && completions > pods)
        out->note = arena_printf(arena,
                                 "the first %lld of %lld pods: each of the others starts when one "
                                 "has ended",
                                 (long long)pods, (long long)completions);
    return 0;
}

/* Called for a CronJob and for its Job, each of which can be suspended. */
static int suspend_read(const struct document *object, const char *path, struct pod_maker *out,
                        struct err *err)
{
    must(path[0] != '\0');
    if (field_expect(document_at(object, path), DOCUMENT_BOOL, path, err) < 0)
        return err_same(err);
    if (document_true(object, path)) {
        out->pods = 0;
        out->note = "no pods: it is suspended";
    }
    return 0;
}

static int cron_count(struct arena *arena, const struct document *object, struct pod_maker *out,
                      struct err *err)
{
    must(out->kind == WORKLOAD_CRON_JOB);
    if (job_count(arena, object, "spec.jobTemplate.spec.", out, err) < 0)
        return err_same(err);
    if (out->note == NULL)
        out->note = "one Job, as at the first time of its schedule";
    if (suspend_read(object, "spec.jobTemplate.spec.suspend", out, err) < 0)
        return err_same(err);
    return suspend_read(object, "spec.suspend", out, err);
}

static int workload_count(struct arena *arena, const struct document *object, struct pod_maker *out,
                          struct err *err)
{
    switch (out->kind) {
    case WORKLOAD_POD:
        out->pods = 1;
        return 0;
    case WORKLOAD_DEPLOYMENT:
    case WORKLOAD_REPLICA_SET:
    case WORKLOAD_REPLICATION_CONTROLLER:
        return replicas_count(object, out, err);
    case WORKLOAD_STATEFUL_SET:
        return stateful_count(object, out, err);
    case WORKLOAD_JOB:
        if (job_count(arena, object, "spec.", out, err) < 0)
            return err_same(err);
        return suspend_read(object, "spec.suspend", out, err);
    case WORKLOAD_CRON_JOB:
        return cron_count(arena, object, out, err);
    case WORKLOAD_DAEMON_SET:
        out->pods = 0; /* set when the nodes are known */
        return 0;
    case WORKLOAD_GUESS:
    case WORKLOAD_KINDS:
        break;
    }
    must_not_reach("manifest.c reads known kinds only");
}

/* --- reading --- */

/* As in kube-controller-manager: the digits of a hash in an alphabet that forms no words. */
static const char *workload_hash(struct arena *arena, const struct document *template)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
    CLEANUP(strbuf_done) struct strbuf bytes;
    uint32_t hash = 2166136261U; /* FNV-1a, because it is the same in every run */

    strbuf_init(&bytes);
    document_write(&bytes, template);
    for (size_t i = 0; i < bytes.len; i++)
        hash = (hash ^ (unsigned char)bytes.data[i]) * 16777619U;
    char *text = arena_printf(arena, "%u", (unsigned)hash);
    for (char *at = text; *at != '\0'; at++)
        *at = letters[(unsigned char)*at % (sizeof letters - 1)];
    must(text[0] != '\0');
    return text;
}

static void read_owner(const struct document *object, struct pod_maker *out)
{
    must(out->owner_kind[0] == '\0');
    document_each (owner, document_at(object, "metadata.ownerReferences")) {
        if (!document_true(owner, "controller"))
            continue;
        out->owner_kind = document_str(owner, "kind");
        out->owner_name = document_str(owner, "name");
    }
}

/* Checks a name that becomes a part of pods' names and of output. */
static int name_check(const char *name, const char *path, struct err *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
    const size_t bytes = strlen(name);

    must(path[0] != '\0');
    if (bytes > 0 && bytes <= NAME_BYTES_MAX && strspn(name, letters) == bytes && name[0] != '-' &&
        name[0] != '.')
        return 0;
    return err_set(err, ERR_INVALID,
                   "%s: expected lower case letters, digits, '-' and '.', at most %d of them", path,
                   NAME_BYTES_MAX);
}

/*
 * Reads namespace and name. A Pod can have a generateName instead, as in `kubectl create`. Names of
 * objects become parts of the pods' names.
 */
static int names_read(struct arena *arena, const struct document *object,
                      const struct pod_maker_names *names, struct pod_maker *out, struct err *err)
{
    const char *prefix = "";

    if (field_expect(document_get(object, "metadata"), DOCUMENT_OBJECT, "metadata", err) < 0 ||
        workload_text(object, "metadata.name", &out->name, err) < 0 ||
        workload_text(object, "metadata.generateName", &prefix, err) < 0 ||
        workload_text(object, "metadata.namespace", &out->namespace, err) < 0)
        return err_same(err);
    if (out->name[0] == '\0' && prefix[0] != '\0')
        out->name = arena_printf(arena, "%.58s%u", prefix, (unsigned)names->serial);
    if (out->name[0] == '\0')
        return err_set(err, ERR_INVALID, "metadata.name: a name is required");
    if (out->namespace[0] == '\0')
        out->namespace = names->namespace;
    if (name_check(out->namespace, "metadata.namespace", err) < 0)
        return err_same(err);
    return name_check(out->name, "metadata.name", err);
}

/* Checks the parts of a template that are copied or extended here. */
static int check_template(struct arena *arena, const struct pod_maker *out, struct err *err)
{
    const char *prefix = out->prefix;

    must(out->spec != NULL);
    if (field_expect(out->spec, DOCUMENT_OBJECT, arena_printf(arena, "%sspec", prefix), err) < 0 ||
        field_expect(out->meta, DOCUMENT_OBJECT, arena_printf(arena, "%smetadata", prefix), err) <
            0 ||
        workload_strings(document_get(out->meta, "labels"),
                         arena_printf(arena, "%smetadata.labels", prefix), err) < 0)
        return err_same(err);
    return workload_strings(document_get(out->meta, "annotations"),
                            arena_printf(arena, "%smetadata.annotations", prefix), err);
}

static int read_template(struct arena *arena, const struct document *object, struct pod_maker *out,
                         struct err *err)
{
    const char *path = kinds[out->kind].path;
    const struct document *template = path[0] != '\0' ? document_at(object, path) : object;

    if (template == NULL)
        return err_set(err, ERR_INVALID, "%s: a pod template is required", path);
    if (path[0] != '\0' && field_expect(template, DOCUMENT_OBJECT, path, err) < 0)
        return err_same(err);
    out->meta = document_get(template, "metadata");
    out->spec = document_get(template, "spec");
    if (out->spec == NULL)
        return err_set(err, ERR_INVALID, "%sspec: a pod needs a spec", out->prefix);
    out->hash = path[0] != '\0' ? workload_hash(arena, template) : "";
    must(template->kind == DOCUMENT_OBJECT);
    return check_template(arena, out, err);
}

int pod_maker_read(struct arena *arena, const struct document *object, enum workload_kind kind,
                   const struct pod_maker_names *names, struct pod_maker *out, struct err *err)
{
    must(kind < WORKLOAD_KINDS);
    *out = (struct pod_maker){.kind = kind,
                              .word = kinds[kind].name,
                              .api_version = kinds[kind].owner_is,
                              .prefix = kinds[kind].prefix,
                              .namespace = "",
                              .name = "",
                              .owner_kind = "",
                              .owner_name = ""};
    if (names_read(arena, object, names, out, err) < 0 ||
        read_template(arena, object, out, err) < 0 || workload_count(arena, object, out, err) < 0)
        return err_same(err);
    read_owner(object, out);
    return 0;
}

int pod_maker_read_part(struct arena *arena, const struct document *object,
                        const struct pod_maker_part *part, const struct pod_maker_names *names,
                        struct pod_maker *out, struct err *err)
{
    must(part->kind[0] != '\0' && part->spec != NULL);
    *out = (struct pod_maker){.kind = WORKLOAD_GUESS,
                              .word = part->kind,
                              .api_version = part->api_version,
                              .prefix = part->prefix,
                              .namespace = "",
                              .name = "",
                              .meta = part->meta,
                              .spec = part->spec,
                              .pods = part->pods,
                              .hash = "",
                              .note = part->note,
                              .owner_kind = "",
                              .owner_name = ""};
    if (names_read(arena, object, names, out, err) < 0 || check_template(arena, out, err) < 0)
        return err_same(err);
    out->stem =
        part->word[0] != '\0' ? arena_printf(arena, "%.200s-%s", out->name, part->word) : out->name;
    read_owner(object, out);
    return 0;
}

/* --- making --- */

/* A made-up uid in the form of a version 4 UUID, the same for the same object. */
static const char *owner_uid(struct arena *arena, const struct pod_maker *workload,
                             const char *owner)
{
    const bool guess = workload->kind == WORKLOAD_GUESS;
    const char *kind = guess ? workload->word : kinds[workload->kind].owner;
    const char *text = arena_printf(arena, "%s/%s/%s", kind, workload->namespace, owner);
    uint64_t hash = 14695981039346656037U;

    must(owner[0] != '\0');
    for (const char *at = text; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211U;
    const uint64_t more = hash * 0x9E3779B97F4A7C15U;
    return arena_printf(arena, "%08x-%04x-4%03x-8%03x-%012llx", (unsigned)(hash >> 32),
                        (unsigned)(hash >> 16 & 0xffff), (unsigned)(hash & 0xfff),
                        (unsigned)(more >> 52), (unsigned long long)(more & 0xffffffffffffU));
}

/* The name of the pods' owner; for a Deployment or CronJob, of the object in between. */
static const char *owner_name(struct arena *arena, const struct pod_maker *workload)
{
    must(workload->kind != WORKLOAD_POD);
    if (workload->kind == WORKLOAD_DEPLOYMENT)
        return arena_printf(arena, "%s-%s", workload->name, workload->hash);
    if (workload->kind == WORKLOAD_CRON_JOB)
        return arena_printf(arena, "%s-1", workload->name);
    return workload->name;
}

static void make_owner(struct arena *arena, const struct pod_maker *workload, const char *owner,
                       struct document *meta)
{
    struct document *list = document_new(arena, DOCUMENT_ARRAY);
    struct document *one = document_new(arena, DOCUMENT_OBJECT);

    const bool guess = workload->kind == WORKLOAD_GUESS;
    must(meta->kind == DOCUMENT_OBJECT);
    document_set_str(arena, one, "apiVersion", workload->api_version);
    document_set_str(arena, one, "kind", guess ? workload->word : kinds[workload->kind].owner);
    document_set_str(arena, one, "name", owner);
    document_set_str(arena, one, "uid", owner_uid(arena, workload, owner));
    for (int i = 0; i < 2; i++) {
        struct document *yes = document_new(arena, DOCUMENT_BOOL);
        yes->text = TEXT("true");
        document_set(arena, one, text_of(i == 0 ? "controller" : "blockOwnerDeletion"), yes);
    }
    document_append(list, one);
    document_set(arena, meta, TEXT("ownerReferences"), list);
}

/* Adds the labels that a controller adds to those of its template. */
static void make_labels(struct arena *arena, const struct pod_maker *workload, const char *owner,
                        const char *name, const char *ordinal, struct document *meta)
{
    struct document *labels = document_object(arena, meta, "labels");

    must(name[0] != '\0');
    if (workload->kind == WORKLOAD_DEPLOYMENT)
        document_set_str(arena, labels, "pod-template-hash", workload->hash);
    if (workload->kind == WORKLOAD_STATEFUL_SET) {
        document_set_str(arena, labels, "apps.kubernetes.io/pod-index", ordinal);
        document_set_str(arena, labels, "controller-revision-hash",
                         arena_printf(arena, "%s-%s", workload->name, workload->hash));
        document_set_str(arena, labels, "statefulset.kubernetes.io/pod-name", name);
    }
    if (workload->kind != WORKLOAD_JOB && workload->kind != WORKLOAD_CRON_JOB)
        return;
    document_set_str(arena, labels, "batch.kubernetes.io/controller-uid",
                     owner_uid(arena, workload, owner));
    document_set_str(arena, labels, "batch.kubernetes.io/job-name", owner);
    document_set_str(arena, labels, "job-name", owner);
    if (!workload->indexed)
        return;
    document_set_str(arena, labels, "batch.kubernetes.io/job-completion-index", ordinal);
    document_set_str(arena, document_object(arena, meta, "annotations"),
                     "batch.kubernetes.io/job-completion-index", ordinal);
}

/* Copies the template's metadata without its name. */
static struct document *make_meta(struct arena *arena, const struct pod_maker *workload)
{
    struct document *meta = document_new(arena, DOCUMENT_OBJECT);
    static const char *const kept[] = {"labels", "annotations"};

    must(workload->kind != WORKLOAD_POD);
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        const struct document *map = document_get(workload->meta, kept[i]);
        if (map != NULL)
            document_set(arena, meta, text_of(kept[i]), document_copy(arena, map));
    }
    return meta;
}

/* Adds hostname and subdomain, which pods of a StatefulSet or an indexed Job have. */
static void make_host(struct arena *arena, const struct pod_maker *workload, const char *name,
                      struct document *spec)
{
    must(spec->kind == DOCUMENT_OBJECT);
    if ((workload->kind == WORKLOAD_STATEFUL_SET || workload->indexed) && strlen(name) <= 63)
        document_set_str(arena, spec, "hostname", name);
}

/* Adds the tolerations of the DaemonSet controller. */
static void make_tolerations(struct arena *arena, struct document *spec)
{
    static const struct {
        const char *key;
        const char *effect;
        bool host_network; /* only for pods in the host's network */
    } row[] = {{"node.kubernetes.io/not-ready", "NoExecute", false},
               {"node.kubernetes.io/unreachable", "NoExecute", false},
               {"node.kubernetes.io/disk-pressure", "NoSchedule", false},
               {"node.kubernetes.io/memory-pressure", "NoSchedule", false},
               {"node.kubernetes.io/pid-pressure", "NoSchedule", false},
               {"node.kubernetes.io/unschedulable", "NoSchedule", false},
               {"node.kubernetes.io/network-unavailable", "NoSchedule", true}};
    struct document *list = document_get(spec, "tolerations");

    must(spec->kind == DOCUMENT_OBJECT);
    if (list == NULL) {
        list = document_new(arena, DOCUMENT_ARRAY);
        document_set(arena, spec, TEXT("tolerations"), list);
    }
    for (size_t i = 0; list->kind == DOCUMENT_ARRAY && i < ARRAY_LEN(row); i++) {
        if (row[i].host_network && !document_true(spec, "hostNetwork"))
            continue;
        struct document *one = document_new(arena, DOCUMENT_OBJECT);
        document_set_str(arena, one, "key", row[i].key);
        document_set_str(arena, one, "operator", "Exists");
        document_set_str(arena, one, "effect", row[i].effect);
        document_append(list, one);
    }
}

/*
 * Sets the node affinity of a DaemonSet's pod: the field metadata.name replaces the terms of the
 * template, which have already selected the node. Parts of a wrong type stay, to be refused with
 * their path.
 */
static void make_daemon(struct arena *arena, const char *node, struct document *spec)
{
    static const char *const outer[] = {"affinity", "nodeAffinity",
                                        "requiredDuringSchedulingIgnoredDuringExecution"};
    struct document *at = spec;

    must(spec->kind == DOCUMENT_OBJECT);
    make_tolerations(arena, spec);
    if (node == NULL)
        return;
    for (size_t i = 0; i < ARRAY_LEN(outer); i++) {
        const struct document *given = document_get(at, outer[i]);
        if (given != NULL && given->kind != DOCUMENT_OBJECT)
            return;
        at = document_object(arena, at, outer[i]);
    }
    struct document *terms = document_new(arena, DOCUMENT_ARRAY);
    struct document *term = document_new(arena, DOCUMENT_OBJECT);
    struct document *fields = document_new(arena, DOCUMENT_ARRAY);
    struct document *rule = document_new(arena, DOCUMENT_OBJECT);
    struct document *values = document_new(arena, DOCUMENT_ARRAY);
    document_append(values, document_new_str(arena, text_of(node)));
    document_set_str(arena, rule, "key", "metadata.name");
    document_set_str(arena, rule, "operator", "In");
    document_set(arena, rule, TEXT("values"), values);
    document_append(fields, rule);
    document_set(arena, term, TEXT("matchFields"), fields);
    document_append(terms, term);
    document_set(arena, at, TEXT("nodeSelectorTerms"), terms);
}

static struct document *make_bare(struct arena *arena, const struct pod_maker *workload)
{
    struct document *pod = document_new(arena, DOCUMENT_OBJECT);
    struct document *meta = document_copy(arena, workload->meta);

    must(meta->kind == DOCUMENT_OBJECT);
    document_set_str(arena, meta, "name", workload->name);
    document_set_str(arena, meta, "namespace", workload->namespace);
    document_set(arena, pod, TEXT("metadata"), meta);
    return pod;
}

/* A pod's name without its last part; truncated, since 5 of at most 63 characters are a suffix. */
static const char *make_stem(struct arena *arena, const struct pod_maker *workload,
                             const char *owner, const char *ordinal)
{
    enum { STEM_BYTES = 58 };

    must(owner[0] != '\0');
    if (!workload->indexed)
        return arena_printf(arena, "%.*s-", STEM_BYTES - 1, owner);
    return arena_printf(arena, "%.*s-%s-", STEM_BYTES - 2 - (int)strlen(ordinal), owner, ordinal);
}

struct document *pod_maker_pod(struct arena *arena, const struct pod_maker *workload, uint32_t at)
{
    struct document *pod = NULL;
    struct document *spec = document_copy(arena, workload->spec);

    must(workload->kind < WORKLOAD_KINDS);
    if (workload->kind == WORKLOAD_POD) {
        pod = make_bare(arena, workload);
    } else {
        const char *owner = owner_name(arena, workload);
        const char *ordinal = arena_printf(arena, "%llu", (unsigned long long)workload->first + at);
        const bool exact = workload->kind == WORKLOAD_STATEFUL_SET;
        const char *base = workload->kind == WORKLOAD_GUESS ? workload->stem : owner;
        const char *stem = make_stem(arena, workload, base, ordinal);
        const char *name =
            exact ? arena_printf(arena, "%s-%s", owner, ordinal)
                  : arena_printf(arena, "%s%s", stem, workload->indexed ? "0" : ordinal);
        struct document *meta = make_meta(arena, workload);
        document_set_str(arena, meta, "name", name);
        if (!exact)
            document_set_str(arena, meta, "generateName", stem);
        document_set_str(arena, meta, "namespace", workload->namespace);
        make_labels(arena, workload, owner, name, ordinal, meta);
        make_owner(arena, workload, owner, meta);
        make_host(arena, workload,
                  workload->indexed ? arena_printf(arena, "%s-%s", owner, ordinal) : name, spec);
        if (workload->kind == WORKLOAD_DAEMON_SET)
            make_daemon(arena, workload->node != NULL ? workload->node[at] : NULL, spec);
        pod = document_new(arena, DOCUMENT_OBJECT);
        document_set(arena, pod, TEXT("metadata"), meta);
    }
    document_set_str(arena, pod, "apiVersion", "v1");
    document_set_str(arena, pod, "kind", "Pod");
    document_set(arena, pod, TEXT("spec"), spec);
    return pod;
}
