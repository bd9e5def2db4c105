/*
 * A specification of the CDI is refused with the name of its file, or its kind and the names of its
 * devices are such that KIND=NAME can be written; jansson finds the same in JSON.
 */
#include <string.h>

#include "agent/gpu/cdi.h"
#include "support.h"

#define SAFE "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."

static void check(const struct cdi_spec *spec)
{
    const char *slash = strchr(spec->kind, '/');
    must(slash != NULL && slash > spec->kind && slash[1] != '\0');
    must(strspn(spec->kind, SAFE "/") == strlen(spec->kind));
    must(strchr(slash + 1, '/') == NULL);
    must(spec->n_names > 0);
    for (uint32_t i = 0; i < spec->n_names; i++) {
        must(spec->name[i][0] != '\0');
        must(strspn(spec->name[i], SAFE ":") == strlen(spec->name[i]));
        must(i == 0 || strcmp(spec->name[i - 1], spec->name[i]) < 0);
    }
}

static bool has_name(const struct cdi_spec *spec, const char *name)
{
    for (uint32_t i = 0; i < spec->n_names; i++)
        if (strcmp(spec->name[i], name) == 0)
            return true;
    return false;
}

/* Only texts that both accept: our reader of files also takes YAML that begins like JSON. */
static void compare(const struct cdi_spec *spec, struct text bytes)
{
    struct second second = second_read(bytes);
    if (second.value == NULL)
        return;
    json_t *devices = json_object_get(second.value, "devices");
    must(second_says(json_object_get(second.value, "kind"), spec->kind));
    must(json_array_size(devices) == spec->n_names);
    for (size_t i = 0; i < json_array_size(devices); i++) {
        const json_t *name = json_object_get(json_array_get(devices, i), "name");
        must(json_is_string(name) && has_name(spec, json_string_value(name)));
    }
    json_decref(second.value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text bytes = {(const char *)data, size};
    const size_t before = heap_bytes();
    SCOPED_ARENA(arena);
    struct cdi_spec spec;
    struct err err;
    if (cdi_spec_read(bytes, "f.json", &arena, &spec, &err) == 0) {
        heap_is_bounded(before, size);
        check(&spec);
        if (size > 0 && data[0] == '{')
            compare(&spec, bytes);
    } else {
        must(strncmp(err.text, "f.json", strlen("f.json")) == 0);
    }
    return 0;
}
