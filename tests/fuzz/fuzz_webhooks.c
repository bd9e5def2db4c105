/*
 * Any body at any webhook is answered once, with JSON that speaks only of the names in the
 * question; the ledger survives. Names alone and the same names with their whole Node objects get
 * the same answer.
 *
 * Input: one letter for the webhook (f, p, b, else preempt), then the body.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/wire/extender/wire_extender.h"

#include "support_app.h"

static void ask(struct fuzz_app *fuzz, struct http_call *call)
{
    webhooks_handle(fuzz->parts.webhooks, call);
    fuzz_app_answer(fuzz, call);
    must(strcmp(call->type,
                call->status == 200 ? "application/json" : "application/problem+json") == 0);
}

static json_t *answer_of(const struct http_call *call)
{
    const struct second second = second_read((struct text){call->answer.data, call->answer.len});
    must(!second.refused && second.value != NULL);
    return second.value;
}

/* Whole Nodes come back as sent, including the parts that we skip, even if those are not UTF-8. */
static bool echoes_what_nobody_judges(const struct http_call *call)
{
    const struct second said = second_read((struct text){call->answer.data, call->answer.len});
    const struct second asked = second_read(call->body);
    const bool echoes =
        said.value == NULL && !said.refused && asked.value == NULL && !asked.refused;
    json_decref(said.value);
    json_decref(asked.value);
    return echoes;
}

static bool is_asked(const struct extender_args *args, json_t *name)
{
    const struct text text = {json_string_value(name), json_string_length(name)};
    for (uint32_t i = 0; i < args->n_names; i++)
        if (text_eq(args->name[i], text))
            return true;
    return false;
}

static void check_filter(const struct extender_args *args, json_t *answer)
{
    json_t *chosen = json_object_get(answer, "NodeNames");
    json_t *refused = json_object_get(answer, "FailedAndUnresolvableNodes");
    const char *name;
    json_t *value;
    size_t i;
    if (json_string_length(json_object_get(answer, "Error")) > 0) {
        must(json_is_null(chosen));
        return;
    }
    must(json_array_size(chosen) <= args->n_names && json_object_size(refused) <= args->n_names);
    must(args->n_names == 0 || json_array_size(chosen) > 0 || json_object_size(refused) > 0);
    json_array_foreach (chosen, i, value)
        must(is_asked(args, value));
    json_object_foreach (refused, name, value)
        must(json_string_length(value) > 0 && json_string_length(value) < REASON_BYTES_MAX);
}

/* The same question with Node objects; false if a node is not known to the cluster. */
static bool with_nodes(struct fuzz_app *fuzz, const struct extender_args *args, struct text pod,
                       struct strbuf *out)
{
    SCOPED_STRBUF(node);
    strbuf_printf(out, "{\"Pod\":%.*s,\"Nodes\":{\"items\":[", TEXT_ARG(pod));
    for (uint32_t i = 0; i < args->n_names; i++) {
        char path[64];
        /* A slash would make it a path to something else. */
        if (args->name[i].len > 8 || memchr(args->name[i].at, '/', args->name[i].len) != NULL)
            return false;
        (void)snprintf(path, sizeof path, "/api/v1/nodes/%.*s", TEXT_ARG(args->name[i]));
        strbuf_reset(&node);
        if (strcspn(path, "?%# ") != strlen(path) ||
            fake_apiserver_request(fuzz->app.fake, "GET", path, TEXT(""), &node) != 200)
            return false;
        strbuf_printf(out, "%s%s", i > 0 ? "," : "", node.data);
    }
    strbuf_str(out, "]}}");
    return true;
}

static struct text raw_pod(struct text body, struct arena *arena)
{
    static const char *const keys[] = {"Pod"};
    struct json_read_fields fields = JSON_FIELDS(keys);
    struct text pod = TEXT("");
    struct json_reader in;
    struct err err;
    int key;
    json_reader_init(&in, body, "body", arena, &err);
    must(json_read_object(&in));
    while (json_read_field(&in, &fields, &key))
        must(json_read_raw(&in, &pod));
    return pod;
}

