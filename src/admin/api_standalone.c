#include <stdio.h>
#include <string.h>

#include "milligpu/fake_apiserver.h"
#include "milligpu/http.h"

#include "admin/api_internal.h"

/* --- adding and removing pods in the copy of the cluster file --- */

/*
 * Without a fake API server there is nothing to forward to; a real cluster has kubectl, with its
 * own permissions.
 */
static bool has_standin(struct api_call *call)
{
    must(call->app != NULL);
    if (call->app->fake != NULL)
        return true;
    api_fail(call, 404, "this milligpud runs in a cluster: use kubectl to make and delete pods");
    return false;
}

/* It becomes part of a path, so it must be a valid name in Kubernetes. */
static bool is_name(struct api_call *call, const char *what, const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
    const size_t bytes = strlen(name);

    must(what[0] != '\0');
    if (bytes > 0 && bytes <= NAME_BYTES_MAX && strspn(name, letters) == bytes && name[0] != '.')
        return true;
    api_fail(call, 400, "%s is \"%.253s\": it is lower-case letters, digits, '-' and '.'", what,
             name);
    return false;
}

/* The fake API server answers like an API server; its Status becomes our problem document. */
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

/*
 * The fake API server gets the same bytes and judges them; only what decides about the path is read
 * here.
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
        api_fail_err(call, &err);
        return;
    }
    if (meta.kind[0] != '\0' && strcmp(meta.kind, "Pod") != 0) {
        api_fail(call, 400, "kind is %.60s: it is Pod", meta.kind);
        return;
    }
    const char *namespace = meta.namespace[0] != '\0' ? meta.namespace : "default";
    if (!is_name(call, "metadata.namespace", namespace))
        return;
    const int used = snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods", namespace);
    must(used > 0 && (size_t)used < sizeof path);
    api_standalone_forward(call, "POST", path, body);
}

/* At once: no kubelet exists here that would end a pod within its grace period. */
void api_standalone_delete(struct api_call *call)
{
    char path[800];

    if (!has_standin(call) || !is_name(call, "the namespace", call->place[0]) ||
        !is_name(call, "the pod's name", call->place[1]))
        return;
    const int used =
        snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods/%s?gracePeriodSeconds=0",
                 call->place[0], call->place[1]);
    must(used > 0 && (size_t)used < sizeof path);
    api_standalone_forward(call, "DELETE", path, (struct text){0});
}
