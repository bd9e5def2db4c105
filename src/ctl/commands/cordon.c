/*
 * The commands cordon and uncordon. milligpud has no permission to write Nodes, so kubectl writes
 * the annotation, as its user. kubectl also reads the annotation first, because milligpud shows no
 * absent GPUs and possibly lags behind. The Node's uid proves that both use the same cluster; its
 * resourceVersion detects concurrent writes. kubelet and agents write to Nodes often: after a
 * conflict, the change is computed again.
 */
#include "cordon.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/limits.h"

#include "ctl/commands.h"
#include "ctl/ctl.h"
#include "ctl/kubectl.h"
#include "gpu_name.h"

#define ANNOTATION "milligpu.io/cordon"

enum {
    TRIES_MAX = 6,
    WRITE_AGAIN = -1, /* in addition to the exit statuses of ctl.h */
};

/* --- what the value becomes --- */

/* True if all characters are valid in NVIDIA_VISIBLE_DEVICES, as those of ids of GPUs are. */
static bool is_entry(struct text entry)
{
    for (size_t i = 0; i < entry.len; i++)
        if (entry.at[i] <= ' ' || entry.at[i] > '~')
            return false;
    return true;
}

/* Appends the entry unless the list has it. */
static void add_entry(struct strbuf *list, struct text entry)
{
    struct text rest = {list->data, list->len};
    struct text other;

    must(entry.len > 0);
    while (text_cut(&rest, ',', &other))
        if (text_eq(other, entry))
            return;
    if (list->len > 0)
        strbuf_char(list, ',');
    strbuf_text(list, entry);
}

/* True if the entry is the GPU's id, or the id (by index) that it had before its UUID was known. */
static bool names_gpu(struct text entry, const struct cordon_change *change,
                      const struct document *gpu)
{
    char made_up[NAME_BYTES_MAX + 32];

    (void)snprintf(made_up, sizeof made_up, "%.*s/gpu-%lld", NAME_BYTES_MAX,
                   document_shown(change->node, "name"), (long long)document_int(gpu, "index"));
    return text_is(entry, document_shown(gpu, "id")) || text_is(entry, made_up);
}

static bool is_chosen(struct text entry, const struct cordon_change *change)
{
    for (size_t i = 0; i < change->n_gpus; i++)
        if (names_gpu(entry, change, change->gpu[i]))
            return true;
    return false;
}

/* Reads the entries of the value without duplicates; *all: "all" is among them. */
static int read_entries(const char *have, struct strbuf *out, bool *all, struct err *err)
{
    struct text rest = text_of(have);
    struct text entry;
    char shown[60];

    *all = false;
    while (text_cut(&rest, ',', &entry)) {
        entry = text_trim(entry);
        if (!is_entry(entry)) {
            text_clip(entry, shown, sizeof shown);
            return err_set(err, ERR_INVALID,
                           "the annotation " ANNOTATION " has an entry that is no GPU: %s; remove "
                           "it with kubectl first",
                           shown);
        }
        if (text_is(entry, "all"))
            *all = true;
        else if (entry.len > 0)
            add_entry(out, entry);
    }
    return 0;
}

/* Removes GPUs; "all" becomes a list of the remaining ones. */
static void lift_some(const struct cordon_change *change, struct text entries, bool all,
                      struct strbuf *out)
{
    struct text entry;

    must(change->n_gpus > 0);
    while (entries.len > 0 && text_cut(&entries, ',', &entry))
        if (!is_chosen(entry, change))
            add_entry(out, entry);
    if (!all)
        return;
    document_each (gpu, document_get(change->node, "gpus")) {
        const struct text id = text_of(document_shown(gpu, "id"));
        if (id.len > 0 && !is_chosen(id, change))
            add_entry(out, id);
    }
}

int cordon_merge(const struct cordon_change *change, const char *have, struct strbuf *out,
                 bool *out_same, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf entries;
    bool all;

    must(out->len == 0);
    strbuf_init(&entries);
    if (read_entries(have, &entries, &all, err) < 0)
        return err_same(err);
    const struct text before = {entries.data, entries.len};
    if (change->lift && change->n_gpus > 0) {
        lift_some(change, before, all, out);
    } else if (!change->lift && (all || change->n_gpus == 0)) {
        strbuf_str(out, "all");
    } else if (!change->lift) {
        strbuf_text(out, before);
        for (size_t i = 0; i < change->n_gpus; i++)
            add_entry(out, text_of(document_shown(change->gpu[i], "id")));
    }
    *out_same = all ? text_is((struct text){out->data, out->len}, "all")
                    : text_eq((struct text){out->data, out->len}, before);
    return 0;
}

