/*
 * The command play: creates pods in a standalone cluster through the admin listener, runs
 * kube-scheduler's own filters, and calls filter, prioritize and bind of the webhook listener.
 * Called by ctl.c in the only thread. In order: bodies of requests and answers (pure, with unit
 * tests); scheduling one pod after the other; reading manifests, nodes and settings, all before the
 * first pod. A refusal is a result; only a failed call makes the exit status 1.
 */
#include "play.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ctl/commands.h"
#include "ctl/ctl.h"
#include "lab/cluster/admission.h"
#include "lab/cluster/left_out.h"
#include "lab/cluster/manifest.h"
#include "lab/cluster/unconsidered.h"
#include "play_nodes.h"

/* --- bodies --- */

/* Nodes is null, as from kube-scheduler with nodeCacheCapable: true. */
void play_args(struct strbuf *out, const struct document *pod, const struct document *names)
{
    must(names->kind == DOCUMENT_ARRAY);
    strbuf_str(out, "{\"Pod\":");
    document_write(out, pod);
    strbuf_str(out, ",\"Nodes\":null,\"NodeNames\":");
    document_write(out, names);
    strbuf_char(out, '}');
}

static void put_member(struct strbuf *out, const char *key, const char *text)
{
    must(key[0] != '\0');
    strbuf_printf(out, "%s\"%s\":", out->len > 1 ? "," : "", key);
    strbuf_json(out, text_of(text));
}

void play_bind_args(struct strbuf *out, const struct document *pod, const char *node)
{
    must(out->len == 0);
    strbuf_char(out, '{');
    put_member(out, "PodName", document_str(pod, "metadata.name"));
    put_member(out, "PodNamespace", document_str(pod, "metadata.namespace"));
    put_member(out, "PodUID", document_str(pod, "metadata.uid"));
    put_member(out, "Node", node);
    strbuf_char(out, '}');
}

static bool has_name(const struct document *names, const char *name)
{
    must(name != NULL);
    document_each (item, names)
        if (text_is(item->text, name))
            return true;
    return false;
}

/*
 * Uses only the extender's score; kube-scheduler would add those of its own plugins. Ignores scores
 * of other nodes.
 */
const char *play_best(const struct document *scores, const struct document *names)
{
    const char *found = NULL;
    int64_t best = 0;

    must(names->kind == DOCUMENT_ARRAY);
    document_each (score, scores) {
        const char *host = document_str(score, "Host");
        const int64_t points = document_int(score, "Score");
        if ((found == NULL || points > best) && has_name(names, host)) {
            found = host;
            best = points;
        }
    }
    return found;
}

/* Looks at requests and limits, as in kube-scheduler's check of managedResources. */
static bool container_asks(const struct document *containers, const char *resource)
{
    must(resource[0] != '\0');
    document_each (container, containers)
        if (document_get(document_at(container, "resources.limits"), resource) != NULL ||
            document_get(document_at(container, "resources.requests"), resource) != NULL)
            return true;
    return false;
}

bool play_asks(const struct document *pod, const char *resource)
{
    must(pod != NULL);
    return container_asks(document_at(pod, "spec.containers"), resource) ||
           container_asks(document_at(pod, "spec.initContainers"), resource);
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
    struct play_nodes nodes;
    struct admission admission;
    struct arena arena;       /* for the present pod; reset for the next */
    struct document *results; /* an array */
    int width;                /* of the longest name, in columns */
    uint32_t count[OUTCOMES];
    uint32_t wrong;            /* invalid objects, which are not played */
    uint32_t existing;         /* pods that were not made, because they exist */
    const char *existing_path; /* of the first existing pod */
};

/* The result of one pod. */
struct played {
    enum outcome outcome;
    const char *node; /* "" if none */
    const char *text;
    struct document *reasons; /* of a refusal, or NULL; lives for the whole run */
};

/*
 * Prints the line of a pod as soon as it is decided; JSON and YAML are written at the end with all
 * results.
 */
