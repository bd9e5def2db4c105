/* Any line of a watch, and any Status, is read or refused. */
#include <string.h>

#include "milligpu/wire_kube.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text bytes = {(const char *)data, size};
    struct arena arena;
    struct watch_event event;
    struct status status;
    struct err err;
    arena_init(&arena);
    if (watch_decode(bytes, &arena, &event, &err) == 0) {
        must(event.object.len > 0 && event.object.len <= size);
        must(event.resource_version != NULL && event.status.message != NULL);
    }
    status_decode(bytes, &arena, &status);
    must(status.code >= 0 && strlen(status.message) <= size);
    arena_done(&arena);
    return 0;
}
