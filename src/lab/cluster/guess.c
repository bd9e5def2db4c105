/*
 * Finds pod templates in an object of any kind. Called by manifest.c for objects of other kinds
 * than those of pod_maker.h. In order: the path to a value, counts, names, parts of a pod, search.
 */
#include "guess.h"

#include <string.h>

#include "milligpu/base/limits.h"

#include "fields.h"

/* --- the way from the object to a value in it --- */

struct step {
    const struct step *up; /* NULL if the value is the object */
    const struct document *value;
    const char *key;  /* of the value, or of the array that contains it */
    uint32_t index;   /* in the array, from 1; 0 if not in an array */
    const char *path; /* "spec.workerGroupSpecs[0]"; "" for the object */
};

struct guess {
    struct arena *arena;
    const struct document *object;
    guess_take *take;
    void *user;
    uint32_t parts;
    const char *words[16]; /* words of the first parts, which keep their pods' names distinct */
};

static struct step step_into(const struct guess *guess, const struct step *up,
                             const struct document *value, const char *key, uint32_t index)
{
    const char *dot = up->path[0] != '\0' ? "." : "";
    char shown[64]; /* key in the path, for people */

    must(key[0] != '\0');
    text_clip(text_of(key), shown, sizeof shown);
    return (struct step){
        .up = up,
        .value = value,
        .key = key,
        .index = index,
        .path = index > 0
                    ? arena_printf(guess->arena, "%.200s%s%s[%u]", up->path, dot, shown, index - 1)
                    : arena_printf(guess->arena, "%.200s%s%s", up->path, dot, shown),
    };
}

/* --- counts --- */

/* Reads a count; false if it is not a number, such as the size of a volume, or a range. */
static bool count_at(const struct document *value, const char *key, int64_t *out)
{
    const struct document *found = document_get(value, key);

    must(key[0] != '\0');
    if (found == NULL || found->kind != DOCUMENT_NUMBER ||
        strspn(found->text.at, "0123456789") != found->text.len)
        return false;
    const int64_t number = document_int(value, key);
    *out = number > INT32_MAX ? INT32_MAX : number;
    return true;
}

struct guess_count {
    int64_t pods;
    struct strbuf text; /* "replicas 2 x parallelism 2" */
};

static void tally_times(struct guess_count *tally, int64_t number, const char *key)
{
    must(number >= 0 && tally->pods >= 0);
    strbuf_printf(&tally->text, "%s%s %lld", tally->text.len > 0 ? " x " : "", key,
                  (long long)number);
    tally->pods *= number;
    if (tally->pods > INT32_MAX)
        tally->pods = INT32_MAX;
}

/* Multiplies by the first of these counts, which applies to everything below. */
static void tally_replicas(struct guess_count *tally, const struct document *value)
{
    static const char *const keys[] = {"replicas", "minReplicas", "numNodes", "instances", "count"};
    int64_t number;

    must(value != NULL);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (!count_at(value, keys[i], &number))
            continue;
        /* A workload with a minimum of zero gets a pod with the first request. */
        if (number == 0 && strcmp(keys[i], "minReplicas") == 0)
            number = 1;
        tally_times(tally, number, keys[i]);
        return;
    }
}

/* As in the Job controller: parallelism is limited by completions. */
static void tally_job(struct guess_count *tally, const struct document *value)
{
    int64_t parallelism;
    int64_t completions;

    must(value != NULL);
    if (!count_at(value, "parallelism", &parallelism))
        return;
    if (count_at(value, "completions", &completions) && completions < parallelism)
        tally_times(tally, completions, "completions");
    else
        tally_times(tally, parallelism, "parallelism");
}

/* The size of a group includes its leader. */
static void tally_group(struct guess_count *tally, const struct document *value, const char *below)
{
    const bool leads = document_get(value, "leaderTemplate") != NULL;
    int64_t number;

    must(below[0] != '\0');
    if (!count_at(value, "size", &number) || strcmp(below, "leaderTemplate") == 0)
        return;
    if (leads && strcmp(below, "workerTemplate") == 0)
        tally_times(tally, number > 0 ? number - 1 : 0, "size less its leader,");
    else
        tally_times(tally, number, "size");
}

static bool is_suspended(const struct step *last)
{
    must(last != NULL);
    for (; last != NULL; last = last->up)
        if (document_true(last->value, "suspend") ||
            document_true(last->value, "runPolicy.suspend"))
            return true;
    return false;
}

