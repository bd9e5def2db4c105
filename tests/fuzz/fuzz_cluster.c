#include "milligpu/standin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was accepted can be listed, watched and written to. */
static void use(struct standin *standin)
{
    struct strbuf out;
    const struct text bell = TEXT("{\"metadata\":{\"annotations\":{\"milligpu.io/bell\":\"1\"}}}");

    strbuf_init(&out);
    must(standin_request(standin, "GET", "/api/v1/pods", TEXT(""), &out) == 200);
    must(standin_request(standin, "GET", "/api/v1/nodes?watch=1", TEXT(""), &out) == 200);
    const int status = standin_request(standin, "PATCH", "/api/v1/nodes/n1", bell, &out);
    must(status == 200 || status == 404 || status == 400);
    (void)standin_request(standin, "DELETE", "/api/v1/namespaces/default/pods/p", TEXT(""), &out);
    strbuf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct standin *standin = standin_new("fuzz");
    struct err err;

    if (standin_load_text(standin, "cluster", (struct text){(const char *)data, size}, &err) == 0)
        use(standin);
    else
        must(err.text[0] != '\0');
    standin_free(standin);
    return 0;
}
