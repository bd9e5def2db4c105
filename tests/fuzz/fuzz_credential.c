/*
 * The output of an exec plugin is a token, a certificate with its key, or both, or it is refused
 * with the name of the field; jansson finds the same.
 */
#include "kube/kube_exec.c"
#include "support.h"

static const char version[] = "client.authentication.k8s.io/v1";

static void same_as_second(const struct exec_answer *got, struct text text)
{
    const struct second second = second_read(text);
    must(!second.refused);
    if (second.value != NULL) {
        must(second_says(json_object_get(second.value, "kind"), "ExecCredential"));
        must(second_says(json_object_get(second.value, "apiVersion"), version));
        json_t *status = json_object_get(second.value, "status");
        const char *token = json_string_value(json_object_get(status, "token"));
        const char *cert = json_string_value(json_object_get(status, "clientCertificateData"));
        must((got->token != NULL) == (token != NULL && token[0] != '\0'));
        must(got->token == NULL || strcmp(got->token, token) == 0);
        must((got->cert != NULL) == (cert != NULL && cert[0] != '\0'));
        must(got->cert == NULL || strcmp(got->cert, cert) == 0);
    }
    json_decref(second.value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text text = {size > 0 ? (const char *)data : "", size};
    struct exec_answer got = {NULL, NULL, NULL, 0};
    const size_t before = heap_bytes();
    struct err err;
    if (read_credential(text, version, &got, &err) == 0) {
        heap_is_bounded(before, size);
        must(got.token != NULL || got.cert != NULL);
        must((got.cert == NULL) == (got.key == NULL));
        same_as_second(&got, text);
    } else {
        must(err.text[0] != '\0' && got.token == NULL && got.cert == NULL && got.key == NULL);
    }
    kube_exec_answer_done(&got);
    return 0;
}