static void play_report(struct play *play, const struct document *pod, const struct played *played)
{
    struct arena *arena = &play->ctl->arena;
    struct document *result = document_new(arena, DOCUMENT_OBJECT);
    const char *namespace = document_shown(pod, "metadata.namespace");
    const char *name = document_shown(pod, "metadata.name");
    const char *outcome = outcome_name[played->outcome];

    must(played->outcome < OUTCOMES);
    play->count[played->outcome]++;
    document_set_str(arena, result, "namespace", namespace);
    document_set_str(arena, result, "name", name);
    document_set_str(arena, result, "outcome", outcome);
    document_set_str(arena, result, "node", played->node);
    document_set_str(arena, result, "text", played->text);
    if (played->reasons != NULL)
        document_set(arena, result, TEXT("reasons"), played->reasons);
    document_append(play->results, result);
    if (play->ctl->format == FORMAT_NAME && played->outcome == PLACED)
        (void)fprintf(play->ctl->screen.out, "pod/%s/%s\n", namespace, name);
    if (play->ctl->format == FORMAT_TABLE || play->ctl->format == FORMAT_WIDE)
        (void)fprintf(play->ctl->screen.out, "%-*s  %-7s  %s\n", play->width,
                      arena_printf(&play->arena, "%s/%s", namespace, name), outcome, played->text);
    /* shows the line immediately; errors are checked in ctl_finish() */
    (void)fflush(play->ctl->screen.out);
}

static int play_post(struct play *play, const char *base, const char *path,
                     const struct strbuf *body, struct document **out, struct err *err)
{
    const struct client_request call = {
        .base = base, .method = "POST", .path = path, .body = {body->data, body->len}};
    must(path[0] == '/');
    return client_call(ctl_client(play->ctl), &call, &play->arena, out, err);
}

static int play_ask(struct play *play, const char *verb, const struct strbuf *body,
                    struct document **out, struct err *err)
{
    must(verb[0] != '\0');
    const char *path = arena_printf(&play->arena, "%s/%s", play->base_path, verb);
    return play_post(play, play->webhook, path, body, out, err);
}

/* *out: the stored pod with its uid, which kube-scheduler, too, gets from the API server. */
static int make_pod(struct play *play, const struct document *pod, struct document **out,
                    struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf body;

    must(pod->kind == DOCUMENT_OBJECT);
    strbuf_init(&body);
    document_write(&body, pod);
    if (play_post(play, play->admin, "/api/v1/standalone/pods", &body, out, err) < 0) {
        if (err->code == ERR_CONFLICT && play->existing++ == 0)
            play->existing_path =
                arena_printf(&play->ctl->arena, "%s/%s", document_shown(pod, "metadata.namespace"),
                             document_shown(pod, "metadata.name"));
        return err_same(err);
    }
    admission_count(&play->admission, *out);
    if ((*out)->kind != DOCUMENT_OBJECT || document_shown(*out, "metadata.uid")[0] == '\0')
        return err_set(err, ERR_INTERNAL, "the pod was made, but came back without a uid");
    /* Pods from kube-scheduler's informer have neither. */
    document_remove(*out, "kind");
    document_remove(*out, "apiVersion");
    return 0;
}

/*
 * An answer with Error, or with a node that was not in the call, ends kube-scheduler's attempt, so
 * it is a failure here, too.
 */
static int play_filter(struct play *play, const struct document *pod, const struct document *names,
                       struct document **out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf body;

    must(names->count > 0);
    strbuf_init(&body);
    play_args(&body, pod, names);
    if (play_ask(play, "filter", &body, out, err) < 0)
        return err_wrap(err, "filter");
    const char *error = document_shown(*out, "Error");
    if (error[0] != '\0')
        return err_set(err, ERR_UNAVAILABLE, "filter answered with an error: %.400s", error);
    document_each (name, document_get(*out, "NodeNames")) {
        if (!has_name(names, name->text.at))
            return err_set(err, ERR_INTERNAL, "filter named %.253s, which it was not asked about",
                           name->text.at);
    }
    return 0;
}

