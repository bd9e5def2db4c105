/*
 * --selector: filters lists by labels of nodes, or of pods in lists of pods. milligpud stores no
 * labels. If milligpud is reached through kubectl, which therefore has the same cluster, the API
 * server evaluates the selector through kubectl. A standalone milligpud shows the objects of its
 * cluster file. Called by the commands that list, in the only thread.
 */
#include <string.h>

#include "milligpu/base/map.h"

#include "ctl.h"
#include "kubectl.h"
#include "label_selector.h"

enum { ANSWER_BYTES_MAX = 64 << 20 }; /* enough for 120,000 names of namespace and pod */

/* True if milligpud is reached through kubectl, so that both have the same cluster. */
static bool comes_by_kubectl(const struct ctl *ctl)
{
    const char *const *given = ctl->options.given;

    must(ctl->options.command != NULL);
    return ctl->plugin && given[OPTION_server] == NULL && given[OPTION_port_file] == NULL &&
           ctl->environment_server == NULL;
}

int ctl_check_selector(struct ctl *ctl, struct err *err)
{
    const char *selector = ctl->options.given[OPTION_selector];
    struct document *rules;

    if (selector == NULL || comes_by_kubectl(ctl)) /* kubectl checks its syntax */
        return 0;
    return label_selector_read(selector, &ctl->arena, &rules, err);
}

/* *out: one name per line, NAME or NAMESPACE/NAME. */
static int ask_kubectl(struct ctl *ctl, enum ctl_selects what, struct strbuf *out, struct err *err)
{
    const char *const *given = ctl->options.given;
    struct kubectl kubectl;

    kubectl_begin(&kubectl, given[OPTION_context], given[OPTION_kubeconfig]);
    kubectl.said_max = ANSWER_BYTES_MAX;
    kubectl_add(&kubectl, "get");
    if (what == SELECT_NODES) {
        kubectl_add(&kubectl, "nodes");
        kubectl_add(&kubectl, "--output=jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{end}");
    } else {
        kubectl_add(&kubectl, "pods");
        kubectl_add(&kubectl, "--all-namespaces");
        kubectl_add(&kubectl, "--output=jsonpath={range .items[*]}{.metadata.namespace}/"
                              "{.metadata.name}{\"\\n\"}{end}");
    }
    kubectl_add(&kubectl, arena_printf(&ctl->arena, "--selector=%s", given[OPTION_selector]));
    return kubectl_run(&kubectl, out, err);
}

/* Collects the names of matching objects. */
struct selecting {
    const struct document *rules;
    enum ctl_selects what;
    struct strbuf *out;
};

static int select_object(void *user, const struct document *object, struct err *err)
{
    const struct selecting *selecting = user;
    struct strbuf *out = selecting->out;

    (void)err; /* cannot fail */
    if (!label_selector_holds(selecting->rules, document_at(object, "metadata.labels")))
        return 0;
    if (selecting->what == SELECT_PODS)
        strbuf_printf(out, "%s/", document_str(object, "metadata.namespace"));
    strbuf_printf(out, "%s\n", document_str(object, "metadata.name"));
    return 0;
}

/* The same names, from a standalone milligpud. */
static int ask_standalone(struct ctl *ctl, enum ctl_selects what, struct strbuf *out,
                          struct err *err)
{
    struct selecting selecting = {.what = what, .out = out};
    const struct client_each list = {what == SELECT_NODES ? "/api/v1/standalone/nodes"
                                                          : "/api/v1/standalone/pods",
                                     &selecting, select_object};
    const char *base;
    struct document *rules;

    if (label_selector_read(ctl->options.given[OPTION_selector], &ctl->arena, &rules, err) < 0 ||
        ctl_base(ctl, &base, err) < 0)
        return err_same(err);
    selecting.rules = rules;
    const int status = client_each(ctl_client(ctl), base, &list, err);
    if (status < 0 && err->code == ERR_NOT_FOUND)
        return err_set(err, ERR_INVALID,
                       "--selector needs labels, which milligpud does not keep: `kubectl "
                       "milligpu`, without a server that is named, asks the API server");
    return status;
}

static const char *name_of_item(struct ctl *ctl, enum ctl_selects what, const struct document *item)
{
    must(item->kind == DOCUMENT_OBJECT);
    return what == SELECT_NODES
               ? document_str(item, "name")
               : arena_printf(&ctl->arena, "%s/%s", document_str(item, "namespace"),
                              document_str(item, "name"));
}

int ctl_select(struct ctl *ctl, enum ctl_selects what, struct document **list, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf lines;
    struct document *items = document_new(&ctl->arena, DOCUMENT_ARRAY);
    struct text rest;
    struct text line;
    struct map chosen;

    strbuf_init(&lines);
    if (ctl->options.given[OPTION_selector] == NULL)
        return 0;
    if ((comes_by_kubectl(ctl) ? ask_kubectl : ask_standalone)(ctl, what, &lines, err) < 0)
        return err_same(err);
    map_init(&chosen);
    rest = (struct text){lines.data, lines.len};
    while (text_cut(&rest, '\n', &line))
        if (line.len > 0)
            (void)map_put(&chosen, line, items);
    document_each (item, document_get(*list, "items"))
        if (map_find(&chosen, text_of(name_of_item(ctl, what, item))) != NULL)
            document_append(items, document_copy(&ctl->arena, item));
    map_done(&chosen);
    document_set(&ctl->arena, *list, TEXT("items"), items);
    return 0;
}
