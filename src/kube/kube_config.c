/*
 * kube_config - reads a kubeconfig strictly: an unknown key, a wrong type or an unsupported
 * authentication method is an error that names file, line and path. Called once at start, in the
 * main thread; the result holds copies. The readers go from root to context, cluster and user; each
 * continues after an error, because the first one sticks.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/base64.h"
#include "milligpu/document/document.h"

#include "config.h"

DEFINE_FREEP(struct kube_config, kube_config_free);

/*
 * State of reading. where is the path of the current object, for errors; the first error sticks, so
 * readers may continue and check once.
 */
struct kubeconfig_reading {
    const char *file;
    const char *folder;
    struct kube_config *config;
    struct err *err;
    int rc;
    char where[256];
};

/* Records the first error only. at supplies the line; line 1 if it is NULL or has none. */
__attribute__((format(printf, 4, 5))) static void wrong(struct kubeconfig_reading *in,
                                                        const struct document *at, const char *key,
                                                        const char *fmt, ...)
{
    struct strbuf text;
    va_list args;

    if (in->rc < 0)
        return;
    va_start(args, fmt);
    char message[256];
    (void)vsnprintf(message, sizeof message, fmt, args); /* may be truncated */
    va_end(args);
    strbuf_init(&text);
    strbuf_str(&text, in->where);
    if (text.len > 0 && key[0] != '\0')
        strbuf_char(&text, '.');
    strbuf_str(&text, key);
    in->rc = err_set(in->err, ERR_INVALID, "%s: line %u: %s: %s", in->file,
                     at != NULL && at->at.line > 0 ? at->at.line : 1, text.data, message);
    strbuf_done(&text);
}

static void set_where(struct kubeconfig_reading *in, const char *where)
{
    must(strlen(where) < sizeof in->where);
    memcpy(in->where, where, strlen(where) + 1);
}

/*
 * An unknown key is most likely a typo. The lists are those of client-go's v1.Config; "extensions"
 * may contain anything.
 */
static void kube_config_check_keys(struct kubeconfig_reading *in, const struct document *object,
                                   const char *known)
{
    must(object->kind == DOCUMENT_OBJECT);
    for (const struct document *at = object->first; at != NULL && in->rc == 0; at = at->next) {
        char padded[80];
        char key[64];
        (void)snprintf(key, sizeof key, "%.*s", TEXT_ARG(at->key)); /* may be truncated */
        (void)snprintf(padded, sizeof padded, " %s ", key);
        if (strstr(known, padded) == NULL)
            wrong(in, at, key, "unknown key; known are%s", known);
    }
}

/* Keys are separated by spaces, for kube_config_check_keys(). */
static const char root_keys[] =
    " apiVersion kind preferences clusters users contexts current-context extensions ";
static const char context_keys[] = " cluster user namespace extensions ";
static const char cluster_keys[] =
    " server tls-server-name insecure-skip-tls-verify certificate-authority "
    "certificate-authority-data proxy-url disable-compression extensions ";
static const char user_keys[] =
    " client-certificate client-certificate-data client-key client-key-data token tokenFile as "
    "as-uid as-groups as-user-extra username password auth-provider exec extensions ";

/* Returns NULL if absent or empty; a wrong type is an error. */
static const char *get_string(struct kubeconfig_reading *in, const struct document *object,
                              const char *key)
{
    const struct document *found = document_get(object, key);

    if (found == NULL)
        return NULL;
    if (found->kind != DOCUMENT_STRING) {
        wrong(in, found, key, "expected a string, found %s; put it in quotes",
              document_kind_name(found->kind));
        return NULL;
    }
    if (document_has_nul(found)) {
        wrong(in, found, key, "must not hold a NUL");
        return NULL;
    }
    return found->text.len > 0 ? found->text.at : NULL;
}

static char *copy_string(struct kubeconfig_reading *in, const struct document *object,
                         const char *key)
{
    const char *text = get_string(in, object, key);
    return text != NULL ? xstrdup(text) : NULL;
}

static bool get_bool(struct kubeconfig_reading *in, const struct document *object, const char *key)
{
    const struct document *found = document_get(object, key);

    if (found == NULL)
        return false;
    if (found->kind != DOCUMENT_BOOL)
        wrong(in, found, key, "expected true or false, found %s", document_kind_name(found->kind));
    return text_is(found->text, "true");
}

/* Returns NULL if absent, and with in->rc set if the kind is wrong. */
static const struct document *get_kind(struct kubeconfig_reading *in, const struct document *object,
                                       const char *key, enum document_kind kind)
{
    const struct document *found = document_get(object, key);

    if (found == NULL || found->kind == kind)
        return found;
    wrong(in, found, key, "expected %s, found %s", document_kind_name(kind),
          document_kind_name(found->kind));
    return NULL;
}

