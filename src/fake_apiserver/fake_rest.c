/*
 * Handles the requests of the fake API server: get, list, create, patch, delete, binding. Called by
 * fake_apiserver.c under the lock. fake_ask_parse() turns method and path into a struct ask, and
 * fake_ask_answer() chooses the verb; each of these functions writes the answer and returns its
 * HTTP status. Invariant: a refused request has changed nothing. All memory of a request is in its
 * arena.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/limits.h"

#include "fake_internal.h"

enum {
    PATH_BYTES_MAX = 128 * 1024,
    GRACE_DEFAULT_S = 30,
    SUFFIX_LETTERS = 5, /* for generateName */
};

/* ---- Status ---- */

static int not_found(struct ask *in)
{
    if (in->resource == NULL || in->name[0] == '\0')
        return fake_answer_status(in, 404, "NotFound",
                                  "the server could not find the requested resource");
    return fake_answer_status(in, 404, "NotFound", "%s \"%s\" not found", in->resource->plural,
                              in->name);
}

static int not_allowed(struct ask *in)
{
    return fake_answer_status(in, 405, "MethodNotAllowed",
                              "the server does not allow this method on the requested resource");
}

static int bad_request(struct ask *in, const char *text)
{
    must(text[0] != '\0');
    return fake_answer_status(in, 400, "BadRequest", "%s", text);
}

/* ---- the path ---- */

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/*
 * Decodes a part of a URL; returns NULL if it is malformed or contains a NUL. plus: '+' is a blank,
 * as in a query.
 */
static const char *rest_unescape(struct arena *arena, struct text text, bool plus)
{
    char *out = arena_alloc(arena, text.len + 1);
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '%') {
            const int high = i + 2 < text.len ? hex_of(text.at[i + 1]) : -1;
            const int low = i + 2 < text.len ? hex_of(text.at[i + 2]) : -1;
            if (high < 0 || low < 0 || (high == 0 && low == 0))
                return NULL;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        out[len++] = c;
    }
    must(len <= text.len);
    return out;
}

/* Cuts the next "/segment" off *rest; "" at the end. */
static struct text next_segment(struct text *rest)
{
    struct text segment = {rest->at, 0};

    if (rest->len == 0)
        return segment;
    must(rest->at[0] == '/');
    const char *from = rest->at + 1;
    const char *end = memchr(from, '/', rest->len - 1);
    const size_t len = end != NULL ? (size_t)(end - from) : rest->len - 1;
    segment = (struct text){from, len};
    rest->at += 1 + len;
    rest->len -= 1 + len;
    return segment;
}

static bool resource_by_plural(struct ask *in, struct text group, struct text plural)
{
    for (int id = 0; id < RESOURCES; id++) {
        const struct resource *resource = fake_resource((enum resource_id)id);
        if (!text_is(group, resource->prefix) || !text_is(plural, resource->plural))
            continue;
        in->resource = resource;
        return true;
    }
    return false;
}

static bool rest_is_empty(struct text text)
{
    return text.len == 0;
}

/*
 * Parses /api/v1[/namespaces/NS]/PLURAL[/NAME[/SUB]], and the same under /apis/GROUP/VERSION.
 * Returns false if it is none of our resources; answer_other() then handles the path.
 */
static bool parse_resource(struct ask *in, struct text path)
{
    struct text rest = path;
    const struct text top = next_segment(&rest);
    (void)next_segment(&rest); /* the version, or the group */
    if (text_is(top, "apis"))
        (void)next_segment(&rest); /* the version after the group */
    const struct text group = {path.at, path.len - rest.len};
    struct text plural = next_segment(&rest);
    struct text namespace = TEXT("");

    if (text_is(plural, "namespaces") && !rest_is_empty(rest)) {
        namespace = next_segment(&rest);
        plural = next_segment(&rest);
    }
    const struct text name = next_segment(&rest);
    const struct text sub = next_segment(&rest);
    if (!rest_is_empty(rest) || !resource_by_plural(in, group, plural))
        return false;
    in->namespace = rest_unescape(in->arena, namespace, false);
    in->name = rest_unescape(in->arena, name, false);
    in->sub = rest_unescape(in->arena, sub, false);
    if (in->namespace == NULL || in->name == NULL || in->sub == NULL)
        return false;
    /* A cluster-scoped object has no namespace; every other single object has one. */
    if (in->resource->namespaced)
        return in->name[0] == '\0' || in->namespace[0] != '\0';
    return in->namespace[0] == '\0';
}

