/*
 * Any header line of an answer is accepted. The only one that counts, Retry-After, gives the
 * seconds that strtol reads, but at least 0 and at most an upper bound.
 */
#include "kube/kube_curl.c"
#include "support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pieces pieces = pieces_of(data, size);
    CLEANUP(xfreep) char *copy = xcalloc(size + 2, 1);
    struct curl_kube kube = {.config = NULL};
    struct curl_call call = {.kube = &kube, .headed = true};
    const struct text line = pieces_rest(&pieces);
    memcpy(copy, line.at, line.len);
    must(on_header(copy, 1, line.len, &call) == line.len);
    must(call.retry_after_s >= 0 && call.retry_after_s <= RETRY_AFTER_MAX_S);
    static const char name[] = "retry-after:";
    if (line.len <= strlen(name) || !curl_strnequal(copy, name, strlen(name))) {
        must(call.retry_after_s == 0);
        return 0;
    }
    const char *value = copy + strlen(name) + strspn(copy + strlen(name), " \t");
    const long seconds = value[0] >= '0' && value[0] <= '9' ? strtol(value, NULL, 10) : 0;
    must(call.retry_after_s == (seconds < RETRY_AFTER_MAX_S ? seconds : RETRY_AFTER_MAX_S));
    return 0;
}