/*
 * Finds {name: NAME, <key>: {...}} in the list and returns the object under key. Sets in->where to
 * its path, for the readers that follow.
 */
static const struct document *get_named(struct kubeconfig_reading *in, const struct document *root,
                                        const char *list, const char *name, const char *key)
{
    must(name != NULL);
    const struct document *entries = get_kind(in, root, list, DOCUMENT_ARRAY);
    unsigned index = 0;

    for (const struct document *at = entries != NULL ? entries->first : NULL; at != NULL;
         at = at->next, index++) {
        char where[64];
        (void)snprintf(where, sizeof where, "%s[%u]", list, index); /* fits */
        set_where(in, where);
        if (at->kind != DOCUMENT_OBJECT)
            wrong(in, at, "", "expected an object, found %s", document_kind_name(at->kind));
        const char *its = get_string(in, at, "name");
        if (in->rc < 0)
            return NULL;
        if (its == NULL || strcmp(its, name) != 0)
            continue;
        const struct document *found = get_kind(in, at, key, DOCUMENT_OBJECT);
        (void)snprintf(where, sizeof where, "%s[%u].%s", list, index, key); /* fits */
        set_where(in, where);
        if (found == NULL)
            wrong(in, at, "", "expected an object, found nothing");
        return found;
    }
    set_where(in, "");
    wrong(in, entries != NULL ? entries : root, list, "there is none with the name \"%s\"", name);
    return NULL;
}

/* Paths are relative to the kubeconfig, not to the working directory, as in kubectl. */
static char *resolve_path(const struct kubeconfig_reading *in, const char *path)
{
    struct strbuf text;
    strbuf_init(&text);
    if (path[0] != '/')
        strbuf_printf(&text, "%s/", in->folder);
    strbuf_str(&text, path);
    return strbuf_steal(&text);
}

/* Inline bytes take precedence over a file, as in kubectl. */
static void kube_config_read_source(struct kubeconfig_reading *in, const struct document *object,
                                    const char *file_key, const char *data_key, struct source *out)
{
    const char *data = get_string(in, object, data_key);
    const char *file = get_string(in, object, file_key);

    if (data != NULL) {
        out->data = base64_decode(data, &out->len);
        if (out->data == NULL)
            wrong(in, document_get(object, data_key), data_key, "is not base64");
    } else if (file != NULL) {
        out->file = resolve_path(in, file);
    }
}

static void read_cluster(struct kubeconfig_reading *in, const struct document *cluster)
{
    struct kube_config *config = in->config;

    must(cluster != NULL);
    kube_config_check_keys(in, cluster, cluster_keys);
    config->server = copy_string(in, cluster, "server");
    config->tls_name = copy_string(in, cluster, "tls-server-name");
    config->proxy = copy_string(in, cluster, "proxy-url");
    config->insecure = get_bool(in, cluster, "insecure-skip-tls-verify");
    kube_config_read_source(in, cluster, "certificate-authority", "certificate-authority-data",
                            &config->ca);
    if (config->server == NULL) {
        wrong(in, cluster, "server", "expected the address of the API server");
        return;
    }
    char *server = config->server;
    if (strncmp(server, "https://", 8) != 0 && strncmp(server, "http://", 7) != 0)
        wrong(in, document_get(cluster, "server"), "server",
              "\"%s\": expected https://HOST:PORT or http://HOST:PORT", server);
    /* Paths are appended to it; a user in the address would be a second authentication method. */
    if (strpbrk(server, "?# \t\r\n") != NULL || strchr(server, '@') != NULL)
        wrong(in, document_get(cluster, "server"), "server",
              "\"%s\": expected an address without user, query or blanks", server);
    /* Every path begins with a slash. */
    size_t len = strlen(server);
    while (len > 0 && server[len - 1] == '/')
        server[--len] = '\0';
}

/*
 * A user may have several authentication methods: all are kept, and make_header() chooses.
 * Unsupported ones (auth-provider, exec, impersonation) are refused, not ignored.
 */
