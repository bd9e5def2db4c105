/*
 * A cluster file is read or refused with its name; what was read can be listed, watched and
 * written to, and the lists, read as a cluster file again, give the same cluster.
 */
#include <string.h>

#include "milligpu/standin.h"
#include "milligpu/wire_kube.h"

#include "support.h"

static const struct wire_rules rules = {"nvidia.com/vgpu", "nvidia.com/gpu"};

static int64_t stopped(void *ctx)
{
    must(ctx == NULL);
    return 1700000000000;
}

static struct standin *make(void)
{
    struct standin *standin = standin_new("fuzz");
    standin_set_clock(standin, stopped, NULL);
    return standin;
}

static int ask(struct standin *standin, const char *path, struct strbuf *out)
{
    strbuf_reset(out);
    return standin_request(standin, "GET", path, TEXT(""), out);
}

/* Whatever is served, the decoders read or refuse. */
static int see(void *user, struct text bytes, struct err *err)
{
    struct pod pod;
    struct node_facts node;
    struct err why;
    must(err != NULL);
    (void)!pod_decode(bytes, &rules, user, &pod, &why);
    (void)!node_decode(bytes, &rules, user, &node, &why);
    return 0;
}

static void read_list(struct standin *standin, const char *path, struct strbuf *out)
{
    struct list_page page;
    struct arena arena;
    struct err err;
    arena_init(&arena);
    must(ask(standin, path, out) == 200);
    must(list_decode((struct text){out->data, out->len}, &arena, &arena, see, &page, &err) == 0);
    must(page.resource_version[0] != '\0');
    arena_done(&arena);
}

static void drop_version(json_t *list)
{
    json_t *item;
    size_t i;
    (void)json_object_del(json_object_get(list, "metadata"), "resourceVersion");
    json_array_foreach (json_object_get(list, "items"), i, item)
        (void)json_object_del(json_object_get(item, "metadata"), "resourceVersion");
}

/* The list of one kind as a file of its own. */
static void read_again(struct standin *standin, const char *path, struct strbuf *out)
{
    struct standin *copy = make();
    struct standin_counts counts;
    struct err err;
    CLEANUP(strbuf_done) struct strbuf again;
    strbuf_init(&again);
    read_list(standin, path, out);
    must(standin_load_text(copy, "again", (struct text){out->data, out->len}, &err) == 0);
    standin_counts(copy, &counts);
    must(counts.ignored == 0);
    must(ask(copy, path, &again) == 200);
    const struct second first = second_read((struct text){out->data, out->len});
    const struct second second = second_read((struct text){again.data, again.len});
    must(!first.refused && !second.refused);
    drop_version(first.value);
    drop_version(second.value);
    must(first.value == NULL || json_equal(first.value, second.value));
    json_decref(first.value);
    json_decref(second.value);
    standin_free(copy);
}

static void use(struct standin *standin)
{
    CLEANUP(strbuf_done) struct strbuf out;
    const struct text bell = TEXT("{\"metadata\":{\"annotations\":{\"milligpu.io/bell\":\"1\"}}}");

    strbuf_init(&out);
    read_again(standin, "/api/v1/pods", &out);
    read_again(standin, "/api/v1/nodes", &out);
    must(ask(standin, "/api/v1/nodes?watch=1", &out) == 200);
    const int status = standin_request(standin, "PATCH", "/api/v1/nodes/n1", bell, &out);
    must(status == 200 || status == 404 || status == 400);
    (void)standin_request(standin, "DELETE", "/api/v1/namespaces/default/pods/p", TEXT(""), &out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct standin *standin = make();
    const size_t before = heap_bytes();
    struct err err;

    if (standin_load_text(standin, "cluster", (struct text){(const char *)data, size}, &err) == 0) {
        heap_is_bounded(before, size);
        use(standin);
    } else {
        must(strncmp(err.text, "cluster", strlen("cluster")) == 0);
    }
    standin_free(standin);
    return 0;
}
