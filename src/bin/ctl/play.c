/*
 * The command play: creates pods in a standalone cluster and calls filter, prioritize and bind for
 * each, as kube-scheduler does. Called by ctl.c in the only thread. The first part is pure (bodies
 * in, bodies out) and has unit tests; the second schedules one pod after the other; the third reads
 * manifests, node names and settings, all before the first pod is made. Pods are made through the
 * admin listener and placed through the webhook listener, so both addresses are needed. A refusal
 * is an answer; only a failed call makes the exit status 1.
 */
#include "play.h"

#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "manifest.h"

/* --- bodies --- */

/* Nodes is null, as kube-scheduler has it with nodeCacheCapable: true. */
void play_args(struct strbuf *out, const struct doc *pod, const struct doc *names)
{
    must(names->kind == DOC_ARRAY);
    strbuf_str(out, "{\"Pod\":");
    doc_write(out, pod);
    strbuf_str(out, ",\"Nodes\":null,\"NodeNames\":");
    doc_write(out, names);
    strbuf_char(out, '}');
}

static void put_member(struct strbuf *out, const char *key, const char *text)
{
    must(key[0] != '\0');
    strbuf_printf(out, "%s\"%s\":", out->len > 1 ? "," : "", key);
    strbuf_json(out, text_of(text));
}

void play_bind_args(struct strbuf *out, const struct doc *pod, const char *node)
{
    must(out->len == 0);
    strbuf_char(out, '{');
    put_member(out, "PodName", doc_str(pod, "metadata.name"));
    put_member(out, "PodNamespace", doc_str(pod, "metadata.namespace"));
    put_member(out, "PodUID", doc_str(pod, "metadata.uid"));
    put_member(out, "Node", node);
    strbuf_char(out, '}');
}

static bool has_name(const struct doc *names, const char *name)
{
    must(name != NULL);
    doc_each (item, names)
        if (text_is(item->text, name))
            return true;
    return false;
}

/*
 * The extender's score alone: kube-scheduler would add those of its own plugins. A score for a node
 * that was not asked about is ignored.
 */
const char *play_best(const struct doc *scores, const struct doc *names)
{
    const char *found = NULL;
    int64_t best = 0;

    must(names->kind == DOC_ARRAY);
    doc_each (score, scores) {
        const char *host = doc_str(score, "Host");
        const int64_t points = doc_int(score, "Score");
        if ((found == NULL || points > best) && has_name(names, host)) {
            found = host;
            best = points;
        }
    }
    return found;
}

enum { REASONS_MAX = 16 };

struct reason {
    const char *text;
    uint32_t nodes;
};

/* Beyond REASONS_MAX texts are left out: they depend on the request alone, so there are few. */
static size_t count_reasons(const struct doc *map, struct reason *reason, size_t count)
{
    must(count <= REASONS_MAX);
    doc_each (node, map) {
        size_t i = 0;
        while (i < count && strcmp(reason[i].text, node->shown) != 0)
            i++;
        if (i == count && count < REASONS_MAX)
            reason[count++] = (struct reason){.text = node->shown};
        if (i < count)
            reason[i].nodes++;
    }
    return count;
}

static int by_nodes(const void *a, const void *b)
{
    const struct reason *left = a;
    const struct reason *right = b;
    must(left->nodes > 0 && right->nodes > 0);
    if (left->nodes != right->nodes)
        return left->nodes > right->nodes ? -1 : 1;
    return strcmp(left->text, right->text);
}

void play_reasons(struct strbuf *out, const struct doc *answer)
{
    struct reason reason[REASONS_MAX];
    size_t count = count_reasons(doc_get(answer, "FailedNodes"), reason, 0);

    count = count_reasons(doc_get(answer, "FailedAndUnresolvableNodes"), reason, count);
    must(count <= REASONS_MAX);
    if (count == 0)
        strbuf_str(out, "no node, and no reason was given");
    qsort(reason, count, sizeof *reason, by_nodes);
    for (size_t i = 0; i < count; i++) {
        strbuf_printf(out, "%s%u %s: %s", i > 0 ? "; " : "", reason[i].nodes,
                      reason[i].nodes == 1 ? "node" : "nodes", reason[i].text);
    }
}

/* Requests or limits, as kube-scheduler decides whether an extender is interested. */
static bool container_asks(const struct doc *containers, const char *resource)
{
    must(resource[0] != '\0');
    doc_each (container, containers)
        if (doc_get(doc_at(container, "resources.limits"), resource) != NULL ||
            doc_get(doc_at(container, "resources.requests"), resource) != NULL)
            return true;
    return false;
}