/* The value according to milligpud, which shows no absent GPUs. */
static void cordon_shown(struct strbuf *out, const struct document *node)
{
    document_each (gpu, document_get(node, "gpus"))
        if (document_true(gpu, "cordoned"))
            add_entry(out, text_of(document_shown(gpu, "id")));
}

/* --- kubectl --- */

/* The state of the Node from kubectl. */
struct cordon_now {
    const char *version; /* resourceVersion; "" if unknown */
    const char *value;
    bool unread; /* kubectl is missing, so the value is from milligpud */
    bool standalone;
    bool quiet; /* a failed write is retried, so its message is not shown */
    bool first; /* first attempt */
};

static void begin_kubectl(const struct ctl *ctl, struct kubectl *out)
{
    const char *const *given = ctl->options.given;

    kubectl_begin(out, given[OPTION_context], given[OPTION_kubeconfig]);
}

/* Parses three lines: uid, resourceVersion, value. */
static int take_lines(struct ctl *ctl, const struct document *node, struct text said,
                      struct cordon_now *out, struct err *err)
{
    const char *ours = document_shown(node, "uid");
    struct text uid = TEXT("");
    struct text version = TEXT("");

    (void)text_cut(&said, '\n', &uid);
    (void)text_cut(&said, '\n', &version);
    if (ours[0] != '\0' && !text_is(uid, ours))
        return err_set(err, ERR_FOREIGN,
                       "kubectl and milligpud know different nodes %.100s, so probably different "
                       "clusters: see --context and --server",
                       document_shown(node, "name"));
    /* A version is a number; other text could act as another argument of kubectl. */
    out->version = arena_copy(&ctl->kept, version);
    if (!gpu_name_is_index(out->version))
        out->version = "";
    out->value = arena_copy(&ctl->kept, text_trim(said));
    return 0;
}

/* True for standalone mode: kubectl then reaches another cluster, or none. */
static bool is_standalone(struct ctl *ctl)
{
    struct document *summary;
    struct err ignored;

    must(ctl->options.n_arguments > 0);
    return ctl_get(ctl, "/api/v1/summary", &summary, &ignored) == 0 &&
           strcmp(document_shown(summary, "mode"), "standalone") == 0;
}

static int fail_standalone(const struct ctl *ctl, struct err *err)
{
    must(ctl->options.n_arguments > 0);
    return err_set(err, ERR_UNAVAILABLE,
                   "milligpud is standalone, and kubectl failed to show Node %.100s: write the "
                   "annotation %s to the Node in the cluster file, and start milligpud again",
                   ctl->options.argument[0], ANNOTATION);
}

static int read_now(struct ctl *ctl, const struct document *node, struct cordon_now *out,
                    struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf said;
    struct kubectl kubectl;

    *out = (struct cordon_now){
        .version = "", .value = "", .standalone = is_standalone(ctl), .unread = false};
    strbuf_init(&said);
    begin_kubectl(ctl, &kubectl);
    kubectl.quiet = out->standalone;
    kubectl_add(&kubectl, "get");
    kubectl_add(&kubectl, "node");
    kubectl_add(&kubectl, ctl->options.argument[0]);
    kubectl_add(&kubectl, "--output");
    kubectl_add(&kubectl, "jsonpath={.metadata.uid}{\"\\n\"}{.metadata.resourceVersion}{\"\\n\"}"
                          "{.metadata.annotations.milligpu\\.io/cordon}");
    const int status = kubectl_run(&kubectl, &said, err);
    if (status == 0)
        return take_lines(ctl, node, (struct text){said.data, said.len}, out, err);
    if (out->standalone && err->code == ERR_UNAVAILABLE)
        return fail_standalone(ctl, err);
    if (err->code != ERR_NOT_FOUND)
        return status;
    cordon_shown(&said, node);
    out->value = arena_copy(&ctl->kept, (struct text){said.data, said.len});
    out->unread = true;
    return 0;
}

/* Removes the annotation for value "". */
static void add_annotate(struct ctl *ctl, struct kubectl *kubectl, const char *value)
{
    begin_kubectl(ctl, kubectl);
    kubectl_add(kubectl, "annotate");
    kubectl_add(kubectl, "node");
    kubectl_add(kubectl, ctl->options.argument[0]);
    kubectl_add(kubectl, value[0] != '\0' ? arena_printf(&ctl->kept, ANNOTATION "=%s", value)
                                          : ANNOTATION "-");
    kubectl_add(kubectl, "--overwrite");
}

