/*
 * Any answer of the API server gives a Status, or a line that can be shown; jansson agrees. No
 * answer is read as a granted permission unless jansson reads it so.
 */
#include <string.h>

#include "milligpu/wire/kube/wire_kube.h"

#include "support.h"

enum { SHOWN_MAX = 200 };

static bool can_be_shown(const char *line)
{
    for (; *line != '\0'; line++)
        if (*line < 0x20 || *line == 0x7F)
            return false;
    return true;
}

static void read_as_review(struct text bytes, struct arena *arena, const struct second *second)
{
    struct err err = {ERR_NONE, ""};
    bool allowed = false;

    if (review_decode(bytes, arena, &allowed, &err) < 0) {
        must(!allowed && err.text[0] != '\0');
        return;
    }
    must(!second->refused);
    json_t *said = second_at(second->value, "status.allowed");
    must(second->value == NULL || (json_is_boolean(said) && json_is_true(said) == allowed));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text bytes = {size > 0 ? (const char *)data : "", size};
    const struct second second = second_read(bytes);
    const size_t before = heap_bytes();
    SCOPED_ARENA(arena);
    struct status status;
    status_decode(bytes, &arena, &status);
    heap_is_bounded(before, size);
    must(status.code >= 0 && status.code <= 999 && strlen(status.message) <= size);
    must(status.retry_after_s >= 0 && status.retry_after_s <= INT32_MAX);
    const bool is_status =
        json_is_object(second.value) && second_says(second_field(second.value, "kind"), "Status");
    if (second.refused || (second.value != NULL && !is_status)) {
        must(status.code == 0 && status.reason[0] == '\0' && status.retry_after_s == 0);
        must(strlen(status.message) == (size < SHOWN_MAX ? size : SHOWN_MAX));
        must(can_be_shown(status.message));
    } else if (is_status && (status.code != 0 || status.reason[0] != '\0')) {
        /* If one field has the wrong type, it is not a Status, and none of it is used. */
        must(json_number_value(second_field(second.value, "code")) == status.code);
        must(second_says(second_field(second.value, "reason"), status.reason));
        must(second_says(second_field(second.value, "message"), status.message));
        must(json_number_value(second_at(second.value, "details.retryAfterSeconds")) ==
             (double)status.retry_after_s);
    }
    read_as_review(bytes, &arena, &second);
    json_decref(second.value);
    return 0;
}
