/*
 * A cluster file is read, or refused with its name. What was read can be listed, watched and
 * written to, and its lists, read again as a cluster file, give the same cluster.
 */
#include <string.h>

#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "support.h"

static const struct wire_rules rules = {.resource = "nvidia.com/vgpu",
                                        .whole_resource = "nvidia.com/gpu"};

static int64_t stopped(void *ctx)
{
    must(ctx == NULL);
    return 1700000000000;
}

static struct fake_apiserver *make(void)
{
    struct fake_apiserver *fake = fake_apiserver_new("fuzz");
    fake_apiserver_set_clock(fake, stopped, NULL);
    return fake;
}

static int ask(struct fake_apiserver *fake, const char *path, struct strbuf *out)
{
    strbuf_reset(out);
    return fake_apiserver_request(fake, "GET", path, TEXT(""), out);
}

/* Whatever is served, the decoders read or refuse it. */
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

static void read_list(struct fake_apiserver *fake, const char *path, struct strbuf *out)
{
    struct list_page page;
    SCOPED_ARENA(arena);
    struct err err;
    must(ask(fake, path, out) == 200);
    must(list_decode((struct text){out->data, out->len}, &arena, &arena, see, &page, &err) == 0);
    must(page.resource_version[0] != '\0');
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
static void read_again(struct fake_apiserver *fake, const char *path, struct strbuf *out)
{
    struct fake_apiserver *copy = make();
    struct fake_apiserver_counts counts;
    struct err err;
    SCOPED_STRBUF(again);
    read_list(fake, path, out);
    must(fake_apiserver_load_text(copy, "again", (struct text){out->data, out->len}, &err) == 0);
    fake_apiserver_counts(copy, &counts);
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
    fake_apiserver_free(copy);
}

static void use(struct fake_apiserver *fake)
{
    SCOPED_STRBUF(out);
    const struct text wake_object =
        TEXT("{\"metadata\":{\"annotations\":{\"milligpu.io/bell\":\"1\"}}}");

    read_again(fake, "/api/v1/pods", &out);
    read_again(fake, "/api/v1/nodes", &out);
    must(ask(fake, "/api/v1/nodes?watch=1", &out) == 200);
    const int status = fake_apiserver_request(fake, "PATCH", "/api/v1/nodes/n1", wake_object, &out);
    must(status == 200 || status == 404 || status == 400);
    (void)fake_apiserver_request(fake, "DELETE", "/api/v1/namespaces/default/pods/p", TEXT(""),
                                 &out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fake_apiserver *fake = make();
    const size_t before = heap_bytes();
    struct err err;

    if (fake_apiserver_load_text(fake, "cluster", (struct text){(const char *)data, size}, &err) ==
        0) {
        heap_is_bounded(before, size);
        use(fake);
    } else {
        must(strncmp(err.text, "cluster", strlen("cluster")) == 0);
    }
    fake_apiserver_free(fake);
    return 0;
}
