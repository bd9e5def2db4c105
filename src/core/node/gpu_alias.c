/*
 * The second name of a GPU: its alias. While a node shows UUIDs, each GPU has the alias
 * "<node>/gpu-<index>", which is hardly ever asked for: it matters only if a pod held the GPU
 * before the node showed UUIDs, or if somebody names it so. With 120,000 GPUs, such names would be
 * half of the ledger's names, so the index alone is kept, and the text is made when it is read.
 * Called by node.c, the ledger's drafts and the store; pure, any thread.
 */
#include <string.h>

#include "milligpu/core/node/node.h"

static const char alias_form[] = "/gpu-";

enum { FORM_BYTES = sizeof alias_form - 1, DIGITS_MAX = 5 /* of a uint16_t */ };

uint32_t gpu_alias_number(const struct atom *node, struct text name)
{
    const size_t head = (size_t)node->len + FORM_BYTES;
    uint32_t index = 0;

    must(name.at != NULL || name.len == 0);
    if (name.len <= head || name.len > head + DIGITS_MAX || node->len > NAME_BYTES_MAX)
        return 0;
    if (memcmp(name.at, node->text, node->len) != 0 ||
        memcmp(name.at + node->len, alias_form, FORM_BYTES) != 0)
        return 0;
    if (name.at[head] == '0' && name.len > head + 1)
        return 0;
    for (size_t i = head; i < name.len; i++) {
        if (name.at[i] < '0' || name.at[i] > '9')
            return 0;
        index = 10 * index + (uint32_t)(name.at[i] - '0');
    }
    must(index < 100000);
    return index <= UINT16_MAX ? index + 1 : 0;
}

const char *gpu_alias(const struct gpu *gpu, const struct atom *node, char buffer[GPU_ALIAS_BYTES])
{
    char digit[DIGITS_MAX];
    size_t digits = 0;

    must(gpu->alias == NULL || gpu->alias_number == 0);
    if (gpu->alias_number == 0)
        return gpu->alias != NULL ? gpu->alias->text : NULL;
    must(node->len <= NAME_BYTES_MAX && gpu->alias_number <= UINT16_MAX + 1);
    for (uint32_t index = gpu->alias_number - 1; digits == 0 || index > 0; index /= 10)
        digit[digits++] = (char)('0' + index % 10);
    memcpy(buffer, node->text, node->len);
    memcpy(buffer + node->len, alias_form, FORM_BYTES);
    char *end = buffer + node->len + FORM_BYTES;
    while (digits > 0)
        *end++ = digit[--digits];
    *end = '\0';
    return buffer;
}

void gpu_set_alias(struct gpu *gpu, const struct atom *node, struct text alias, struct names *names)
{
    must(names != NULL);
    gpu->alias_number = gpu_alias_number(node, alias);
    gpu->alias = gpu->alias_number == 0 ? names_intern(names, alias) : NULL;
    must(gpu_has_alias(gpu));
}

void gpu_copy_alias(struct gpu *to, const struct gpu *from)
{
    must(to != from);
    to->alias = from->alias;
    to->alias_number = from->alias_number;
    must(gpu_alias_same(to, from));
}

void gpu_drop_alias(struct gpu *gpu)
{
    must(gpu != NULL);
    gpu->alias = NULL;
    gpu->alias_number = 0;
    must(!gpu_has_alias(gpu));
}

bool gpu_alias_sound(const struct gpu *gpu, const struct atom *node)
{
    must(node != NULL);
    must(gpu->id != NULL);
    if (gpu->alias != NULL)
        return gpu->alias_number == 0 && gpu_alias_number(node, atom_text(gpu->alias)) == 0;
    return gpu->alias_number <= UINT16_MAX + 1;
}