/* ---- the query ---- */

static bool is_true(const char *value)
{
    must(value != NULL);
    return strcmp(value, "1") == 0 || strcmp(value, "true") == 0;
}

/* Accepts at most 18 digits, which never overflow. */
static bool rest_parse_count(const char *value, int64_t *out)
{
    char *end;

    if (value[0] < '0' || value[0] > '9' || strlen(value) > 18)
        return false;
    *out = strtoll(value, &end, 10);
    return *end == '\0';
}

/* Maps field labels as an API server does, limited to those that are needed. */
static bool field_by_name(const struct ask *in, struct text name, enum field *out)
{
    static const struct {
        const char *name;
        enum field field;
        int only; /* index of a resource, or -1 */
    } known[] = {
        {"metadata.name", FIELD_NAME, -1},
        {"metadata.namespace", FIELD_NAMESPACE, -1},
        {"spec.nodeName", FIELD_NODE, RES_PODS},
        {"status.phase", FIELD_PHASE, RES_PODS},
        {"spec.schedulerName", FIELD_SCHEDULER, RES_PODS},
        {"spec.unschedulable", FIELD_CORDON, RES_NODES},
    };

    must(in->resource != NULL);
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (!text_is(name, known[i].name))
            continue;
        *out = known[i].field;
        return known[i].only < 0 || known[i].only == (int)in->resource->id;
    }
    return false;
}

/* "field=value", "field==value" or "field!=value". */
static int parse_term(struct ask *in, struct text term)
{
    const char *sign = memchr(term.at, '=', term.len);
    struct term *out = &in->selector.term[in->selector.n_terms];

    if (sign == NULL)
        return fake_answer_status(in, 400, "BadRequest", "invalid selector: '%.*s'",
                                  TEXT_ARG(term));
    if (in->selector.n_terms == TERMS_MAX)
        return bad_request(in, "more field selectors than the fake API server takes");
    const char *value = sign + 1;
    const char *end = term.at + term.len;
    struct text name = {term.at, (size_t)(sign - term.at)};
    out->equal = true;
    if (name.len > 0 && name.at[name.len - 1] == '!') {
        out->equal = false;
        name.len--;
    } else if (value < end && *value == '=') {
        value++;
    }
    if (!field_by_name(in, name, &out->field))
        return fake_answer_status(in, 400, "BadRequest", "field label not supported: %.*s",
                                  TEXT_ARG(name));
    out->value = arena_copy(in->arena, (struct text){value, (size_t)(end - value)});
    in->selector.n_terms++;
    return 0;
}

static int parse_selector(struct ask *in, const char *text)
{
    int status = 0;

    while (*text != '\0' && status == 0) {
        const size_t len = strcspn(text, ",");
        status = parse_term(in, (struct text){text, len});
        text += len + (text[len] == ',');
    }
    return status;
}

/*
 * Unknown parameters are ignored, as by an API server. Unimplemented ones that would change the
 * answer are refused, so that no test relies on them.
 */
static int parse_parameter(struct ask *in, const char *key, const char *value)
{
    bool good = true;

    if (strcmp(key, "fieldSelector") == 0)
        return parse_selector(in, value);
    if (strcmp(key, "watch") == 0)
        in->watch = is_true(value);
    else if (strcmp(key, "allowWatchBookmarks") == 0)
        in->bookmarks = is_true(value);
    else if (strcmp(key, "continue") == 0)
        in->continue_token = value;
    else if (strcmp(key, "limit") == 0)
        good = rest_parse_count(value, &in->limit);
    else if (strcmp(key, "timeoutSeconds") == 0)
        good = rest_parse_count(value, &in->timeout_s);
    else if (strcmp(key, "gracePeriodSeconds") == 0)
        good = rest_parse_count(value, &in->grace_s);
    else if (strcmp(key, "resourceVersion") == 0) {
        int64_t number;
        in->rv = value;
        good = value[0] == '\0' || rest_parse_count(value, &number);
    } else if (strcmp(key, "labelSelector") == 0 || strcmp(key, "dryRun") == 0 ||
               strcmp(key, "sendInitialEvents") == 0 ||
               (strcmp(key, "resourceVersionMatch") == 0 && strcmp(value, "Exact") == 0))
        return fake_answer_status(in, 400, "BadRequest", "the fake API server does not know %s",
                                  key);
    if (!good)
        return fake_answer_status(in, 400, "BadRequest", "%s: \"%s\": expected a number", key,
                                  value);
    return 0;
}