bool play_asks(const struct doc *pod, const char *resource)
{
    must(pod != NULL);
    return container_asks(doc_at(pod, "spec.containers"), resource) ||
           container_asks(doc_at(pod, "spec.initContainers"), resource);
}

/* --- scheduling --- */

enum outcome { PLACED, REFUSED, SKIPPED, FAILED, OUTCOMES };

static const char *const outcome_name[OUTCOMES] = {"placed", "refused", "skipped", "failed"};

struct play {
    struct ctl *ctl;
    const char *admin;
    const char *webhook;
    const char *base_path;
    const char *resource;
    struct doc *names;   /* of all nodes */
    struct doc *results; /* an array */
    int width;           /* of the longest name */
    uint32_t count[OUTCOMES];
};

/*
 * Each pod has its line as soon as it is decided; JSON and YAML need all results and are written at
 * the end.
 */
static void play_report(struct play *play, const struct doc *pod, enum outcome outcome,
                        const char *node, const char *text)
{
    struct arena *arena = &play->ctl->arena;
    struct doc *result = doc_new(arena, DOC_OBJECT);
    const char *namespace = doc_shown(pod, "metadata.namespace");
    const char *name = doc_shown(pod, "metadata.name");

    must(outcome < OUTCOMES);
    play->count[outcome]++;
    doc_set_str(arena, result, "namespace", namespace);
    doc_set_str(arena, result, "name", name);
    doc_set_str(arena, result, "outcome", outcome_name[outcome]);
    doc_set_str(arena, result, "node", node);
    doc_set_str(arena, result, "text", text);
    doc_append(play->results, result);
    if (play->ctl->format == FORMAT_NAME && outcome == PLACED)
        (void)fprintf(play->ctl->screen.out, "pod/%s/%s\n", namespace, name);
    if (play->ctl->format == FORMAT_TABLE || play->ctl->format == FORMAT_WIDE)
        (void)fprintf(play->ctl->screen.out, "%-*s  %-7s  %s\n", play->width,
                      arena_printf(arena, "%s/%s", namespace, name), outcome_name[outcome], text);
    /* a line per pod, as it happens; errors are checked at the end */
    (void)fflush(play->ctl->screen.out);
}

static int play_post(struct play *play, const char *base, const char *path,
                     const struct strbuf *body, struct doc **out, struct err *err)
{
    const struct client_request call = {
        .base = base, .method = "POST", .path = path, .body = {body->data, body->len}};
    must(path[0] == '/');
    return client_call(ctl_client(play->ctl), &call, &play->ctl->arena, out, err);
}

static int play_ask(struct play *play, const char *verb, const struct strbuf *body,
                    struct doc **out, struct err *err)
{
    must(verb[0] != '\0');
    const char *path = arena_printf(&play->ctl->arena, "%s/%s", play->base_path, verb);
    return play_post(play, play->webhook, path, body, out, err);
}

/*
 * The pod as it came back, with its uid: kube-scheduler, too, sends what the API server stored.
 */
static int make_pod(struct play *play, const struct doc *pod, struct doc **out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf body;

    must(pod->kind == DOC_OBJECT);
    strbuf_init(&body);
    doc_write(&body, pod);
    if (play_post(play, play->admin, "/api/v1/standalone/pods", &body, out, err) < 0)
        return err_same(err);
    if ((*out)->kind != DOC_OBJECT || doc_shown(*out, "metadata.uid")[0] == '\0')
        return err_set(err, ERR_INTERNAL, "the pod was made, but came back without a uid");
    /* Pods from an informer have neither. */
    doc_remove(*out, "kind");
    doc_remove(*out, "apiVersion");
    return 0;
}

/*
 * An answer with Error, or with a node that was not asked about, ends kube-scheduler's attempt, so
 * it is a failure here, too.
 */
static int play_filter(struct play *play, const struct doc *pod, struct doc **out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf body;

    must(play->names->kind == DOC_ARRAY);
    strbuf_init(&body);
    play_args(&body, pod, play->names);
    if (play_ask(play, "filter", &body, out, err) < 0)
        return err_wrap(err, "filter");
    const char *error = doc_shown(*out, "Error");
    if (error[0] != '\0')
        return err_set(err, ERR_UNAVAILABLE, "filter answered with an error: %.400s", error);
    doc_each (name, doc_get(*out, "NodeNames")) {
        if (!has_name(play->names, name->text.at))
            return err_set(err, ERR_INTERNAL, "filter named %.253s, which it was not asked about",
                           name->text.at);
    }
    return 0;
}