static void read_user(struct kubeconfig_reading *in, const struct document *user)
{
    struct kube_config *config = in->config;
    const char *token = get_string(in, user, "token");
    const char *token_file = get_string(in, user, "tokenFile");

    kube_config_check_keys(in, user, user_keys);
    kube_config_read_source(in, user, "client-certificate", "client-certificate-data",
                            &config->cert);
    kube_config_read_source(in, user, "client-key", "client-key-data", &config->key);
    const bool cert = config->cert.file != NULL || config->cert.data != NULL;
    const bool key = config->key.file != NULL || config->key.data != NULL;
    if (cert != key)
        wrong(in, user, cert ? "client-key" : "client-certificate",
              "a client certificate and its key are given together");
    /* The file takes precedence, as in kubectl, because it can be renewed. */
    if (token_file != NULL) {
        config->token.file = resolve_path(in, token_file);
    } else if (token != NULL) {
        config->token.data = xstrdup(token);
        config->token.len = strlen(token);
    }
    if (token != NULL && strpbrk(token, "\r\n") != NULL)
        wrong(in, document_get(user, "token"), "token", "a line break inside");
    config->username = copy_string(in, user, "username");
    config->password = copy_string(in, user, "password");
    if (config->username != NULL && config->password == NULL)
        config->password = xstrdup("");
    if (document_get(user, "auth-provider") != NULL)
        wrong(in, document_get(user, "auth-provider"), "auth-provider",
              "was removed from Kubernetes in 1.26: use tokenFile or a client certificate");
    if (document_get(user, "exec") != NULL)
        wrong(in, document_get(user, "exec"), "exec",
              "credential plugins are not supported: run \"kubectl proxy\" and name the server "
              "http://127.0.0.1:8001 without a user, or use tokenFile or a client certificate");
    if (document_get(user, "as") != NULL)
        wrong(in, document_get(user, "as"), "as", "impersonation is not supported");
}

/*
 * context is NULL for current-context. Only this context is read, so errors in others do not
 * matter. A context without a user is valid and sends no credentials.
 */
static void read_root(struct kubeconfig_reading *in, const struct document *root,
                      const char *context)
{
    kube_config_check_keys(in, root, root_keys);
    const char *kind = get_string(in, root, "kind");
    const char *current = context != NULL ? context : get_string(in, root, "current-context");

    if (kind != NULL && strcmp(kind, "Config") != 0)
        wrong(in, document_get(root, "kind"), "kind", "expected \"Config\", found \"%s\"", kind);
    if (current == NULL)
        wrong(in, root, "current-context", "is not set: name a context");
    if (in->rc < 0)
        return;
    const struct document *chosen = get_named(in, root, "contexts", current, "context");
    if (chosen != NULL)
        kube_config_check_keys(in, chosen, context_keys);
    const char *cluster = get_string(in, chosen, "cluster");
    const char *user = get_string(in, chosen, "user");
    const char *namespace = get_string(in, chosen, "namespace");
    if (chosen != NULL && cluster == NULL)
        wrong(in, chosen, "cluster", "expected the name of a cluster");
    if (in->rc < 0)
        return;
    if (namespace != NULL) {
        xfree(in->config->namespace);
        in->config->namespace = xstrdup(namespace);
    }
    const struct document *found = get_named(in, root, "clusters", cluster, "cluster");
    if (found != NULL)
        read_cluster(in, found);
    if (user == NULL || in->rc < 0)
        return;
    found = get_named(in, root, "users", user, "user");
    if (found != NULL)
        read_user(in, found);
}

/* The folder of "config" is ".", that of "/config" is "/". */
static char *folder_of(const char *file)
{
    must(file[0] != '\0');
    const char *slash = strrchr(file, '/');
    struct strbuf text;

    if (slash == NULL)
        return xstrdup(".");
    strbuf_init(&text);
    strbuf_add(&text, file, slash == file ? 1 : (size_t)(slash - file));
    return strbuf_steal(&text);
}

/* The arena is freed at the end: the config has copies. */
int kube_config_parse(struct text text, const char *file, const char *context,
                      struct kube_config **out, struct err *err)
{
    CLEANUP(kube_config_freep) struct kube_config *config = kube_config_new();
    CLEANUP(xfreep) char *folder = folder_of(file);
    struct kubeconfig_reading in = {.file = file, .folder = folder, .config = config, .err = err};
    struct arena arena;
    struct document *documents;

    arena_init(&arena);
    in.rc = document_parse_yaml(text, &arena, &documents, err);
    if (in.rc < 0)
        in.rc = err_wrap(err, "%s", file);
    else if (documents->count != 1 || documents->first->kind != DOCUMENT_OBJECT)
        in.rc = err_set(err, ERR_INVALID, "%s: expected one kubeconfig, found %s", file,
                        documents->count == 0   ? "nothing"
                        : documents->count == 1 ? document_kind_name(documents->first->kind)
                                                : "several documents");
    else
        read_root(&in, documents->first, context);
    arena_done(&arena);
    if (in.rc == 0)
        *out = STEAL(config);
    return in.rc;
}