/* Multiplies the counts from the object down to the value. */
static void tally_all(struct guess_count *tally, const struct step *last, const char *below)
{
    if (last->up != NULL)
        tally_all(tally, last->up, last->key);
    if (last->value->kind != DOCUMENT_OBJECT)
        return;
    must(below != NULL);
    tally_replicas(tally, last->value);
    tally_job(tally, last->value);
    tally_group(tally, last->value, below[0] != '\0' ? below : "?");
    int64_t hosts;
    if (count_at(last->value, "numOfHosts", &hosts))
        tally_times(tally, hosts, "numOfHosts");
}

static int guess_count(struct guess *guess, const struct step *last, struct pod_maker_part *out,
                       struct err *err)
{
    struct guess_count tally = {.pods = 1};

    strbuf_init(&tally.text);
    tally_all(&tally, last, "");
    const char *text = arena_copy(guess->arena, (struct text){tally.text.data, tally.text.len});
    strbuf_done(&tally.text);
    if (tally.pods > WORKLOAD_PODS_MAX)
        return err_set(err, ERR_TOO_LARGE, "%.200s: %s: play makes at most %d pods", last->path,
                       text, WORKLOAD_PODS_MAX);
    out->pods = is_suspended(last) ? 0 : (uint32_t)tally.pods;
    if (is_suspended(last))
        out->note = "no pods: it is suspended";
    else
        out->note = arena_printf(guess->arena, "a guess: %u pod%s as in %s (%s)",
                                 (unsigned)out->pods, out->pods == 1 ? "" : "s", last->path,
                                 text[0] != '\0' ? text : "no count is given");
    must(out->note != NULL);
    return 0;
}

/* --- names --- */

/* The key in lower case letters and digits, without common suffixes. */
static const char *word_of(struct arena *arena, const char *key)
{
    static const char *const ends[] = {"spec", "specs", "template", "group", "replica"};
    char word[40];
    size_t bytes = 0;
    bool shorter = true;

    must(key != NULL);
    for (; *key != '\0' && bytes + 1 < sizeof word; key++) {
        const bool upper = *key >= 'A' && *key <= 'Z';
        const bool kept = (*key >= 'a' && *key <= 'z') || (*key >= '0' && *key <= '9');
        if (kept || upper)
            word[bytes++] = upper ? (char)(*key - 'A' + 'a') : *key;
        else if (bytes > 0 && word[bytes - 1] != '-')
            word[bytes++] = '-';
    }
    while (shorter) {
        shorter = false;
        for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
            const size_t len = strlen(ends[i]);
            if (bytes > len && memcmp(word + bytes - len, ends[i], len) == 0) {
                bytes -= len;
                shorter = true;
            }
        }
    }
    while (bytes > 0 && word[bytes - 1] == '-')
        bytes--;
    return arena_copy(arena, (struct text){word, bytes});
}

/* The word that identifies this part of the object: its name, else its key. */
static const char *part_word(struct arena *arena, const struct step *last)
{
    static const char *const plain[] = {"spec",    "template", "podTemplate",
                                        "podSpec", "model",    "container"};

    must(last != NULL);
    for (; last->up != NULL; last = last->up) {
        const char *name = document_str(last->value, "groupName");
        bool is_plain = false;
        if (name[0] == '\0' && last->index > 0)
            name = document_str(last->value, "name");
        if (name[0] != '\0')
            return word_of(arena, name);
        for (size_t i = 0; i < ARRAY_LEN(plain); i++)
            is_plain |= strcmp(last->key, plain[i]) == 0;
        if (!is_plain && last->index > 0)
            return arena_printf(arena, "%s%u", word_of(arena, last->key), last->index - 1);
        if (!is_plain)
            return word_of(arena, last->key);
    }
    return "";
}

static const char *distinct_word(struct guess *guess, const char *word)
{
    bool taken = false;

    must(word != NULL);
    for (uint32_t i = 0; i < guess->parts; i++)
        taken |= i >= ARRAY_LEN(guess->words) || strcmp(guess->words[i], word) == 0;
    if (taken)
        word = arena_printf(guess->arena, "%s%s%u", word, word[0] != '\0' ? "-" : "",
                            (unsigned)guess->parts + 1);
    if (guess->parts < ARRAY_LEN(guess->words))
        guess->words[guess->parts] = word;
    return word;
}

/* --- what a pod is made of --- */

static bool names_extended(const struct document *amounts)
{
    document_each (amount, amounts)
        if (field_is_named(amount) && strchr(amount->key.at, '/') != NULL)
            return true;
    return false;
}