/* A single node is chosen without a call of prioritize, as in kube-scheduler. */
static int play_choose(struct play *play, const struct document *pod, const struct document *names,
                       const char **out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf body;
    struct document *scores;

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
static int play_bind(struct play *play, const struct document *pod, const char *node,
                     struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf body;
    struct document *answer;

    must(node != NULL);
    must(node[0] != '\0');
    strbuf_init(&body);
    play_bind_args(&body, pod, node);
    if (play_ask(play, "bind", &body, &answer, err) < 0)
        return err_wrap(err, "bind");
    const char *error = document_shown(answer, "Error");
    if (error[0] != '\0')
        return err_set(err, ERR_CONFLICT, "bind to %.253s: %.400s", node, error);
    return 0;
}

/* Requests the pod's view from REST. */
static int play_view(struct play *play, const struct document *pod, struct document **out,
                     struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf path;

    strbuf_init(&path);
    strbuf_str(&path, "/api/v1/pods/");
    url_escape(&path, document_str(pod, "metadata.namespace"));
    strbuf_char(&path, '/');
    url_escape(&path, document_str(pod, "metadata.name"));
    must(path.len > 0);
    const struct client_request call = {.base = play->admin, .method = "GET", .path = path.data};
    return client_call(ctl_client(play->ctl), &call, &play->arena, out, err);
}

/* "a100-0 0:300,1:300", with GPUs from the ledger. */
static const char *play_where(struct play *play, const struct document *pod, const char *node)
{
    CLEANUP(strbuf_done) struct strbuf text;
    struct document *view;
    struct err ignored;

    must(node[0] != '\0');
    strbuf_init(&text);
    strbuf_str(&text, node);
    if (play_view(play, pod, &view, &ignored) == 0) {
        strbuf_str(&text, "  GPU:milli ");
        put_charges(&text, document_get(view, "allocation"));
    }
    return arena_copy(&play->arena, (struct text){text.data, text.len});
}

enum { VIEW_TRIES = 100, VIEW_PAUSE_MS = 20 };

/*
 * The view of a waiting pod with all nodes; NULL if not available. Retries, because the view gets
 * the pod from the watch, possibly later than filter, whose call contains it.
 */
static const struct document *play_waiting_view(struct play *play, const struct document *pod)
{
    static const struct timespec pause = {.tv_nsec = VIEW_PAUSE_MS * 1000000L};
    struct document *view;
    struct err ignored;

    must(pod->kind == DOCUMENT_OBJECT);
    for (int i = 0; i < VIEW_TRIES; i++) {
        if (play_view(play, pod, &view, &ignored) == 0) {
            const struct document *nodes = document_get(view, "nodes");
            if (nodes != NULL && nodes->kind == DOCUMENT_ARRAY)
                return view;
        }
        (void)nanosleep(&pause, NULL); /* an early wake-up does no harm */
    }
    return NULL;
}

/*
 * "; the nearest are Tesla-T4, L4": the end of milligpud's sentence about a model that no node has.
 * Not in the reason for kube-scheduler, which must not change with the cluster.
 */
static const char *nearest_models(const struct document *view)
{
    const char *nearest = strstr(document_shown(view, "never"), "; the nearest ");
    return nearest != NULL ? nearest : "";
}

static void play_refused(struct play *play, struct node_reasons *reasons,
                         const struct document *view, struct played *out)
{
    CLEANUP(strbuf_done) struct strbuf text;

    must(reasons->nodes == play->nodes.count);
    strbuf_init(&text);
    reasons_write(reasons, &text);
    strbuf_str(&text, nearest_models(view));
    out->outcome = REFUSED;
    out->text = arena_copy(&play->arena, (struct text){text.data, text.len});
    out->reasons = reasons_document(reasons, &play->ctl->arena);
}

/*
 * Makes, filters and binds a pod. A pod that was made stays in any case, as in a cluster. The
 * extender is called only with nodes that kube-scheduler's own filters leave, if any.
 */
static int play_schedule(struct play *play, const struct document *pod, struct played *out,
                         struct err *err)
{
    struct node_reasons reasons = {.arena = &play->arena};
    struct fit_pod fit;
    struct document *made;
    struct document *answer;

    must(pod->kind == DOCUMENT_OBJECT);
    if (make_pod(play, pod, &made, err) < 0 || fit_pod_read(&play->arena, made, &fit, err) < 0)
        return err_same(err);
    struct document *names = play_nodes_feasible(&play->nodes, &fit, play->resource, &reasons);
    if (names->count == 0) {
        play_refused(play, &reasons, NULL, out);
        return 0;
    }
    if (play_filter(play, made, names, &answer, err) < 0)
        return err_same(err);
    const struct document *left = document_get(answer, "NodeNames");
    if (left == NULL || left->kind != DOCUMENT_ARRAY || left->count == 0) {
        const bool counted = reasons_are_counted(names, answer);
        const bool named = document_get(document_at(made, "metadata.annotations"),
                                        "milligpu.io/gpu-model") != NULL;
        const struct document *view = counted && !named ? NULL : play_waiting_view(play, made);
        reasons_take(&reasons, names, answer, counted ? NULL : document_get(view, "nodes"));
        play_refused(play, &reasons, view, out);
        return 0;
    }
    if (play_choose(play, made, left, &out->node, err) < 0 ||
        play_bind(play, made, out->node, err) < 0)
        return err_same(err);
    play_nodes_take(&play->nodes, out->node, &fit);
    out->outcome = PLACED;
    out->text = play_where(play, made, out->node);
    return 0;
}

/* Why kube-scheduler would not ask about the pod; NULL if it would. */
static const char *play_unasked(struct play *play, const struct document *pod)
{
    const struct document *gates = document_at(pod, "spec.schedulingGates");
    const char *node = document_shown(pod, "spec.nodeName");

    must(play->resource[0] != '\0');
    if (!play_asks(pod, play->resource))
        return arena_printf(&play->arena,
                            "asks for no %s: kube-scheduler places it without asking us",
                            play->resource);
    if (node[0] != '\0')
        return arena_printf(
            &play->arena, "spec.nodeName is %s: its kubelet takes it without any scheduler", node);
    if (gates != NULL && gates->kind == DOCUMENT_ARRAY && gates->count > 0)
        return "spec.schedulingGates: kube-scheduler waits until they are removed";
    return NULL;
}

/* Makes a pod, with the defaults of LimitRanges. */
static struct document *play_make(struct play *play, const struct pod_maker *workload, uint32_t at)
{
    struct document *pod = pod_maker_pod(&play->arena, workload, at);

    must(at == 0 || at < workload->pods);
    admission_fill(&play->admission, &play->arena, pod);
    return pod;
}

static enum outcome play_pod(struct play *play, const struct document *pod)
{
    struct played played = {.outcome = SKIPPED, .node = ""};
    struct err err;

    must(play->resource != NULL);
    played.text = play_unasked(play, pod);
    if (played.text == NULL && admission_review(&play->admission, pod, &err) < 0) {
        played.outcome = REFUSED;
        played.text = arena_printf(&play->arena, "not created: %s", err.text);
    }
    if (played.text == NULL && play_schedule(play, pod, &played, &err) < 0) {
        played = (struct played){
            .outcome = FAILED,
            .node = "",
            .text = arena_printf(&play->arena, "%s", err.text),
        };
    }
    must(played.text != NULL);
    play_report(play, pod, &played);
    return played.outcome;
}

/*
 * Plays the pods of a workload. An ordered StatefulSet makes a pod only when the previous one runs,
 * so pods after a refused one are not made.
 */
static void play_workload(struct play *play, const struct pod_maker *workload)
{
    const char *stuck = NULL; /* refused pod that the next one waits for */

    must(workload->pods <= WORKLOAD_PODS_MAX);
    for (uint32_t i = 0; i < workload->pods; i++) {
        arena_reset(&play->arena);
        const struct document *pod = play_make(play, workload, i);
        if (stuck != NULL) {
            const struct played waits = {
                .outcome = SKIPPED,
                .node = "",
                .text = arena_printf(&play->arena,
                                     "not made: %s does not run, and podManagementPolicy is "
                                     "OrderedReady",
                                     stuck),
            };
            play_report(play, pod, &waits);
            continue;
        }
        const enum outcome outcome = play_pod(play, pod);
        if (workload->ordered && (outcome == REFUSED || outcome == FAILED))
            stuck = arena_copy(&play->ctl->arena, text_of(document_shown(pod, "metadata.name")));
    }
}

/* --- what scheduling needs --- */

/* Reports an invalid object; others are played, and the exit status is a failure. */
static void play_wrong(struct play *play, const char *text)
{
    must(text[0] != '\0');
    (void)fprintf(play->ctl->err, "milligpuctl: %s\n", text);
    play->wrong++;
}

/* The context of manifest.h's callbacks. */
struct play_reading {
    struct play *play;
    struct left_out_list left_out;
};

static void reading_skip(void *user, const char *kind, const char *name, const char *why)
{
    struct play_reading *reading = user;

    must(reading->play != NULL);
    left_out_add(&reading->left_out, kind, name, why);
}

static void reading_wrong(void *user, const char *text)
{
    const struct play_reading *reading = user;

    must(reading->play != NULL);
    play_wrong(reading->play, text);
}

static bool reading_other(void *user, const struct document *object)
{
    const struct play_reading *reading = user;
    struct play *play = reading->play;
    struct err err;

    if (!admission_is_rule(object))
        return false;
    must(play->admission.arena != NULL);
    if (admission_add(&play->admission, object, &err) < 0)
        play_wrong(play,
                   arena_printf(&play->ctl->arena, "%s %s: %s", document_shown(object, "kind"),
                                document_shown(object, "metadata.name"), err.text));
    return true;
}

/* Reads all files before the first pod, so that an invalid file leaves no pods behind. */
static int read_manifests(struct play *play, struct manifest *out, struct err *err)
{
    struct ctl *ctl = play->ctl;
    const char *namespace = ctl->options.given[OPTION_namespace];
    struct play_reading reading = {.play = play, .left_out = {.arena = &ctl->arena}};
    int status = 0;

    must(ctl->options.n_arguments > 0);
    *out = (struct manifest){
        .arena = &ctl->arena,
        .namespace = namespace != NULL ? namespace : "default",
        .user = &reading,
        .skip = reading_skip,
        .wrong = reading_wrong,
        .other = reading_other,
    };
    play->admission = (struct admission){.arena = &ctl->arena, .namespace = out->namespace};
    for (size_t i = 0; i < ctl->options.n_arguments && status == 0; i++)
        status = manifest_read(out, ctl->options.argument[i], err);
    if (status == 0)
        manifest_finish(out);
    left_out_say(&reading.left_out, ctl->err);
    out->user = NULL; /* a local; no more callbacks follow */
    return status;
}

static int need_workload(const struct manifest *manifest, struct err *err)
{
    must(manifest->arena != NULL);
    if (manifest->workloads > 0)
        return 0;
    return err_set(err, ERR_INVALID, "these files contain no Pod, and nothing that makes one");
}

/* Limits the width, so that one very long name does not widen every line. */
static void play_widen(struct play *play, const struct document *pod)
{
    const size_t bytes = strlen(document_shown(pod, "metadata.namespace")) + 1 +
                         strlen(document_shown(pod, "metadata.name"));
    must(bytes > 0);
    if (bytes < 200 && (int)bytes > play->width)
        play->width = (int)bytes;
}

/* Fails if an API server would refuse the pods of this workload. */
static int check_workload(struct play *play, const struct pod_maker *workload, struct err *err)
{
    struct document *pod = play_make(play, workload, 0);
    struct fit_pod ignored;
    struct err inner;

    must(workload->word[0] != '\0');
    if (fit_pod_read(&play->arena, pod, &ignored, &inner) == 0 && admission_check(pod, &inner) == 0)
        return 0;
    return err_set(err, ERR_INVALID, "%.63s %.63s/%.253s: %s%s", workload->word,
                   workload->namespace, workload->name, workload->prefix, inner.text);
}

/* Leaves out objects that an API server would refuse, before the first pod is made. */
static void play_check(struct play *play, struct manifest *manifest)
{
    struct pod_maker **at = &manifest->first;
    struct err err;

    manifest->last = NULL;
    while (*at != NULL) {
        struct pod_maker *workload = *at;
        arena_reset(&play->arena);
        if (check_workload(play, workload, &err) < 0) {
            play_wrong(play, err.text);
            must(manifest->workloads > 0);
            manifest->workloads--;
            manifest->pods -= workload->pods;
            *at = workload->next;
            continue;
        }
        if (workload->pods > 0)
            play_widen(play, pod_maker_pod(&play->arena, workload, workload->pods - 1));
        manifest->last = workload;
        at = &workload->next;
    }
}

/* Gives each DaemonSet a pod for each node that permits it. */
static int spread_daemons(struct play *play, struct manifest *manifest, struct err *err)
{
    for (struct pod_maker *at = manifest->first; at != NULL; at = at->next) {
        struct fit_pod fit;
        struct err inner;
        const char *const *node = NULL;
        if (at->kind != WORKLOAD_DAEMON_SET)
            continue;
        arena_reset(&play->arena);
        if (fit_pod_read(&play->arena, play_make(play, at, 0), &fit, &inner) < 0)
            continue; /* reported by play_check() */
        const size_t nodes = play_nodes_matching(&play->nodes, &fit, &play->ctl->arena, &node);
        if (nodes > WORKLOAD_PODS_MAX - manifest->pods)
            return err_set(err, ERR_TOO_LARGE,
                           "DaemonSet %.63s/%.253s: its %zu pods and the %u others are too many: "
                           "play makes at most %d",
                           at->namespace, at->name, nodes, (unsigned)manifest->pods,
                           WORKLOAD_PODS_MAX);
        must(at->pods == 0);
        at->node = nodes > 0 ? node : NULL;
        at->pods = (uint32_t)nodes;
        at->note = arena_printf(&play->ctl->arena, "%zu pod%s, one for each node that lets it",
                                nodes, nodes == 1 ? "" : "s");
        manifest->pods += at->pods;
    }
    return 0;
}

/*
 * Reads the resource from milligpud's settings: kube-scheduler asks an extender only about pods
 * that name its resource (managedResources).
 */
static int play_read_resource(struct play *play, struct err *err)
{
    struct document *settings;

    must(play->resource == NULL);
    if (ctl_list(play->ctl, "/api/v1/settings", &settings, err) < 0)
        return err_same(err);
    play->resource = "nvidia.com/vgpu";
    document_each (setting, document_get(settings, "items"))
        if (strcmp(document_str(setting, "name"), "resource") == 0 &&
            document_str(setting, "value")[0] != '\0')
            play->resource = document_str(setting, "value");
    return 0;
}

/*
 * The address of the webhooks from the summary. For an address of all interfaces, the host of the
 * admin listener is used.
 */
static const char *webhook_of_summary(struct play *play)
{
    struct document *summary;
    struct err ignored;

    must(play->admin != NULL);
    if (ctl_get(play->ctl, "/api/v1/summary", &summary, &ignored) < 0)
        return NULL;
    const char *address = document_str(summary, "webhookAddress");
    const char *port = strrchr(address, ':');
    if (port == NULL)
        return NULL;
    if (!text_starts(text_of(address), "0.0.0.0:") && !text_starts(text_of(address), "[::]:"))
        return arena_copy(&play->ctl->kept, text_of(address));
    const char *scheme = strstr(play->admin, "://");
    const char *host = scheme != NULL ? scheme + strlen("://") : play->admin;
    const char *end = strrchr(host, ':');
    const int bytes = (int)(end != NULL ? (size_t)(end - host) : strlen(host));
    return arena_printf(&play->ctl->kept, "%.*s%s", bytes, host, port);
}

/* Tries sources from the most explicit one to the default. */
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
        play->webhook = webhook_of_summary(play);
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
    struct document *document = document_new(&ctl->arena, DOCUMENT_OBJECT);

    must(play->results->kind == DOCUMENT_ARRAY);
    document_set(&ctl->arena, document, TEXT("items"), play->results);
    if (!ctl_document(ctl, document) && ctl->format != FORMAT_NAME && ctl->screen.headers) {
        (void)fprintf(ctl->screen.out, "%u placed, %u refused", play->count[PLACED],
                      play->count[REFUSED]);
        if (play->count[SKIPPED] > 0)
            (void)fprintf(ctl->screen.out, ", %u skipped", play->count[SKIPPED]);
        if (play->count[FAILED] > 0)
            (void)fprintf(ctl->screen.out, ", %u failed", play->count[FAILED]);
        if (play->wrong > 0)
            (void)fprintf(ctl->screen.out, ", %u object%s not played", play->wrong,
                          play->wrong == 1 ? "" : "s");
        (void)fputc('\n', ctl->screen.out); /* checked in ctl_finish() */
    }
    if (play->existing > 0)
        (void)fprintf(ctl->err,
                      "milligpuctl: %u pod%s there already, from an earlier run; to remove a pod: "
                      "curl -X DELETE %s%s/api/v1/standalone/pods/%s\n",
                      play->existing, play->existing == 1 ? " is" : "s are",
                      strstr(play->admin, "://") != NULL ? "" : "http://", play->admin,
                      play->existing_path);
    return play->count[FAILED] > 0 || play->wrong > 0 ? CTL_NO : CTL_FINE;
}

