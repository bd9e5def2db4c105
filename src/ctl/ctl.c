/*
 * Functions shared by the commands: messages on standard error, the address of milligpud, requests,
 * pod names, and the output of documents and lists. Called by the commands in the only thread. A
 * command fills an err and ends with ctl_fail() or ctl_misused(). stdio keeps write errors on
 * standard output, and ctl_finish() checks them once at the end.
 */
#include "ctl.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "kubectl.h"

static const char default_server[] = "127.0.0.1:8911";
static const char default_namespace[] = "milligpu-system";

int ctl_fail(struct ctl *ctl, const struct err *err)
{
    must(err->text[0] != '\0');
    /* keeps the order of the output; errors are checked in ctl_finish() */
    (void)fflush(ctl->screen.out);
    (void)fprintf(ctl->err, "milligpuctl: %s\n", err->text);
    return CTL_NO;
}

int ctl_misused(struct ctl *ctl, const struct err *err)
{
    must(err->text[0] != '\0');
    (void)ctl_fail(ctl, err); /* CTL_USAGE is returned instead */
    return CTL_USAGE;
}

/* --- the address of milligpud --- */

enum { PORT_FILE_BYTES_MAX = 4096 };

static int find_line(struct ctl *ctl, const char *file, struct text rest, const char **out,
                     const char *name, struct err *err)
{
    struct text line;
    struct text word;

    must(name[0] != '\0');
    while (text_cut(&rest, '\n', &line)) {
        struct text address = line;
        if (!text_cut(&address, ' ', &word) || !text_is(word, name))
            continue;
        *out = arena_copy(&ctl->kept, text_trim(address));
        return 0;
    }
    return err_set(err, ERR_INVALID, "%.200s: it has no line \"%s ADDRESS\"", file, name);
}

/* *out is in ctl->kept, since --watch resets the other arena between two outputs. */
int ctl_port_file(struct ctl *ctl, const char *name, const char **out, struct err *err)
{
    const char *file = ctl->options.given[OPTION_port_file];
    char bytes[PORT_FILE_BYTES_MAX];

    *out = NULL;
    if (file == NULL)
        return 0;
    FILE *stream = fopen(file, "re");
    if (stream == NULL)
        return err_set(err, ERR_INVALID, "%.200s: %m", file);
    const size_t length = fread(bytes, 1, sizeof bytes, stream);
    const bool failed = ferror(stream) != 0;
    (void)fclose(stream); /* read-only */
    if (failed)
        return err_set(err, ERR_IO, "%.200s: cannot be read", file);
    return find_line(ctl, file, (struct text){bytes, length}, out, name, err);
}

/* Only as a kubectl plugin: plain milligpuctl starts no programs here and uses no kubeconfig. */
static int start_forward(struct ctl *ctl, struct err *err)
{
    const char *const *given = ctl->options.given;
    const struct forward_options options = {
        .namespace = given[OPTION_milligpu_namespace] != NULL ? given[OPTION_milligpu_namespace]
                                                              : default_namespace,
        .context = given[OPTION_context],
        .kubeconfig = given[OPTION_kubeconfig],
    };

    must(ctl->plugin);
    const int status = forward_start(&ctl->forward, &options, err);
    if (status == 0)
        ctl->base = ctl->forward.address;
    return status;
}

/*
 * Tries sources from the most explicit one to the default. A port file without the line is an error
 * instead of a fallback, because the next source could be another milligpud.
 */
int ctl_base(struct ctl *ctl, const char **out, struct err *err)
{
    int status = 0;

    if (ctl->base == NULL)
        ctl->base = ctl->options.given[OPTION_server];
    if (ctl->base == NULL)
        status = ctl_port_file(ctl, "admin", &ctl->base, err);
    if (status == 0 && ctl->base == NULL)
        ctl->base = ctl->environment_server;
    if (status == 0 && ctl->base == NULL && ctl->plugin)
        status = start_forward(ctl, err);
    if (status == 0 && ctl->base == NULL)
        ctl->base = default_server;
    *out = ctl->base;
    return status;
}

struct client *ctl_client(struct ctl *ctl)
{
    if (ctl->client == NULL)
        ctl->client = client_new();
    must(ctl->client != NULL);
    return ctl->client;
}

int ctl_get(struct ctl *ctl, const char *path, struct document **out, struct err *err)
{
    struct client_request call = {.method = "GET", .path = path};

    must(path[0] == '/');
    const int status = ctl_base(ctl, &call.base, err);
    return status < 0 ? status : client_call(ctl_client(ctl), &call, &ctl->arena, out, err);
}

int ctl_list(struct ctl *ctl, const char *path, struct document **out, struct err *err)
{
    const char *base;

    must(path[0] == '/');
    const int status = ctl_base(ctl, &base, err);
    return status < 0 ? status : client_list(ctl_client(ctl), base, path, &ctl->arena, out, err);
}

/* --- arguments that several commands share --- */

/*
 * As a kubectl plugin, the default namespace is that of the context, as everywhere in kubectl.
 * Without a context (in a pod, for example) kubectl prints an error and fails; then the namespace
 * is default, as in kubectl itself.
 */
