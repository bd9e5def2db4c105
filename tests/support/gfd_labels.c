#include "gfd_labels.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/base.h"

const struct gfd_label gfd_labels_fixed[] = {
#define LABEL(key, value) {key, value},
#include "gfd_labels.def"
#undef LABEL
    {NULL, NULL},
};

static bool is_changed(const char *key, const struct gfd_label *changes)
{
    for (; changes != NULL && changes->key != NULL; changes++)
        if (strcmp(changes->key, key) == 0)
            return true;
    return false;
}

static void add_label(struct strbuf *out, size_t from, const char *key, const char *value)
{
    if (value != NULL)
        strbuf_printf(out, "%s\"%s\":\"%s\"", out->len > from ? "," : "", key, value);
}

void gfd_labels(struct strbuf *out, uint32_t gpus, const char *product, uint32_t mib,
                const struct gfd_label *changes)
{
    const size_t from = out->len;
    char count[16];
    char memory[16];
    const struct gfd_label own[] = {{"nvidia.com/gpu.count", count},
                                    {"nvidia.com/gpu.product", product},
                                    {"nvidia.com/gpu.memory", mib > 0 ? memory : NULL}};

    (void)snprintf(count, sizeof count, "%u", gpus);
    (void)snprintf(memory, sizeof memory, "%u", mib);
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (!is_changed(own[i].key, changes))
            add_label(out, from, own[i].key, own[i].value);
    for (const struct gfd_label *label = gfd_labels_fixed; label->key != NULL; label++)
        if (!is_changed(label->key, changes))
            add_label(out, from, label->key, label->value);
    for (; changes != NULL && changes->key != NULL; changes++)
        add_label(out, from, changes->key, changes->value);
}
