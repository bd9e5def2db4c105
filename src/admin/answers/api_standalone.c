/*
 * Handlers of standalone mode: list, create and delete objects of the fake API server. Called by
 * the router in an admin thread. Requests are forwarded to the fake API server, and its answers
 * become answers of REST.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/http/http.h"

#include "admin/api_internal.h"

/* --- reading, adding and removing objects in the copy of the cluster file --- */

/*
 * Without a fake API server, there is nothing to forward to; for a real cluster, operators use
 * kubectl with their own permissions.
 */
static bool has_standin(struct api_call *call)
{
    must(call->app != NULL);
    if (call->app->fake != NULL)
        return true;
    api_fail(call, 404,
             "this milligpud runs in a cluster: use kubectl to read, make and delete objects");
    return false;
}

/* Forwards a request; a Status from the fake API server becomes a problem document. */
static void api_standalone_forward(struct api_call *call, const char *method, const char *path,
                                   struct text body)
{
    struct strbuf answer;
    struct status said;

    must(call->body.len == 0);
    strbuf_init(&answer);
    const int status = fake_apiserver_request(call->app->fake, method, path, body, &answer);
    const struct text bytes = {answer.data, answer.len};
    if (status < 400) {
        strbuf_text(&call->body, bytes);
    } else {
        status_decode(bytes, &call->arena, &said);
        api_fail(call, status, "%s", said.message);
    }
    strbuf_done(&answer);
}

/* Adds an item; its bytes are JSON from the fake API server. */
static int add_object(void *user, struct text bytes, struct err *err)
{
    struct json_writer *json = user;

    must(bytes.len > 0);
    (void)err; /* cannot fail */
    json_write_raw(json, bytes);
    return 0;
}

/*
 * Converts a list of the fake API server; `continue` becomes a member of the list and has the fake
 * API server's token, so all pages show one moment.
 */
static void standalone_list(struct api_call *call, const char *path)
{
    CLEANUP(strbuf_done) struct strbuf answer;
    struct list_page page;
    struct json_writer json;
    struct status said;
    struct err err;

    strbuf_init(&answer);
    if (!has_standin(call))
        return;
    /* The token becomes part of a path; the schema in routes.def allows digits and a point. */
    must(call->after == NULL || strspn(call->after, "0123456789.") == strlen(call->after));
    const char *target = arena_printf(&call->arena, "%s?limit=%u%s%s", path, (unsigned)call->limit,
                                      call->after != NULL ? "&continue=" : "",
                                      call->after != NULL ? call->after : "");
    const int status =
        fake_apiserver_request(call->app->fake, "GET", target, (struct text){0}, &answer);
    const struct text bytes = {answer.data, answer.len};
    if (status >= 400) {
        status_decode(bytes, &call->arena, &said);
        api_fail(call, status, "%s", said.message);
        return;
    }
    json_writer_init(&json, &call->body);
    json_write_object(&json);
    json_write_key(&json, "items");
    json_write_array(&json);
    if (list_decode(bytes, &call->arena, &json, add_object, &page, &err) < 0) {
        api_fail_err(call, &err);
        return;
    }
    json_write_array_end(&json);
    api_continue(&json, page.continue_token[0] != '\0' ? page.continue_token : NULL);
    json_write_object_end(&json);
}

void api_standalone_nodes(struct api_call *call)
{
    standalone_list(call, "/api/v1/nodes");
}

void api_standalone_pods(struct api_call *call)
{
    standalone_list(call, "/api/v1/pods");
}

/*
 * Forwards the body unchanged to the fake API server, which validates it; only kind and names,
 * which make the path, are read here.
 */
void api_standalone_create(struct api_call *call)
{
    const struct text body = http_body(call->http);
    struct object_meta meta;
    struct err err;
    char path[400];

    if (!has_standin(call))
        return;
    if (meta_decode(body, &call->arena, &meta, &err) < 0) {
        (void)err_wrap(&err, "the body is not a Pod");
        api_fail(call, 400, "%s", err.text); /* also for a long name; 413 is for long bodies */
        return;
    }
    if (meta.kind[0] != '\0' && strcmp(meta.kind, "Pod") != 0) {
        api_fail(call, 400, "kind is %.60s: it is Pod", meta.kind);
        return;
    }
    const char *namespace = meta.namespace[0] != '\0' ? meta.namespace : "default";
    /* The namespace becomes part of a path. */
    if (!api_schema_check(call, TEXT("metadata.namespace"), api_place_schema(TEXT("namespace")),
                          namespace))
        return;
    const int used = snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods", namespace);
    must(used > 0 && (size_t)used < sizeof path);
    api_standalone_forward(call, "POST", path, body);
}

/* Deletes immediately: there is no kubelet that would end a pod within its grace period. */
void api_standalone_delete(struct api_call *call)
{
    char path[800];

    if (!has_standin(call))
        return;
    const int used =
        snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods/%s?gracePeriodSeconds=0",
                 call->segment[0], call->segment[1]);
    must(used > 0 && (size_t)used < sizeof path);
    api_standalone_forward(call, "DELETE", path, (struct text){0});
}
