/*
 * Encodes a Status as a real API server does, for every refusal and the few successes without an
 * object. Called by the other fake_ files; discards anything written to the answer before.
 */
#include <stdarg.h>
#include <stdio.h>

#include "fake_internal.h"

int fake_answer_status(struct ask *in, int code, const char *reason, const char *fmt, ...)
{
    va_list args;
    char text[1024];

    must(code >= 200 && code < 600);
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args); /* truncation is fine */
    va_end(args);
    strbuf_reset(in->out);
    strbuf_printf(in->out,
                  "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"%s\"",
                  code < 300 ? "Success" : "Failure");
    if (text[0] != '\0') {
        strbuf_str(in->out, ",\"message\":");
        strbuf_json(in->out, text_of(text));
    }
    if (reason[0] != '\0')
        strbuf_printf(in->out, ",\"reason\":\"%s\"", reason);
    if (code >= 400 && in->resource != NULL && in->name != NULL && in->name[0] != '\0') {
        strbuf_str(in->out, ",\"details\":{\"name\":");
        strbuf_json(in->out, text_of(in->name));
        strbuf_printf(in->out, ",\"kind\":\"%s\"}", in->resource->plural);
    }
    strbuf_printf(in->out, ",\"code\":%d}", code);
    return code;
}