/* The resources of a value that is, or has, a container under any name; NULL if none. */
static const struct document *resources_of(const struct document *value)
{
    static const char *const keys[] = {"resources", "resourcesPerNode"};

    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct document *found = document_get(value, keys[i]);
        if (names_extended(document_get(found, "limits")) ||
            names_extended(document_get(found, "requests")))
            return found;
    }
    must(value != NULL);
    return NULL;
}

static bool is_pod_spec(const struct document *value)
{
    const struct document *containers = document_get(value, "containers");

    if (containers == NULL || containers->kind != DOCUMENT_ARRAY || containers->count == 0)
        return false;
    document_each (container, containers)
        if (container->kind != DOCUMENT_OBJECT)
            return false;
    must(value->kind == DOCUMENT_OBJECT);
    return true;
}

/* Copies fields of a pod that affect placement, from an object that is no pod. */
static void copy_pod_fields(struct arena *arena, const struct document *from, struct document *spec)
{
    static const char *const keys[] = {
        "nodeSelector",      "tolerations", "affinity",         "containers",
        "initContainers",    "volumes",     "priority",         "priorityClassName",
        "schedulerName",     "hostNetwork", "runtimeClassName", "topologySpreadConstraints",
        "schedulingGates",   "overhead",    "resourceClaims",   "nodeName",
        "serviceAccountName"};

    must(spec->kind == DOCUMENT_OBJECT);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct document *found = document_get(from, keys[i]);
        if (found != NULL && document_get(spec, keys[i]) == NULL)
            document_set(arena, spec, text_of(keys[i]), document_copy(arena, found));
    }
}

static void add_container(struct arena *arena, const struct document *given, const char *key,
                          struct document *spec)
{
    struct document *containers = document_get(spec, "containers");
    struct document *container = document_new(arena, DOCUMENT_OBJECT);
    const char *image = document_str(given, "image");

    must(spec->kind == DOCUMENT_OBJECT);
    if (containers == NULL || containers->kind != DOCUMENT_ARRAY) {
        containers = document_new(arena, DOCUMENT_ARRAY);
        document_set(arena, spec, TEXT("containers"), containers);
    }
    const char *name = word_of(arena, key);
    document_set_str(arena, container, "name", name[0] != '\0' ? name : "main");
    document_set_str(arena, container, "image", image[0] != '\0' ? image : "unknown");
    document_set(arena, container, TEXT("resources"), document_copy(arena, resources_of(given)));
    document_append(containers, container);
}

static void merge_metadata(struct arena *arena, const struct document *from, struct document *meta)
{
    static const char *const keys[] = {"labels", "annotations"};

    must(meta->kind == DOCUMENT_OBJECT);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct document *given = document_get(from, keys[i]);
        if (given != NULL && given->kind == DOCUMENT_OBJECT)
            document_merge(arena, document_object(arena, meta, keys[i]), given);
    }
}

/* True if the pod's metadata is beside the pod's spec. */
static bool is_in_template(const struct step *last)
{
    must(last->up != NULL);
    return strcmp(last->key, "spec") == 0 && last->index == 0 && last->up->up != NULL;
}

/* The metadata of the template; without one, labels and annotations of the object. */
static const struct document *meta_of(struct guess *guess, const struct step *last)
{
    struct document *meta = document_new(guess->arena, DOCUMENT_OBJECT);

    must(last->up != NULL);
    if (is_in_template(last))
        return document_get(last->up->value, "metadata");
    merge_metadata(guess->arena, document_get(guess->object, "metadata"), meta);
    merge_metadata(guess->arena, last->value, meta);
    document_remove(document_object(guess->arena, meta, "annotations"),
                    "kubectl.kubernetes.io/last-applied-configuration");
    return meta;
}

/* --- search --- */

static int guess_emit(struct guess *guess, const struct step *last, const struct document *spec,
                      struct err *err)
{
    struct pod_maker_part part = {
        .kind = document_shown(guess->object, "kind"),
        .api_version = document_str(guess->object, "apiVersion"),
        .prefix = is_in_template(last) ? arena_printf(guess->arena, "%s.", last->up->path)
                                       : arena_printf(guess->arena, "%s as a pod: ", last->path),
        .meta = meta_of(guess, last),
        .spec = spec,
    };

    must(spec->kind == DOCUMENT_OBJECT);
    part.word = distinct_word(guess, part_word(guess->arena, last));
    guess->parts++;
    if (guess_count(guess, last, &part, err) < 0)
        return err_same(err);
    return guess->take(guess->user, &part, err);
}

