/*
 * The command play: creates pods in a standalone cluster and calls filter, prioritize and bind for
 * each, as kube-scheduler does.  Called by ctl.c.
 */
#include "play.h"

#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "manifest.h"

/* --- bodies --- */

void play_args(struct strbuf *out, const struct value *pod, const struct value *names)
{
    must(names->kind == VALUE_ARRAY);
    strbuf_str(out, "{\"Pod\":");
    value_write_json(out, pod);
    strbuf_str(out, ",\"Nodes\":null,\"NodeNames\":");
    value_write_json(out, names);
    strbuf_char(out, '}');
}

static void put_member(struct strbuf *out, const char *key, const char *text)
{
    must(key[0] != '\0');
    strbuf_printf(out, "%s\"%s\":", out->len > 1 ? "," : "", key);
    strbuf_json(out, text_of(text));
}

void play_bind_args(struct strbuf *out, const struct value *pod, const char *node)
{
    must(out->len == 0);
    strbuf_char(out, '{');
    put_member(out, "PodName", value_str(pod, "metadata.name"));
    put_member(out, "PodNamespace", value_str(pod, "metadata.namespace"));
    put_member(out, "PodUID", value_str(pod, "metadata.uid"));
    put_member(out, "Node", node);
    strbuf_char(out, '}');
}

static bool has_name(const struct value *names, const char *name)
{
    must(name != NULL);
    value_each(item, names) if (text_is(item->text, name)) return true;
    return false;
}