static int parse_query(struct ask *in, const char *query)
{
    while (*query != '\0') {
        const size_t len = strcspn(query, "&");
        const char *sign = memchr(query, '=', len);
        const size_t key_len = sign != NULL ? (size_t)(sign - query) : len;
        const char *from = sign != NULL ? sign + 1 : query + len;
        const char *key = rest_unescape(in->arena, (struct text){query, key_len}, true);
        const char *value =
            rest_unescape(in->arena, (struct text){from, (size_t)(query + len - from)}, true);
        if (key == NULL || value == NULL)
            return bad_request(in, "the query is not URL-encoded");
        const int status = parse_parameter(in, key, value);
        if (status != 0)
            return status;
        query += len + (query[len] == '&');
    }
    return 0;
}

static enum verb verb_of(const char *method)
{
    static const char *const name[] = {"GET", "POST", "PATCH", "DELETE"};
    static_assert(ARRAY_LEN(name) == VERB_OTHER, "a verb without a name");

    for (size_t i = 0; i < ARRAY_LEN(name); i++)
        if (strcmp(method, name[i]) == 0)
            return (enum verb)i;
    return VERB_OTHER;
}

/*
 * Reads only the request, so it needs no lock. For other paths than resources in->resource stays
 * NULL.
 */
int fake_ask_parse(struct ask *in, const char *method, const char *path)
{
    const size_t len = strlen(path);
    const size_t path_len = strcspn(path, "?");

    must(in->fake != NULL && in->arena != NULL && in->out != NULL);
    in->verb = verb_of(method);
    in->grace_s = -1;
    in->name = in->namespace = in->sub = in->rv = in->continue_token = "";
    in->path = arena_copy(in->arena, (struct text){path, path_len});
    if (len > PATH_BYTES_MAX || path[0] != '/')
        return bad_request(in, "the path is none");
    if (!parse_resource(in, (struct text){path, path_len})) {
        in->resource = NULL;
        return 0;
    }
    return path_len < len ? parse_query(in, path + path_len + 1) : 0;
}

/* ---- verbs ---- */

static struct object *rest_find_named(struct ask *in)
{
    must(in->name[0] != '\0');
    return fake_shelf_find(in->fake, in->resource->id, in->namespace, in->name);
}

static int answer_object(struct ask *in, int code, const struct object *object)
{
    strbuf_text(in->out, object->text);
    return code;
}

/* Returns a tree that the caller may change; parsing output of document_write() never fails. */
static struct document *parse_stored(struct ask *in, const struct object *object)
{
    struct document *document;
    struct err err;
    must(document_parse_json(object->text, "object", in->arena, &document, &err) == 0);
    return document;
}

static int parse_body(struct ask *in, struct document **out)
{
    struct err err;

    if (document_parse_json(in->body, "body", in->arena, out, &err) < 0)
        return bad_request(in, err.text);
    if ((*out)->kind != DOCUMENT_OBJECT)
        return fake_answer_status(in, 400, "BadRequest", "body: expected an object, found %s",
                                  document_kind_name((*out)->kind));
    return 0;
}

static int rest_invalid(struct ask *in, const char *name, const char *text)
{
    return fake_answer_status(in, 422, "Invalid", "%s \"%s\" is invalid: %s", in->resource->kind,
                              name, text);
}

/* Five letters may collide; an existing name gets 409. */
static const char *generate_name(struct ask *in, const char *prefix)
{
    const char *uid = fake_uid(in->fake, in->arena);
    return arena_printf(in->arena, "%s%.*s", prefix, SUFFIX_LETTERS, uid);
}

/*
 * Checks the name, and namespace and kind against the URL. Sets uid and time, whatever the client
 * wrote there.
 */
static int fit_metadata(struct ask *in, struct document *document)
{
    struct document *meta = document_object(in->arena, document, "metadata");
    const char *namespace = document_str(meta, "namespace");
    const char *kind = document_str(document, "kind");

    if (kind[0] != '\0' && strcmp(kind, in->resource->kind) != 0)
        return fake_answer_status(in, 400, "BadRequest", "kind: expected \"%s\", got \"%s\"",
                                  in->resource->kind, kind);
    if (namespace[0] != '\0' && strcmp(namespace, in->namespace) != 0)
        return bad_request(in, "the namespace of the provided object does not match the "
                               "namespace sent on the request");
    if (document_str(meta, "name")[0] == '\0' && document_str(meta, "generateName")[0] != '\0')
        document_set_str(in->arena, meta, "name",
                         generate_name(in, document_str(meta, "generateName")));
    if (!fake_name_valid(document_str(meta, "name")))
        return rest_invalid(
            in, document_str(meta, "name"),
            "metadata.name: Invalid value: expected lower case letters, digits, '-' "
            "and '.', at most 253");
    document_set_str(in->arena, document, "kind", in->resource->kind);
    document_set_str(in->arena, document, "apiVersion", in->resource->group_version);
    if (in->resource->namespaced)
        document_set_str(in->arena, meta, "namespace", in->namespace);
    document_set_str(in->arena, meta, "uid", fake_uid(in->fake, in->arena));
    document_set_str(in->arena, meta, "creationTimestamp", fake_time(in->fake, in->arena));
    document_remove(meta, "deletionTimestamp");
    return 0;
}