/*
 * Reports the unsupported parts of objects, and rules that are not considered: once for each rule,
 * and only for pods that are played.
 */
static void play_report_unsupported(struct play *play, const struct manifest *manifest)
{
    struct rule_users users[UNCONSIDEREDS] = {{.count = 0}};
    struct err ignored;

    must(play->resource != NULL);
    for (const struct pod_maker *at = manifest->first; at != NULL; at = at->next) {
        struct fit_pod fit;
        if (at->note != NULL)
            (void)fprintf(play->ctl->err, "%s %s/%s: %s\n", at->word, at->namespace, at->name,
                          at->note);
        arena_reset(&play->arena);
        const struct document *pod = play_make(play, at, 0);
        if (at->pods == 0 || play_unasked(play, pod) != NULL ||
            fit_pod_read(&play->arena, pod, &fit, &ignored) < 0)
            continue;
        uint32_t bits = unconsidered_of(pod);
        if (at->has_claims)
            bits |= 1U << UNCONSIDERED_VOLUMES;
        if (play_nodes_avoided(&play->nodes, &fit))
            bits |= 1U << UNCONSIDERED_PREFER_NO_SCHEDULE;
        for (unsigned i = 0; i < UNCONSIDEREDS; i++)
            if ((bits >> i & 1) != 0)
                rule_users_add(&users[i], at);
    }
    for (unsigned i = 0; i < UNCONSIDEREDS; i++)
        rule_users_say(&users[i], unconsidered_text((enum unconsidered)i), play->ctl->err);
    admission_say(&play->admission, true, play->ctl->err);
}