/* kube-scheduler takes the only node without asking, and so does play. */
static int play_choose(struct play *play, const struct doc *pod, const struct doc *names,
                       const char **out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf body;
    struct doc *scores;

    must(names->count > 0);
    strbuf_init(&body);
    *out = names->first->text.at;
    if (names->count == 1)
        return 0;
    play_args(&body, pod, names);
    if (play_ask(play, "prioritize", &body, &scores, err) < 0)
        return err_wrap(err, "prioritize");
    *out = play_best(scores, names);
    if (*out != NULL)
        return 0;
    (void)err_set(err, ERR_INTERNAL, "prioritize gave no score to any node it was asked about");
    return err_same(err);
}

/* Blocks until the Binding has an outcome. */
static int play_bind(struct play *play, const struct doc *pod, const char *node, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf body;
    struct doc *answer;

    must(node != NULL);
    must(node[0] != '\0');
    strbuf_init(&body);
    play_bind_args(&body, pod, node);
    if (play_ask(play, "bind", &body, &answer, err) < 0)
        return err_wrap(err, "bind");
    const char *error = doc_shown(answer, "Error");
    if (error[0] != '\0')
        return err_set(err, ERR_CONFLICT, "bind to %.253s: %.400s", node, error);
    return 0;
}

/* "a100-0 0:300,1:300", from the ledger. */
static const char *play_where(struct play *play, const struct doc *pod, const char *node)
{
    CLEANUP(strbuf_done) struct strbuf text;
    struct doc *view;
    struct err ignored;

    must(node[0] != '\0');
    strbuf_init(&text);
    strbuf_str(&text, "/api/v1/pods/");
    url_escape(&text, doc_str(pod, "metadata.namespace"));
    strbuf_char(&text, '/');
    url_escape(&text, doc_str(pod, "metadata.name"));
    const bool known = ctl_get(play->ctl, text.data, &view, &ignored) == 0;
    strbuf_reset(&text);
    strbuf_printf(&text, "%s", node);
    if (known) {
        strbuf_str(&text, "  GPU:milli ");
        put_charges(&text, doc_get(view, "allocation"));
    }
    return arena_copy(&play->ctl->arena, (struct text){text.data, text.len});
}

/*
 * Makes, filters, binds. *out_node is "" when no node fits, and *out_text says why. A pod that was
 * made stays, whatever happens to it afterwards, as in a cluster.
 */
static int play_schedule(struct play *play, const struct doc *pod, const char **out_node,
                         const char **out_text, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf reasons;
    struct doc *made;
    struct doc *answer;

    must(pod->kind == DOC_OBJECT);
    strbuf_init(&reasons);
    *out_node = "";
    if (make_pod(play, pod, &made, err) < 0 || play_filter(play, made, &answer, err) < 0)
        return err_same(err);
    const struct doc *names = doc_get(answer, "NodeNames");
    if (names == NULL || names->kind != DOC_ARRAY || names->count == 0) {
        play_reasons(&reasons, answer);
        *out_text = arena_copy(&play->ctl->arena, (struct text){reasons.data, reasons.len});
        return 0;
    }
    if (play_choose(play, made, names, out_node, err) < 0 ||
        play_bind(play, made, *out_node, err) < 0)
        return err_same(err);
    *out_text = play_where(play, made, *out_node);
    return 0;
}

static void play_pod(struct play *play, const struct doc *pod)
{
    const char *node = "";
    const char *text = "";
    struct err err;

    must(play->resource[0] != '\0');
    if (!play_asks(pod, play->resource))
        play_report(play, pod, SKIPPED, "",
                    arena_printf(&play->ctl->arena,
                                 "asks for no %s: kube-scheduler places it without asking us",
                                 play->resource));
    else if (play_schedule(play, pod, &node, &text, &err) < 0)
        play_report(play, pod, FAILED, "", arena_printf(&play->ctl->arena, "%s", err.text));
    else
        play_report(play, pod, node[0] != '\0' ? PLACED : REFUSED, node, text);
}

/* --- what scheduling needs --- */

/* Named, so that nobody waits for the pods of a Deployment. */
static void skip_kind(void *user, const char *kind, const char *name)
{
    const struct ctl *ctl = user;
    must(kind[0] != '\0');
    (void)fprintf(ctl->err, "left out: %s %s (only Pods are played)\n", kind, name);
}