/* Sets allocatable to capacity, like a kubelet without reservations. */
static void fill_allocatable(struct ask *in, struct document *node)
{
    struct document *status = document_object(in->arena, node, "status");
    const struct document *capacity = document_get(status, "capacity");

    if (capacity != NULL && capacity->kind == DOCUMENT_OBJECT &&
        document_get(status, "allocatable") == NULL)
        document_set(in->arena, status, TEXT("allocatable"), document_copy(in->arena, capacity));
}

/* All checks come before fake_shelf_put(), so a refused object uses no version. */
static int rest_create(struct ask *in)
{
    struct document *document;
    struct err err;

    if (in->resource->namespaced && in->namespace[0] == '\0')
        return not_allowed(in);
    int status = parse_body(in, &document);
    if (status == 0 && fake_check_metadata(document, &err) < 0)
        status = bad_request(in, err.text);
    if (status == 0)
        status = fit_metadata(in, document);
    if (status != 0)
        return status;
    const char *name = document_str(document, "metadata.name");
    if (fake_shelf_find(in->fake, in->resource->id, in->namespace, name) != NULL)
        return fake_answer_status(in, 409, "AlreadyExists", "%s \"%s\" already exists",
                                  in->resource->plural, name);
    if (in->resource->id == RES_PODS) {
        status = fake_pod_admit(in->arena, document, &err);
        if (status == 422)
            return rest_invalid(in, name, err.text);
        if (status != 0)
            return bad_request(in, err.text);
    }
    if (in->resource->id == RES_NODES)
        fill_allocatable(in, document);
    return answer_object(in, 201, fake_shelf_put(in->fake, in->resource->id, document, in->arena));
}

/* A patch of capacity also changes allocatable, unless the patch sets it. */
static void kubelet_follows(struct ask *in, struct document *node, const struct document *patch)
{
    const struct document *capacity = document_at(patch, "status.capacity");

    if (in->resource->id != RES_NODES || capacity == NULL || capacity->kind != DOCUMENT_OBJECT ||
        document_at(patch, "status.allocatable") != NULL)
        return;
    struct document *allocatable =
        document_object(in->arena, document_object(in->arena, node, "status"), "allocatable");
    document_merge(in->arena, allocatable, capacity);
}

/*
 * Restores a part that this path must not change; removes it if old lacks it.
 */
static void rest_put_back(struct ask *in, struct document *document, const struct document *old,
                          const char *key)
{
    const struct document *part = document_get(old, key);

    if (part != NULL)
        document_set(in->arena, document, text_of(key), document_copy(in->arena, part));
    else
        document_remove(document, key);
}

/*
 * As in the API server, a patch of the main path silently ignores status, and a patch of /status
 * ignores spec.
 */
static void put_identity_back(struct ask *in, struct document *document, const struct document *old)
{
    static const char *const key[] = {"name", "namespace", "uid", "creationTimestamp",
                                      "deletionTimestamp"};
    struct document *meta = document_object(in->arena, document, "metadata");

    must(document_get(old, "metadata") != NULL);
    for (size_t i = 0; i < ARRAY_LEN(key); i++)
        rest_put_back(in, meta, document_get(old, "metadata"), key[i]);
    rest_put_back(in, document, old, "kind");
    rest_put_back(in, document, old, "apiVersion");
    if (strcmp(in->sub, "status") == 0)
        rest_put_back(in, document, old, "spec");
    else if (in->resource->status)
        rest_put_back(in, document, old, "status");
}

/*
 * A uid or resourceVersion in a patch is a precondition; the last check prevents binding a pod by a
 * patch.
 */