static int count_pod(void *user, const struct document *pod, struct err *err)
{
    must(pod != NULL);
    (void)err; /* cannot fail */
    admission_count(user, pod);
    return 0;
}

/* Adds existing pods to the usage of quotas. */
static int count_pods(struct play *play, struct err *err)
{
    const struct client_each all = {"/api/v1/standalone/pods", &play->admission, count_pod};

    must(play->admin != NULL);
    if (play->admission.quota == NULL)
        return 0;
    return client_each(ctl_client(play->ctl), play->admin, &all, err);
}

static int play_all(struct play *play, struct err *err)
{
    struct manifest manifest;

    must(play->nodes.count == 0);
    if (read_manifests(play, &manifest, err) < 0 || need_workload(&manifest, err) < 0 ||
        ctl_base(play->ctl, &play->admin, err) < 0 || find_webhook(play, err) < 0 ||
        play_nodes_fetch(&play->nodes, ctl_client(play->ctl), play->admin, err) < 0 ||
        play_read_resource(play, err) < 0 || count_pods(play, err) < 0 ||
        spread_daemons(play, &manifest, err) < 0)
        return err_same(err);
    play_check(play, &manifest);
    if (need_workload(&manifest, err) < 0)
        return err_same(err);
    play_report_unsupported(play, &manifest);
    for (const struct pod_maker *at = manifest.first; at != NULL; at = at->next)
        play_workload(play, at);
    return 0;
}

/* Fails at the first request in a real cluster: nodes are served in standalone mode only. */
int command_play(struct ctl *ctl)
{
    struct play play = {.ctl = ctl, .results = document_new(&ctl->arena, DOCUMENT_ARRAY)};
    struct err err;

    must(ctl->options.n_arguments > 0);
    arena_init(&play.arena);
    play_nodes_init(&play.nodes, &ctl->arena);
    const int status = play_all(&play, &err) < 0 ? ctl_fail(ctl, &err) : play_finish(&play);
    play_nodes_done(&play.nodes);
    arena_done(&play.arena);
    return status;
}