const char *play_best(const struct value *scores, const struct value *names)
{
    const char *found = NULL;
    int64_t best = 0;

    must(names->kind == VALUE_ARRAY);
    value_each(score, scores)
    {
        const char *host = value_str(score, "Host");
        const int64_t points = value_int(score, "Score");
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

static size_t count_reasons(const struct value *map, struct reason *reason, size_t count)
{
    must(count <= REASONS_MAX);
    value_each(node, map)
    {
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

void play_reasons(struct strbuf *out, const struct value *answer)
{
    struct reason reason[REASONS_MAX];
    size_t count = count_reasons(value_get(answer, "FailedNodes"), reason, 0);

    count = count_reasons(value_get(answer, "FailedAndUnresolvableNodes"), reason, count);
    must(count <= REASONS_MAX);
    if (count == 0)
        strbuf_str(out, "no node, and no reason was given");
    qsort(reason, count, sizeof *reason, by_nodes);
    for (size_t i = 0; i < count; i++) {
        strbuf_printf(out, "%s%u %s: %s", i > 0 ? "; " : "", reason[i].nodes,
                      reason[i].nodes == 1 ? "node" : "nodes", reason[i].text);
    }
}

static bool container_asks(const struct value *containers, const char *resource)
{
    must(resource[0] != '\0');
    value_each(container, containers) if (value_get(value_at(container, "resources.limits"),
                                                    resource) != NULL ||
                                          value_get(value_at(container, "resources.requests"),
                                                    resource) != NULL) return true;
    return false;
}

bool play_asks(const struct value *pod, const char *resource)
{
    must(pod != NULL);
    return container_asks(value_at(pod, "spec.containers"), resource) ||
           container_asks(value_at(pod, "spec.initContainers"), resource);
}

/* --- the game --- */

enum outcome { PLACED, REFUSED, SKIPPED, FAILED, OUTCOMES };

static const char *const outcome_name[OUTCOMES] = {"placed", "refused", "skipped", "failed"};

struct play {
    struct ctl *ctl;
    const char *admin;
    const char *webhook;
    const char *base_path;
    const char *resource;
    struct value *names;   /* of all nodes */
    struct value *results; /* an array */
    int width;             /* of the longest name */
    uint32_t count[OUTCOMES];
};

static void report(struct play *play, const struct value *pod, enum outcome outcome,
                   const char *node, const char *text)
{
    struct arena *arena = &play->ctl->arena;
    struct value *result = value_new(arena, VALUE_OBJECT);
    const char *namespace = value_str(pod, "metadata.namespace");
    const char *name = value_str(pod, "metadata.name");

    must(outcome < OUTCOMES);
    play->count[outcome]++;
    value_set_str(arena, result, "namespace", namespace);
    value_set_str(arena, result, "name", name);
    value_set_str(arena, result, "outcome", outcome_name[outcome]);
    value_set_str(arena, result, "node", node);
    value_set_str(arena, result, "text", text);
    value_append(play->results, result);
    if (play->ctl->format == FORMAT_NAME && outcome == PLACED)
        (void)fprintf(play->ctl->screen.out, "pod/%s/%s\n", namespace, name);
    if (play->ctl->format == FORMAT_TABLE || play->ctl->format == FORMAT_WIDE)
        (void)fprintf(play->ctl->screen.out, "%-*s  %-7s  %s\n", play->width,
                      arena_printf(arena, "%s/%s", namespace, name), outcome_name[outcome], text);
    (void)fflush(play->ctl->screen.out); /* a line per pod, as it happens; judged at the end */
}

static int post(struct play *play, const char *base, const char *path, const struct strbuf *body,
                struct value **out, struct err *err)
{
    const struct call call = {
        .base = base, .method = "POST", .path = path, .body = {body->data, body->len}};
    must(path[0] == '/');
    return client_call(ctl_client(play->ctl), &call, &play->ctl->arena, out, err);
}

static int ask(struct play *play, const char *verb, const struct strbuf *body, struct value **out,
               struct err *err)
{
    must(verb[0] != '\0');
    const char *path = arena_printf(&play->ctl->arena, "%s/%s", play->base_path, verb);
    return post(play, play->webhook, path, body, out, err);
}

static int make_pod(struct play *play, const struct value *pod, struct value **out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf body;

    must(pod->kind == VALUE_OBJECT);
    strbuf_init(&body);
    value_write_json(&body, pod);
    if (post(play, play->admin, "/api/v1/standalone/pods", &body, out, err) < 0)
        return same_err(err);
    if ((*out)->kind != VALUE_OBJECT || value_str(*out, "metadata.uid")[0] == '\0')
        return err_set(err, ERR_INTERNAL, "the pod was made, but came back without a uid");
    /* An informer's pods carry neither. */
    value_remove(*out, "kind");
    value_remove(*out, "apiVersion");
    return 0;
}

static int filter(struct play *play, const struct value *pod, struct value **out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf body;

    must(play->names->kind == VALUE_ARRAY);
    strbuf_init(&body);
    play_args(&body, pod, play->names);
    if (ask(play, "filter", &body, out, err) < 0)
        return err_wrap(err, "filter");
    const char *error = value_str(*out, "Error");
    if (error[0] != '\0')
        return err_set(err, ERR_UNAVAILABLE, "filter answered with an error: %.400s", error);
    value_each(name, value_get(*out, "NodeNames"))
    {
        if (!has_name(play->names, name->text.at))
            return err_set(err, ERR_INTERNAL, "filter named %.253s, which it was not asked about",
                           name->text.at);
    }
    return 0;
}

/* kube-scheduler takes the only node without a question, and so do we. */
static int choose(struct play *play, const struct value *pod, const struct value *names,
                  const char **out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf body;
    struct value *scores;

    must(names->count > 0);
    strbuf_init(&body);
    *out = names->first->text.at;
    if (names->count == 1)
        return 0;
    play_args(&body, pod, names);
    if (ask(play, "prioritize", &body, &scores, err) < 0)
        return err_wrap(err, "prioritize");
    *out = play_best(scores, names);
    if (*out != NULL)
        return 0;
    (void)err_set(err, ERR_INTERNAL, "prioritize gave no score to any node it was asked about");
    return same_err(err);
}

static int bind_pod(struct play *play, const struct value *pod, const char *node, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf body;
    struct value *answer;

    must(node != NULL);
    must(node[0] != '\0');
    strbuf_init(&body);
    play_bind_args(&body, pod, node);
    if (ask(play, "bind", &body, &answer, err) < 0)
        return err_wrap(err, "bind");
    const char *error = value_str(answer, "Error");
    if (error[0] != '\0')
        return err_set(err, ERR_CONFLICT, "bind to %.253s: %.400s", node, error);
    return 0;
}

/* "a100-0 0:300,1:300", from the ledger. */
static const char *where(struct play *play, const struct value *pod, const char *node)
{
    CLEANUP(strbuf_done) struct strbuf text;
    struct value *view;
    struct err ignored;

    must(node[0] != '\0');
    strbuf_init(&text);
    strbuf_str(&text, "/api/v1/pods/");
    url_escape(&text, value_str(pod, "metadata.namespace"));
    strbuf_char(&text, '/');
    url_escape(&text, value_str(pod, "metadata.name"));
    const bool known = ctl_get(play->ctl, text.data, &view, &ignored) == 0;
    strbuf_reset(&text);
    strbuf_printf(&text, "%s", node);
    if (known) {
        strbuf_str(&text, "  GPU:milli ");
        put_charges(&text, value_get(view, "allocation"));
    }
    return arena_copy(&play->ctl->arena, (struct text){text.data, text.len});
}

/* Makes, filters, binds.  *out_node is "" when no node fits, and *out_text says why. */
static int schedule(struct play *play, const struct value *pod, const char **out_node,
                    const char **out_text, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf reasons;
    struct value *made;
    struct value *answer;

    must(pod->kind == VALUE_OBJECT);
    strbuf_init(&reasons);
    *out_node = "";
    if (make_pod(play, pod, &made, err) < 0 || filter(play, made, &answer, err) < 0)
        return same_err(err);
    const struct value *names = value_get(answer, "NodeNames");
    if (names == NULL || names->kind != VALUE_ARRAY || names->count == 0) {
        play_reasons(&reasons, answer);
        *out_text = arena_copy(&play->ctl->arena, (struct text){reasons.data, reasons.len});
        return 0;
    }
    if (choose(play, made, names, out_node, err) < 0 || bind_pod(play, made, *out_node, err) < 0)
        return same_err(err);
    *out_text = where(play, made, *out_node);
    return 0;
}

static void play_pod(struct play *play, const struct value *pod)
{
    const char *node = "";
    const char *text = "";
    struct err err;

    must(play->resource[0] != '\0');
    if (!play_asks(pod, play->resource))
        report(play, pod, SKIPPED, "",
               arena_printf(&play->ctl->arena,
                            "asks for no %s: kube-scheduler places it without asking us",
                            play->resource));
    else if (schedule(play, pod, &node, &text, &err) < 0)
        report(play, pod, FAILED, "", arena_printf(&play->ctl->arena, "%s", err.text));
    else
        report(play, pod, node[0] != '\0' ? PLACED : REFUSED, node, text);
}

/* --- what the game needs --- */

static void skip_kind(void *user, const char *kind, const char *name)
{
    const struct ctl *ctl = user;
    must(kind[0] != '\0');
    (void)fprintf(ctl->err, "left out: %s %s (only Pods are played)\n", kind, name);
}

static int read_manifests(struct play *play, struct value **out, struct err *err)
{
    struct ctl *ctl = play->ctl;
    const char *namespace = ctl->options.given[OPTION_namespace];
    struct manifest manifest = {
        .arena = &ctl->arena,
        .namespace = namespace != NULL ? namespace : "default",
        .pods = value_new(&ctl->arena, VALUE_ARRAY),
        .user = ctl,
        .skip = skip_kind,
    };

    must(ctl->options.arguments > 0);
    for (size_t i = 0; i < ctl->options.arguments; i++)
        if (manifest_read(&manifest, ctl->options.argument[i], err) < 0)
            return same_err(err);
    value_each(pod, manifest.pods)
    {
        const size_t bytes = strlen(value_str(pod, "metadata.namespace")) + 1 +
                             strlen(value_str(pod, "metadata.name"));
        if (bytes < 200 && (int)bytes > play->width)
            play->width = (int)bytes;
    }
    *out = manifest.pods;
    return manifest.pods->count > 0 ? 0
                                    : err_set(err, ERR_INVALID, "there is no Pod in these files");
}

static int read_names(struct play *play, struct err *err)
{
    struct arena *arena = &play->ctl->arena;
    struct value *nodes;

    must(play->names->count == 0);
    if (ctl_list(play->ctl, "/api/v1/nodes", &nodes, err) < 0)
        return same_err(err);
    value_each(node, value_get(nodes, "items"))
    {
        value_append(play->names, value_new_string(arena, text_of(value_str(node, "name"))));
    }
    return play->names->count > 0 ? 0
                                  : err_set(err, ERR_NOT_FOUND,
                                            "milligpud knows no node: there is nothing to play on");
}

/* kube-scheduler asks an extender only about pods that name its resource. */
static int read_resource(struct play *play, struct err *err)
{
    struct value *settings;

    must(play->resource == NULL);
    if (ctl_list(play->ctl, "/api/v1/settings", &settings, err) < 0)
        return same_err(err);
    play->resource = "nvidia.com/vgpu";
    value_each(setting, value_get(settings, "items")) if (strcmp(value_str(setting, "name"),
                                                                 "resource") == 0 &&
                                                          value_str(setting, "value")[0] != '\0')
        play->resource = value_str(setting, "value");
    return 0;
}

static int find_webhook(struct play *play, struct err *err)
{
    const char *const *given = play->ctl->options.given;
    const char *path = given[OPTION_base_path];
    const char *named = NULL;

    must(play->ctl != NULL);
    if (given[OPTION_webhook] == NULL && ctl_port_file(play->ctl, "webhook", &named, err) < 0)
        return same_err(err);
    play->webhook = given[OPTION_webhook] != NULL ? given[OPTION_webhook] : named;
    if (play->webhook == NULL)
        play->webhook = "127.0.0.1:8910";
    play->base_path = path != NULL ? path : "/scheduler";
    if (play->base_path[0] != '/')
        return err_set(err, ERR_INVALID, "--base-path is %.100s: it begins with /", path);
    return 0;
}

static int finish(struct play *play)
{
    struct ctl *ctl = play->ctl;
    struct value *document = value_new(&ctl->arena, VALUE_OBJECT);

    must(play->results->kind == VALUE_ARRAY);
    value_set(&ctl->arena, document, "items", play->results);
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

int command_play(struct ctl *ctl)
{
    struct play play = {
        .ctl = ctl,
        .names = value_new(&ctl->arena, VALUE_ARRAY),
        .results = value_new(&ctl->arena, VALUE_ARRAY),
    };
    struct value *pods = NULL;
    struct err err;

    must(ctl->options.arguments > 0);
    if (read_manifests(&play, &pods, &err) < 0 || find_webhook(&play, &err) < 0)
        return ctl_fail(ctl, &err);
    if (ctl_base(ctl, &play.admin, &err) < 0 || read_names(&play, &err) < 0 ||
        read_resource(&play, &err) < 0)
        return ctl_fail(ctl, &err);
    value_each(pod, pods) play_pod(&play, pod);
    return finish(&play);
}