static int check_patch(struct ask *in, const struct document *patch, const struct document *old)
{
    const char *rv = document_str(patch, "metadata.resourceVersion");
    const char *uid = document_str(patch, "metadata.uid");
    const char *node = document_str(patch, "spec.nodeName");

    if (rv[0] != '\0' && strcmp(rv, document_str(old, "metadata.resourceVersion")) != 0)
        return fake_answer_status(in, 409, "Conflict",
                                  "Operation cannot be fulfilled on %s \"%s\": the object has "
                                  "been modified; please apply your changes to the latest "
                                  "version and try again",
                                  in->resource->plural, in->name);
    if (uid[0] != '\0' && strcmp(uid, document_str(old, "metadata.uid")) != 0)
        return fake_answer_status(in, 409, "Conflict",
                                  "Precondition failed: UID in precondition: %s, UID in object "
                                  "meta: %s",
                                  uid, document_str(old, "metadata.uid"));
    if (node[0] != '\0' && in->sub[0] == '\0' &&
        strcmp(node, document_str(old, "spec.nodeName")) != 0)
        return rest_invalid(in, in->name,
                            "spec: Forbidden: pod updates may not change spec.nodeName");
    return 0;
}

/*
 * Every content type is handled as a merge patch. old stays unchanged, for comparison and restores.
 */
static int rest_patch(struct ask *in)
{
    struct object *object = rest_find_named(in);
    struct document *patch_document;
    struct err err;

    if (object == NULL)
        return not_found(in);
    int status = parse_body(in, &patch_document);
    if (status != 0)
        return status;
    const struct document *old = parse_stored(in, object);
    struct document *document = parse_stored(in, object);
    status = check_patch(in, patch_document, old);
    if (status != 0)
        return status;
    document_merge(in->arena, document, patch_document);
    if (in->sub[0] != '\0')
        kubelet_follows(in, document, patch_document);
    put_identity_back(in, document, old);
    if (fake_check_metadata(document, &err) < 0)
        return bad_request(in, err.text);
    if (document_equal(document, old)) /* no write and no event, as in the API server */
        return answer_object(in, 200, object);
    return answer_object(in, 200, fake_shelf_put(in->fake, in->resource->id, document, in->arena));
}

/* Returns the grace period in s, from the query, the body, the pod, or the default of 30. */
static int64_t grace_of(const struct ask *in, const struct document *options,
                        const struct document *pod)
{
    const struct document *asked = document_get(options, "gracePeriodSeconds");
    const struct document *given = document_at(pod, "spec.terminationGracePeriodSeconds");
    int64_t seconds = GRACE_DEFAULT_S;

    if (document_str(pod, "spec.nodeName")[0] == '\0')
        return 0; /* unbound: no kubelet runs it */
    if (in->grace_s >= 0)
        return in->grace_s;
    if (asked == NULL)
        asked = given;
    if (asked != NULL && !rest_parse_count(asked->text.at, &seconds))
        seconds = GRACE_DEFAULT_S;
    return seconds;
}

/* As in the API server, answers with the last state of a pod, with a Status for other objects. */
static int delete_now(struct ask *in, struct object *object)
{
    const char *kind = in->resource->kind;
    const struct object *last = fake_shelf_take(in->fake, in->resource->id, object, in->arena);

    if (last != NULL && strcmp(kind, "Pod") == 0)
        return answer_object(in, 200, last);
    return fake_answer_status(in, 200, "", "%s", "");
}

/*
 * A bound pod is only marked as terminating: a kubelet would stop it and delete it again with a
 * grace period of 0, which the client must do here. A second mark has no effect.
 */
static int remove_object(struct ask *in)
{
    struct object *object = rest_find_named(in);
    struct document *options = NULL;

    if (object == NULL)
        return not_found(in);
    if (in->body.len > 0) {
        const int status = parse_body(in, &options);
        if (status != 0)
            return status;
    }
    const char *uid = document_str(options, "preconditions.uid");
    if (uid[0] != '\0' && strcmp(uid, object->uid) != 0)
        return fake_answer_status(in, 409, "Conflict",
                                  "Operation cannot be fulfilled on %s \"%s\": Precondition "
                                  "failed: UID in precondition: %s, UID in object meta: %s",
                                  in->resource->plural, in->name, uid, object->uid);
    struct document *document = parse_stored(in, object);
    const int64_t grace_s =
        in->resource->id == RES_PODS ? grace_of(in, options, document) : (int64_t)0;
    if (grace_s == 0)
        return delete_now(in, object);
    struct document *meta = document_object(in->arena, document, "metadata");
    if (document_str(meta, "deletionTimestamp")[0] != '\0')
        return answer_object(in, 200, object);
    document_set_str(in->arena, meta, "deletionTimestamp", fake_time(in->fake, in->arena));
    document_set(in->arena, meta, TEXT("deletionGracePeriodSeconds"),
                 document_new_int(in->arena, grace_s));
    return answer_object(in, 200, fake_shelf_put(in->fake, in->resource->id, document, in->arena));
}

