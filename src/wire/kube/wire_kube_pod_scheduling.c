/*
 * Reads display-only fields of a Pod object: its scheduler, its scheduling gates, and the
 * controller that created it. Called by pod_read(). No decision depends on them: unreadable values
 * are ignored, and texts are clipped, because a tenant writes most of them.
 */
#include <string.h>

#include "kube_read.h"

static const char *pod_clip(struct arena *arena, struct text text, size_t bytes)
{
    char clipped[CONDITION_TEXT_MAX];

    must(bytes > 0 && bytes <= sizeof clipped);
    text_clip(text, clipped, bytes);
    return arena_copy(arena, text_of(clipped));
}

/* Skips an unreadable value and leaves *out unset. */
static void read_words(struct json_reader *in, size_t bytes, const char **out)
{
    const struct json_reader_mark mark = json_reader_mark(in);
    const char *why = NULL;
    struct text text;

    must(*out == NULL);
    if (json_read_string(in, &text))
        *out = text.len > 0 ? pod_clip(in->arena, text, bytes) : NULL;
    else
        pass_over(in, mark, &why);
}

void pod_read_scheduler(struct json_reader *in, struct pod *pod)
{
    read_words(in, SCHEDULER_NAME_MAX, &pod->scheduling.scheduler);
}

static const char *const gate_keys[] = {"name"};

static void read_gate(struct json_reader *in, struct text *out)
{
    struct json_read_fields fields = JSON_FIELDS(gate_keys);
    int key;

    *out = TEXT("");
    if (!json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key))
        (void)json_read_string(in, out); /* errors stick */
}

/* A gate without a name counts, too. */
void pod_read_gates(struct json_reader *in, struct pod *pod)
{
    const struct json_reader_mark mark = json_reader_mark(in);
    const char *why = NULL;
    CLEANUP(strbuf_done) struct strbuf gates;
    struct text name;
    bool any = false;

    strbuf_init(&gates);
    if (json_read_array(in))
        while (json_read_element(in)) {
            read_gate(in, &name);
            if (gates.len < GATES_TEXT_MAX) /* clipped */
                strbuf_str(&gates, any ? ", " : "");
            if (gates.len < GATES_TEXT_MAX)
                strbuf_text(&gates, name);
            any = true;
        }
    if (any)
        pod->scheduling.gates =
            pod_clip(in->arena, (struct text){gates.data, gates.len}, GATES_TEXT_MAX);
    if (in->failed)
        pass_over(in, mark, &why);
}

void pod_note_condition(struct arena *arena, struct pod *pod, struct text reason,
                        struct text message, int64_t since_ms)
{
    pod->scheduling.reason = pod_clip(arena, reason, CONDITION_REASON_MAX);
    pod->scheduling.message = pod_clip(arena, message, CONDITION_TEXT_MAX);
    pod->scheduling.since_ms = since_ms > 0 ? since_ms : 0;
}

static const char *const owner_keys[] = {"kind", "name", "uid", "controller"};

/* Only the owner with controller: true counts; at most one has it. */
static void read_owner(struct json_reader *in, struct pod *pod)
{
    struct json_read_fields fields = JSON_FIELDS(owner_keys);
    struct text word[] = {TEXT(""), TEXT(""), TEXT("")};
    bool controls = false;
    int key;

    if (!json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key)) {
        if (key < (int)ARRAY_LEN(word))
            (void)json_read_string(in, &word[key]); /* errors stick */
        else
            (void)json_read_bool(in, &controls);
    }
    if (in->failed || !controls || pod->owner.kind != NULL)
        return;
    pod->owner.kind = pod_clip(in->arena, word[0], OWNER_TEXT_MAX);
    pod->owner.name = pod_clip(in->arena, word[1], OWNER_TEXT_MAX);
    pod->owner.uid = pod_clip(in->arena, word[2], OWNER_TEXT_MAX);
}

void pod_read_owners(struct json_reader *in, struct pod *pod)
{
    const struct json_reader_mark mark = json_reader_mark(in);
    const char *why = NULL;

    if (json_read_array(in))
        while (json_read_element(in))
            read_owner(in, pod);
    if (in->failed)
        pass_over(in, mark, &why);
}

/* Argo Rollouts has its own hash label; StatefulSets and DaemonSets have revision labels. */
bool pod_read_label(struct json_reader *in, struct pod *pod, struct text key)
{
    if (pod->owner.revision == NULL &&
        (text_is(key, "pod-template-hash") || text_is(key, "rollouts-pod-template-hash") ||
         text_is(key, "controller-revision-hash")))
        read_words(in, OWNER_TEXT_MAX, &pod->owner.revision);
    else
        (void)json_read_skip(in); /* the error sticks */
    pod->owner.argo |= text_is(key, "rollouts-pod-template-hash");
    return !in->failed;
}

/* A ReplicaSet "llm-5d4f8" with template hash "5d4f8" is of a Deployment "llm". */
void pod_name_owner(struct arena *arena, struct pod *pod)
{
    struct pod_owner *owner = &pod->owner;

    must((owner->kind == NULL) == (owner->name == NULL));
    if (owner->kind == NULL || owner->revision == NULL || strcmp(owner->kind, "ReplicaSet") != 0)
        return;
    const size_t name = strlen(owner->name);
    const size_t hash = strlen(owner->revision);
    if (name < hash + 2 || strcmp(owner->name + name - hash, owner->revision) != 0 ||
        owner->name[name - hash - 1] != '-')
        return;
    owner->kind = owner->argo ? "Rollout" : "Deployment";
    owner->name = arena_copy(arena, (struct text){owner->name, name - hash - 1});
    owner->uid = NULL;
}