static const char *namespace_of_context(struct ctl *ctl)
{
    static const char fallback[] = "default";
    CLEANUP(strbuf_done) struct strbuf said;
    struct kubectl kubectl;
    struct err err;

    must(ctl->plugin);
    strbuf_init(&said);
    if (ctl->context_namespace != NULL)
        return ctl->context_namespace;
    kubectl_begin(&kubectl, ctl->options.given[OPTION_context],
                  ctl->options.given[OPTION_kubeconfig]);
    kubectl_add(&kubectl, "config");
    kubectl_add(&kubectl, "view");
    kubectl_add(&kubectl, "--minify");
    kubectl_add(&kubectl, "--output=jsonpath={.contexts[0].context.namespace}");
    ctl->context_namespace = fallback;
    if (kubectl_run(&kubectl, &said, &err) < 0) {
        (void)fprintf(ctl->err,
                      "milligpuctl: the namespace of the context is not known (%s): taking "
                      "%s; -n says which\n",
                      err.text, fallback);
        return fallback;
    }
    const struct text found = text_trim((struct text){said.data, said.len});
    if (found.len > 0)
        ctl->context_namespace = arena_copy(&ctl->kept, found);
    return ctl->context_namespace;
}

static const char *unnamed_namespace(struct ctl *ctl)
{
    must(ctl->options.given[OPTION_namespace] == NULL);
    return ctl->plugin ? namespace_of_context(ctl) : "default";
}

/* A namespace in both the argument and -n must be the same. */
int ctl_pod_name(struct ctl *ctl, const char *argument, struct pod_name *out, struct err *err)
{
    const char *namespace = ctl->options.given[OPTION_namespace];
    const char *slash = strchr(argument, '/');

    if (argument[0] == '\0' || slash == argument || (slash != NULL && slash[1] == '\0') ||
        (slash != NULL && strchr(slash + 1, '/') != NULL))
        return err_set(err, ERR_INVALID,
                       "%.200s is not a pod: write NAMESPACE/NAME, or NAME with -n",
                       argument[0] != '\0' ? argument : "\"\"");
    if (slash == NULL) {
        const char *fallback = namespace == NULL ? unnamed_namespace(ctl) : namespace;
        *out = (struct pod_name){fallback, argument};
        return 0;
    }
    const struct text before = {argument, (size_t)(slash - argument)};
    if (namespace != NULL && !text_is(before, namespace))
        return err_set(err, ERR_INVALID, "%.200s is not in namespace %.100s: leave one of them out",
                       argument, namespace);
    *out = (struct pod_name){arena_copy(&ctl->kept, before), slash + 1};
    return 0;
}

bool ctl_is_filtered(const struct ctl *ctl)
{
    const char *const *given = ctl->options.given;

    return given[OPTION_node] != NULL || given[OPTION_namespace] != NULL ||
           given[OPTION_model] != NULL || given[OPTION_state] != NULL ||
           given[OPTION_selector] != NULL || given[OPTION_idle] != NULL ||
           given[OPTION_kind] != NULL;
}

/* --- showing --- */

static void ctl_write_document(struct ctl *ctl, const struct document *answer)
{
    CLEANUP(strbuf_done) struct strbuf text;

    must(answer != NULL);
    strbuf_init(&text);
    if (ctl->format == FORMAT_JSON)
        document_write_pretty(&text, answer);
    else
        document_write_yaml(&text, answer);
    (void)fwrite(text.data, 1, text.len, ctl->screen.out); /* checked in ctl_finish() */
}

bool ctl_document(struct ctl *ctl, const struct document *answer)
{
    must(answer != NULL);
    if (ctl->format != FORMAT_JSON && ctl->format != FORMAT_YAML)
        return false;
    ctl_write_document(ctl, answer);
    return true;
}

static void write_names(struct ctl *ctl, const struct document *items, const struct list_view *view)
{
    CLEANUP(strbuf_done) struct strbuf text;

    must(view->name != NULL);
    strbuf_init(&text);
    document_each (item, items) {
        view->name(&text, item);
        strbuf_char(&text, '\n');
    }
    (void)fputs(text.data, ctl->screen.out); /* checked in ctl_finish() */
}

/*
 * Checks the number of cells of each row, since a wrong number would shift all further cells. An
 * invalid --sort-by is found only here, because columns belong to the view.
 */
int ctl_show_rows(struct ctl *ctl, const struct document *items, const struct list_view *view)
{
    CLEANUP(table_done) struct table table;
    struct err err;

    must(view->row != NULL);
    table_init(&table, &ctl->screen, &ctl->arena, view->column, view->n_columns);
    document_each (item, items) {
        view->row(&table, item);
        must(table.n_cells % view->n_columns == 0);
    }
    return table_print(&table, &err) < 0 ? ctl_misused(ctl, &err) : CTL_FINE;
}

/* Reports an empty list on standard error, so that scripts read an empty table. */
int ctl_show_list(struct ctl *ctl, const struct document *answer, const struct list_view *view)
{
    const struct document *items = document_get(answer, "items");

    must(view->n_columns > 0);
    if (ctl_document(ctl, answer))
        return CTL_FINE;
    if (ctl->format == FORMAT_NAME) {
        write_names(ctl, items, view);
        return CTL_FINE;
    }
    const int status = ctl_show_rows(ctl, items, view);
    if (status == CTL_FINE && (items == NULL || items->count == 0))
        (void)fprintf(ctl->err, "%s\n", ctl_is_filtered(ctl) ? "nothing matches" : view->none);
    return status;
}