/* Answers a watch of fake_apiserver_request() with the present events, without a stream. */
static int watch_once(struct ask *in)
{
    struct watching at = {0, false};
    /* An ERROR event is part of the answer. */
    (void)fake_watch_collect(in, &at, in->out);
    return 200;
}

static int on_collection(struct ask *in)
{
    if (in->verb == VERB_GET)
        return in->watch ? watch_once(in) : fake_answer_list(in);
    return in->verb == VERB_POST ? rest_create(in) : not_allowed(in);
}

static int on_object(struct ask *in)
{
    const struct object *object;

    switch (in->verb) {
    case VERB_GET:
        object = rest_find_named(in);
        return object != NULL ? answer_object(in, 200, object) : not_found(in);
    case VERB_PATCH:
        return rest_patch(in);
    case VERB_DELETE:
        return in->sub[0] == '\0' ? remove_object(in) : not_allowed(in);
    case VERB_POST:
    case VERB_OTHER:
        break;
    }
    return not_allowed(in);
}

/* ---- the few other paths ---- */

/*
 * The uid of kube-system is the cluster identity, so it is derived from the cluster's name and is
 * the same after a restart of the daemon.
 */
static int answer_namespace(struct ask *in, const char *name)
{
    const uint64_t seed = in->fake->seed;

    must(name[0] != '\0');
    strbuf_printf(in->out,
                  "{\"kind\":\"Namespace\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s\","
                  "\"uid\":\"%08x-%04x-4%03x-8%03x-%012llx\",\"resourceVersion\":\"1\"},"
                  "\"status\":{\"phase\":\"Active\"}}",
                  name, (unsigned)(seed >> 32), (unsigned)(seed >> 16 & 0xffff),
                  (unsigned)(seed & 0xfff), (unsigned)(seed >> 52 & 0xfff),
                  (unsigned long long)(seed * 0x9E3779B97F4A7C15U & 0xffffffffffffU));
    return 200;
}

/* Allows everything: a standalone cluster has no permissions. */
static int answer_review(struct ask *in)
{
    struct document *document;

    const int status = parse_body(in, &document);
    if (status != 0)
        return status;
    document_set(in->arena, document, TEXT("status"), document_new(in->arena, DOCUMENT_OBJECT));
    struct document *allowed = document_new(in->arena, DOCUMENT_BOOL);
    allowed->text = TEXT("true");
    document_set(in->arena, document_get(document, "status"), TEXT("allowed"), allowed);
    document_write(in->out, document);
    return 201;
}

/* Answers the other paths: cluster identity, permissions, version, health. */
static int answer_other(struct ask *in)
{
    const char *path = in->path;

    must(in->resource == NULL);
    if (in->verb == VERB_POST &&
        strcmp(path, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews") == 0)
        return answer_review(in);
    if (in->verb != VERB_GET)
        return not_found(in);
    if (strcmp(path, "/api/v1/namespaces/kube-system") == 0)
        return answer_namespace(in, "kube-system");
    if (strcmp(path, "/version") == 0) {
        strbuf_str(in->out, "{\"major\":\"1\",\"minor\":\"36\",\"gitVersion\":\"v1.36.0-fake\"}");
        return 200;
    }
    if (strcmp(path, "/readyz") == 0 || strcmp(path, "/livez") == 0) {
        strbuf_str(in->out, "ok");
        return 200;
    }
    return not_found(in);
}

/* Called under the lock. An unknown subresource gets 404, not 405. */
int fake_ask_answer(struct ask *in)
{
    if (in->resource == NULL)
        return answer_other(in);
    if (in->name[0] == '\0')
        return on_collection(in);
    if (strcmp(in->sub, "binding") == 0 && in->resource->id == RES_PODS)
        return in->verb == VERB_POST ? fake_answer_binding(in) : not_allowed(in);
    if (in->sub[0] != '\0' && !(in->resource->status && strcmp(in->sub, "status") == 0))
        return fake_answer_status(in, 404, "NotFound",
                                  "the server could not find the requested resource");
    return on_object(in);
}