static void same_answer(struct fuzz_app *fuzz, const struct http_call *first,
                        const struct extender_args *args, struct arena *arena)
{
    struct http_call call;
    SCOPED_STRBUF(body);
    if (args->full_nodes || !with_nodes(fuzz, args, raw_pod(first->body, arena), &body))
        return;
    http_call_init(&call, first->path);
    call.body = (struct text){body.data, body.len};
    fuzz_app_forget(fuzz);
    ask(fuzz, &call);
    json_t *names = answer_of(first);
    json_t *nodes = answer_of(&call);
    static const char *const keys[] = {"NodeNames", "FailedNodes", "FailedAndUnresolvableNodes",
                                       "Error"};
    if (json_is_array(names))
        must(json_equal(names, nodes));
    for (size_t i = 0; i < ARRAY_LEN(keys) && json_is_object(names); i++)
        must(json_equal(json_object_get(names, keys[i]), json_object_get(nodes, keys[i])));
    json_decref(names);
    json_decref(nodes);
    http_call_done(&call);
}

static void check_scores(const struct extender_args *args, json_t *answer)
{
    must(json_array_size(answer) == args->n_names);
    for (uint32_t i = 0; i < args->n_names; i++) {
        json_t *score = json_object_get(json_array_get(answer, i), "Score");
        must(json_integer_value(score) >= 0 && json_integer_value(score) <= 10);
        must(is_asked(args, json_object_get(json_array_get(answer, i), "Host")));
    }
}

static void check_args(struct fuzz_app *fuzz, struct http_call *call, bool scoring)
{
    struct extender_args args;
    SCOPED_ARENA(arena);
    struct err err;
    if (echoes_what_nobody_judges(call))
        return;
    json_t *answer = answer_of(call);
    const bool good = extender_args_decode(call->body, &fuzz->app.rules.wire_rules, NULL, &arena,
                                           &args, &err) == 0;
    must(good == (call->status == 200 &&
                  (scoring || json_string_length(json_object_get(answer, "Error")) == 0)));
    if (good && scoring)
        check_scores(&args, answer);
    if (good && !scoring)
        check_filter(&args, answer);
    if (good)
        same_answer(fuzz, call, &args, &arena);
    json_decref(answer);
}

/* A pod reported as bound is bound there, and the ledger agrees. */
static void check_bind(struct fuzz_app *fuzz, struct http_call *call)
{
    struct extender_bind bind;
    SCOPED_ARENA(arena);
    struct err err;
    json_t *answer = answer_of(call);
    json_t *error = json_object_get(answer, "Error");
    must(call->status == 200 && json_is_string(error));
    if (extender_bind_decode(call->body, &arena, &bind, &err) != 0) {
        must(strcmp(json_string_value(error), err.text) == 0);
    } else {
        if (json_string_length(error) == 0) {
            SCOPED_STRBUF(out);
            const char *path =
                arena_printf(&arena, "/api/v1/namespaces/%s/pods/%s", bind.namespace, bind.pod);
            must(fake_apiserver_request(fuzz->app.fake, "GET", path, TEXT(""), &out) == 200);
            const struct second pod = second_read((struct text){out.data, out.len});
            must(second_says(second_at(pod.value, "spec.nodeName"), bind.node));
            must(second_says(second_at(pod.value, "metadata.uid"), bind.uid));
            json_decref(pod.value);
        }
        fuzz_app_close(fuzz);
    }
    json_decref(answer);
}

static void check_preempt(struct http_call *call)
{
    const struct second asked = second_read(call->body);
    json_t *answer = answer_of(call);
    json_t *kept = json_object_get(answer, "NodeNameToMetaVictims");
    json_t *meta = second_field(asked.value, "NodeNameToMetaVictims");
    const char *name;
    json_t *value;
    must((call->status == 200) == (kept != NULL));
    json_object_foreach (kept, name, value) {
        json_t *victims = second_field(json_object_get(meta, name), "Pods");
        must(meta == NULL ||
             json_array_size(json_object_get(value, "Pods")) == json_array_size(victims));
    }
    json_decref(asked.value);
    json_decref(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pieces pieces = pieces_of(data, size);
    struct fuzz_app *fuzz = fuzz_app_take();
    const uint8_t webhook = pieces_byte(&pieces);
    const char *path = webhook == 'f'   ? "/scheduler/filter"
                       : webhook == 'p' ? "/scheduler/prioritize"
                       : webhook == 'b' ? "/scheduler/bind"
                                        : "/scheduler/preempt";
    struct http_call call;
    http_call_init(&call, path);
    call.body = pieces_rest(&pieces);
    fuzz_app_forget(fuzz);
    ask(fuzz, &call);
    if (webhook == 'b')
        check_bind(fuzz, &call);
    else if (webhook == 'f' || webhook == 'p')
        check_args(fuzz, &call, webhook == 'p');
    else
        check_preempt(&call);
    http_call_done(&call);
    return 0;
}