/* Names containers without a name, as the object's controller would. */
static void name_containers(struct arena *arena, struct document *spec)
{
    struct document *list = document_get(spec, "containers");
    unsigned index = 0;

    must(list != NULL);
    for (struct document *at = list->first; at != NULL; at = at->next, index++)
        if (document_get(at, "name") == NULL)
            document_set_str(arena, at, "name", arena_printf(arena, "container-%u", index));
}

/* Adds a pod; unless it is in a template, other containers beside the list belong to it. */
static int guess_pod(struct guess *guess, const struct step *last, struct err *err)
{
    must(is_pod_spec(last->value));
    if (is_in_template(last))
        return guess_emit(guess, last, last->value, err);
    struct document *spec = document_new(guess->arena, DOCUMENT_OBJECT);
    copy_pod_fields(guess->arena, last->value, spec);
    name_containers(guess->arena, spec);
    document_each (child, last->value)
        if (child->kind == DOCUMENT_OBJECT && resources_of(child) != NULL)
            add_container(guess->arena, child, child->key.at, spec);
    return guess_emit(guess, last, spec, err);
}

/* Adds a pod for a single container; fields of the pod are in the container or around it. */
static int guess_container(struct guess *guess, const struct step *last, struct err *err)
{
    struct document *spec = document_new(guess->arena, DOCUMENT_OBJECT);

    must(last->up != NULL);
    copy_pod_fields(guess->arena, last->value, spec);
    if (last->up->up != NULL)
        copy_pod_fields(guess->arena, last->up->value, spec);
    add_container(guess->arena, last->value, last->key, spec);
    return guess_emit(guess, last, spec, err);
}

static int guess_walk(struct guess *guess, const struct step *last, struct err *err);

static int walk_array(struct guess *guess, const struct step *up, const struct document *array,
                      struct err *err)
{
    uint32_t index = 0;

    must(array->kind == DOCUMENT_ARRAY);
    document_each (item, array) {
        const struct step step = step_into(guess, up, item, array->key.at, ++index);
        if (item->kind == DOCUMENT_OBJECT && guess_walk(guess, &step, err) < 0)
            return err_same(err);
    }
    return 0;
}

/* The parser limits the depth. Skips status and metadata, which can contain copies of templates. */
static int guess_walk(struct guess *guess, const struct step *last, struct err *err)
{
    must(last->value->kind == DOCUMENT_OBJECT);
    if (last->up != NULL && is_pod_spec(last->value))
        return guess_pod(guess, last, err);
    if (last->up != NULL && resources_of(last->value) != NULL)
        return guess_container(guess, last, err);
    document_each (child, last->value) {
        const bool apart =
            last->up == NULL && (text_is(child->key, "status") || text_is(child->key, "metadata"));
        if (apart || !field_is_named(child)) /* or the key cannot be shown in a path */
            continue;
        if (child->kind == DOCUMENT_ARRAY) {
            if (walk_array(guess, last, child, err) < 0)
                return err_same(err);
            continue;
        }
        const struct step step = step_into(guess, last, child, child->key.at, 0);
        if (child->kind == DOCUMENT_OBJECT && guess_walk(guess, &step, err) < 0)
            return err_same(err);
    }
    return 0;
}

/* True if an extended resource is requested; pods of other objects do not concern milligpud. */
static bool asks_extended(const struct document *value)
{
    must(value != NULL);
    if (value->kind == DOCUMENT_OBJECT && resources_of(value) != NULL)
        return true;
    document_each (child, value)
        if (child->count > 0 && asks_extended(child))
            return true;
    return false;
}

/* True for kinds whose templates are only used by other objects. */
static bool makes_no_pods(const char *kind)
{
    static const char *const kinds[] = {
        "PodTemplate",      "ControllerRevision",      "CustomResourceDefinition",
        "ServingRuntime",   "ClusterServingRuntime",   "TrainingRuntime",
        "WorkflowTemplate", "ClusterWorkflowTemplate", "ClusterTrainingRuntime"};

    must(kind != NULL);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(kind, kinds[i]) == 0)
            return true;
    return false;
}

int guess_parts(struct arena *arena, const struct document *object, guess_take *take, void *user,
                uint32_t *out_parts, struct err *err)
{
    const struct step root = {.value = object, .key = "", .path = ""};
    struct guess guess = {.arena = arena, .object = object, .take = take, .user = user};

    must(object->kind == DOCUMENT_OBJECT);
    *out_parts = 0;
    if (makes_no_pods(document_str(object, "kind")) || !asks_extended(object))
        return 0;
    const int status = guess_walk(&guess, &root, err);
    *out_parts = guess.parts;
    return status;
}
