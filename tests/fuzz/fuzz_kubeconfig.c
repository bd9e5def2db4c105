/*
 * A kubeconfig is read, or refused with file, line and key; written as JSON, it is read as the
 * same.
 */
#include <string.h>

#include "milligpu/document/document.h"
#include "milligpu/kube/kube.h"

#include "kube/config.h"
#include "support.h"

static const char file[] = "/nowhere/config";

static void same_text(const char *a, const char *b)
{
    must((a == NULL) == (b == NULL));
    must(a == NULL || strcmp(a, b) == 0);
}

static void same_source(const struct source *a, const struct source *b)
{
    same_text(a->file, b->file);
    must(a->len == b->len && (a->data == NULL) == (b->data == NULL));
    must(a->data == NULL || memcmp(a->data, b->data, a->len) == 0);
}

static void same_config(const struct kube_config *a, const struct kube_config *b)
{
    same_text(a->server, b->server);
    same_text(a->namespace, b->namespace);
    same_text(a->proxy, b->proxy);
    same_text(a->tls_name, b->tls_name);
    same_text(a->username, b->username);
    same_text(a->password, b->password);
    must(a->insecure == b->insecure);
    same_source(&a->ca, &b->ca);
    same_source(&a->cert, &b->cert);
    same_source(&a->key, &b->key);
    same_source(&a->token, &b->token);
}

static void check(const struct kube_config *config)
{
    const char *server = kube_config_server(config);
    must(strncmp(server, "http://", 7) == 0 || strncmp(server, "https://", 8) == 0 ||
         strcmp(server, "https:") == 0 || strcmp(server, "http:") == 0);
    must(strpbrk(server, "?# \t\r\n@") == NULL && server[strlen(server) - 1] != '/');
    must(kube_config_namespace(config) != NULL);
    must((config->cert.file != NULL || config->cert.data != NULL) ==
         (config->key.file != NULL || config->key.data != NULL));
}

/* The same document as JSON, which is YAML as well. */
static void read_as_json(struct text text, const struct kube_config *config)
{
    struct kube_config *again = NULL;
    struct document *documents = NULL;
    SCOPED_ARENA(arena);
    struct err err;
    SCOPED_STRBUF(json);
    must(document_parse_yaml(text, &arena, &documents, &err) == 0 && documents->count == 1);
    document_write(&json, documents->first);
    const struct text written = {json.data, json.len};
    struct document *same = NULL;
    /* Control characters beyond ASCII, which only YAML refuses in JSON, do not matter here. */
    if (document_parse_yaml(written, &arena, &same, &err) == 0) {
        must(document_equal(documents, same));
        must(kube_config_parse(written, file, NULL, &again, &err) == 0);
        same_config(config, again);
    }
    kube_config_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text text = {size > 0 ? (const char *)data : "", size};
    struct kube_config *config = NULL;
    const size_t before = heap_bytes();
    struct err err;
    if (kube_config_parse(text, file, NULL, &config, &err) == 0) {
        heap_is_bounded(before, size);
        check(config);
        read_as_json(text, config);
    } else {
        must(config == NULL && strncmp(err.text, file, strlen(file)) == 0);
    }
    kube_config_free(config);
    return 0;
}