/* All files before the first pod: a mistake in the last one must leave nothing behind. */
static int read_manifests(struct play *play, struct doc **out, struct err *err)
{
    struct ctl *ctl = play->ctl;
    const char *namespace = ctl->options.given[OPTION_namespace];
    struct manifest manifest = {
        .arena = &ctl->arena,
        .namespace = namespace != NULL ? namespace : "default",
        .pods = doc_new(&ctl->arena, DOC_ARRAY),
        .user = ctl,
        .skip = skip_kind,
    };

    must(ctl->options.arguments > 0);
    for (size_t i = 0; i < ctl->options.arguments; i++)
        if (manifest_read(&manifest, ctl->options.argument[i], err) < 0)
            return err_same(err);
    doc_each (pod, manifest.pods) {
        const size_t bytes = strlen(doc_shown(pod, "metadata.namespace")) + 1 +
                             strlen(doc_shown(pod, "metadata.name"));
        /* One absurdly long name must not widen every line. */
        if (bytes < 200 && (int)bytes > play->width)
            play->width = (int)bytes;
    }
    *out = manifest.pods;
    return manifest.pods->count > 0 ? 0 : err_set(err, ERR_INVALID, "these files contain no Pod");
}

static int play_read_names(struct play *play, struct err *err)
{
    struct arena *arena = &play->ctl->arena;
    struct doc *nodes;

    must(play->names->count == 0);
    if (ctl_list(play->ctl, "/api/v1/nodes", &nodes, err) < 0)
        return err_same(err);
    doc_each (node, doc_get(nodes, "items")) {
        doc_append(play->names, doc_new_str(arena, text_of(doc_str(node, "name"))));
    }
    return play->names->count > 0 ? 0
                                  : err_set(err, ERR_NOT_FOUND,
                                            "milligpud knows no node: there is nothing to play on");
}

/*
 * kube-scheduler asks an extender only about pods that name its resource (managedResources), and
 * the name is a setting of milligpud.
 */
static int play_read_resource(struct play *play, struct err *err)
{
    struct doc *settings;

    must(play->resource == NULL);
    if (ctl_list(play->ctl, "/api/v1/settings", &settings, err) < 0)
        return err_same(err);
    play->resource = "nvidia.com/vgpu";
    doc_each (setting, doc_get(settings, "items"))
        if (strcmp(doc_str(setting, "name"), "resource") == 0 &&
            doc_str(setting, "value")[0] != '\0')
            play->resource = doc_str(setting, "value");
    return 0;
}

static int find_webhook(struct play *play, struct err *err)
{
    const char *const *given = play->ctl->options.given;
    const char *path = given[OPTION_base_path];
    const char *named = NULL;

    must(play->ctl != NULL);
    if (given[OPTION_webhook] == NULL && ctl_port_file(play->ctl, "webhook", &named, err) < 0)
        return err_same(err);
    play->webhook = given[OPTION_webhook] != NULL ? given[OPTION_webhook] : named;
    if (play->webhook == NULL)
        play->webhook = "127.0.0.1:8910";
    play->base_path = path != NULL ? path : "/scheduler";
    if (play->base_path[0] != '/')
        return err_set(err, ERR_INVALID, "--base-path is %.100s: it begins with /", path);
    return 0;
}

static int play_finish(struct play *play)
{
    struct ctl *ctl = play->ctl;
    struct doc *document = doc_new(&ctl->arena, DOC_OBJECT);

    must(play->results->kind == DOC_ARRAY);
    doc_set(&ctl->arena, document, TEXT("items"), play->results);
    if (!ctl_document(ctl, document) && ctl->format != FORMAT_NAME && ctl->screen.headers) {
        (void)fprintf(ctl->screen.out, "%u placed, %u refused", play->count[PLACED],
                      play->count[REFUSED]);
        if (play->count[SKIPPED] > 0)
            (void)fprintf(ctl->screen.out, ", %u skipped", play->count[SKIPPED]);
        if (play->count[FAILED] > 0)
            (void)fprintf(ctl->screen.out, ", %u failed", play->count[FAILED]);
        (void)fputc('\n', ctl->screen.out); /* judged at the end */
    }
    return play->count[FAILED] > 0 ? CTL_NO : CTL_FINE;
}

/* In a real cluster, each pod fails at its first POST with 404: that route is standalone only. */
int command_play(struct ctl *ctl)
{
    struct play play = {
        .ctl = ctl,
        .names = doc_new(&ctl->arena, DOC_ARRAY),
        .results = doc_new(&ctl->arena, DOC_ARRAY),
    };
    struct doc *pods = NULL;
    struct err err;

    must(ctl->options.arguments > 0);
    if (read_manifests(&play, &pods, &err) < 0 || find_webhook(&play, &err) < 0)
        return ctl_fail(ctl, &err);
    if (ctl_base(ctl, &play.admin, &err) < 0 || play_read_names(&play, &err) < 0 ||
        play_read_resource(&play, &err) < 0)
        return ctl_fail(ctl, &err);
    doc_each (pod, pods)
        play_pod(&play, pod);
    return play_finish(&play);
}