static int print_line(struct ctl *ctl, const struct kubectl *kubectl, bool unread)
{
    struct err err;

    kubectl_print(ctl->screen.out, kubectl);
    if (!unread)
        return CTL_FINE;
    (void)err_set(
        &err, ERR_NOT_FOUND, "there is no kubectl in PATH; run this command where there is one%s",
        ctl->options.n_arguments > 1 ? ", unless GPUs are cordoned that milligpud does not show now"
                                     : "");
    (void)ctl_fail(ctl, &err); /* not fatal: with --dry-run the command is printed all the same */
    return ctl->options.given[OPTION_dry_run] != NULL ? CTL_FINE : CTL_NO;
}

/* Returns WRITE_AGAIN if kubectl failed with its message hidden. */
static int write_value(struct ctl *ctl, const struct cordon_now *now, const char *value)
{
    CLEANUP(strbuf_done) struct strbuf said;
    struct kubectl kubectl;
    struct err err;

    strbuf_init(&said);
    add_annotate(ctl, &kubectl, value);
    if (ctl->options.given[OPTION_dry_run] != NULL || now->unread)
        return print_line(ctl, &kubectl, now->unread);
    if (now->standalone && now->first)
        (void)fputs("milligpuctl: milligpud is standalone: kubectl changes the cluster itself, and "
                    "milligpud goes on with what its file says\n",
                    ctl->err);
    if (now->version[0] != '\0')
        kubectl_add(&kubectl, arena_printf(&ctl->kept, "--resource-version=%s", now->version));
    kubectl.quiet = now->quiet;
    if (kubectl_run(&kubectl, &said, &err) < 0)
        return now->quiet ? WRITE_AGAIN : ctl_fail(ctl, &err);
    (void)fprintf(ctl->screen.out, "node/%s %s%s\n", ctl->options.argument[0],
                  value[0] != '\0' ? "cordoned: " : "uncordoned", value);
    return CTL_FINE;
}

/* --- the commands --- */

static int choose_gpus(struct ctl *ctl, struct cordon_change *change, struct err *err)
{
    const size_t gpus = ctl->options.n_arguments - 1;
    const struct document **chosen = arena_array(&ctl->kept, gpus, sizeof(struct document *));

    for (size_t i = 0; i < gpus; i++) {
        const char *name = ctl->options.argument[i + 1];
        if (strcmp(name, "all") == 0) /* as in the annotation */
            return err_set(err, ERR_INVALID,
                           "all is no GPU: where no GPU is named, the whole node is meant");
        if (gpu_name_find(change->node, name, &chosen[i], err) < 0)
            return err_same(err);
    }
    change->gpu = chosen;
    change->n_gpus = gpus;
    return 0;
}

static int change_value(struct ctl *ctl, const struct cordon_change *change,
                        const struct cordon_now *now)
{
    CLEANUP(strbuf_done) struct strbuf value;
    struct err err;
    bool same = false;

    strbuf_init(&value);
    if (cordon_merge(change, now->value, &value, &same, &err) < 0)
        return ctl_fail(ctl, &err);
    if (!same || now->unread)
        return write_value(ctl, now, value.data);
    (void)fprintf(ctl->screen.out, "node/%s %s%s\n", ctl->options.argument[0],
                  value.len == 0 ? "already uncordoned"
                  : change->lift ? "unchanged, cordoned: "
                                 : "already cordoned: ",
                  value.data);
    return CTL_FINE;
}

/*
 * Retries after conflicts. If the version is unchanged after a failed write, the failure was no
 * conflict: the next attempt is the last, and kubectl's message is shown.
 */
static int try_change(struct ctl *ctl, const struct cordon_change *change)
{
    const char *failed = "";
    struct cordon_now now;
    struct err err;

    for (int tries = 1;; tries++) {
        if (read_now(ctl, change->node, &now, &err) < 0)
            return ctl_fail(ctl, &err);
        now.first = tries == 1;
        now.quiet = tries < TRIES_MAX && strcmp(now.version, failed) != 0;
        const int status = change_value(ctl, change, &now);
        if (status != WRITE_AGAIN)
            return status;
        must(now.quiet && tries < TRIES_MAX);
        failed = now.version;
    }
}

static int change_cordon(struct ctl *ctl, bool lift)
{
    const char *name = ctl->options.argument[0];
    struct cordon_change change = {.lift = lift};
    struct document *node;
    struct err err;

    must(ctl->options.n_arguments > 0);
    if (node_name_check(name, &err) < 0)
        return ctl_misused(ctl, &err);
    if (ctl_get(ctl, arena_printf(&ctl->kept, "/api/v1/nodes/%s", name), &node, &err) < 0)
        return ctl_fail(ctl, &err);
    change.node = node;
    if (choose_gpus(ctl, &change, &err) < 0)
        return ctl_fail(ctl, &err);
    return try_change(ctl, &change);
}

int command_cordon(struct ctl *ctl)
{
    return change_cordon(ctl, false);
}

int command_uncordon(struct ctl *ctl)
{
    return change_cordon(ctl, true);
}
