/*
 * Counts the reasons of refused nodes. Called by play.c for each refused pod, and by simulate.
 * filter answers with an entry for each node, or for many nodes with one for each different text;
 * these are counted with the pod's view in REST, which has every node. Without it, the nodes are
 * counted together.
 */
#include "reasons.h"

#include <string.h>

#include "milligpu/base/map.h"
#include "milligpu/core/answer/filter.h"

/* Searches linearly, because there are few different texts. */
void reasons_add(struct node_reasons *reasons, const char *text, bool own, uint32_t nodes)
{
    struct node_reason **end = &reasons->first;

    must(text[0] != '\0');
    if (nodes == 0)
        return;
    while (*end != NULL && ((*end)->own != own || strcmp((*end)->text, text) != 0))
        end = &(*end)->next;
    if (*end == NULL) {
        *end = arena_alloc(reasons->arena, sizeof **end);
        **end = (struct node_reason){.text = arena_copy(reasons->arena, text_of(text)), .own = own};
    }
    (*end)->nodes += nodes;
    reasons->nodes += nodes;
}

/* --- the answer of filter --- */

/* Removes the suffix of a text for many nodes, which is redundant with a count. */
static const char *without_suffix(struct arena *arena, const char *text)
{
    const size_t all = strlen(text);
    const size_t end = strlen(FILTER_SPEAKS_FOR_ALL);

    must(end > 0);
    if (all < end || strcmp(text + all - end, FILTER_SPEAKS_FOR_ALL) != 0)
        return text;
    return arena_copy(arena, (struct text){text, all - end});
}

static const char *const entry_maps[] = {"FailedNodes", "FailedAndUnresolvableNodes"};

/* The number of entries in both maps; *out_same: all have the same text. */
static uint32_t count_entries(const struct document *answer, bool *out_same)
{
    const struct document *first = NULL;
    uint32_t count = 0;

    *out_same = true;
    for (size_t i = 0; i < ARRAY_LEN(entry_maps); i++)
        document_each (node, document_get(answer, entry_maps[i])) {
            if (first == NULL)
                first = node;
            if (!text_eq(first->text, node->text))
                *out_same = false;
            count++;
        }
    must(count > 1 || *out_same);
    return count;
}

bool reasons_are_counted(const struct document *names, const struct document *answer)
{
    bool same;

    must(names->kind == DOCUMENT_ARRAY);
    return count_entries(answer, &same) >= names->count || same;
}

/* Counts one node for every text of the answer. */
static void take_entries(const struct document *answer, struct node_reasons *out)
{
    must(out->nodes == 0);
    for (size_t i = 0; i < ARRAY_LEN(entry_maps); i++)
        document_each (node, document_get(answer, entry_maps[i])) {
            const char *text = node->shown != NULL ? node->shown : "";
            reasons_add(out, text[0] != '\0' ? without_suffix(out->arena, text) : "no reason",
                        false, 1);
        }
}

/* A single text applies to all nodes; for several texts, their numbers of nodes are unknown. */
static void take_together(struct node_reasons *reasons, const struct node_reasons *found,
                          uint32_t nodes)
{
    CLEANUP(strbuf_done) struct strbuf text;

    strbuf_init(&text);
    must(nodes > 0);
    for (const struct node_reason *at = found->first; at != NULL; at = at->next)
        strbuf_printf(&text, "%s%s", text.len > 0 ? ", or " : "", at->text);
    reasons_add(reasons, text.len > 0 ? text.data : "no reason was given", false, nodes);
}

static const char *verdict_text(const struct document *verdict)
{
    if (verdict == NULL)
        return "not known to milligpud";
    const char *text = document_shown(verdict, "text");
    must(text != NULL);
    return text[0] != '\0' ? text : "fits by now";
}

static void take_verdicts(struct node_reasons *reasons, const struct document *names,
                          const struct document *verdicts)
{
    struct map by_name;

    must(verdicts->kind == DOCUMENT_ARRAY);
    map_init(&by_name);
    for (struct document *at = verdicts->first; at != NULL; at = at->next)
        (void)map_put(&by_name, text_of(document_str(at, "name")), at); /* names are distinct */
    document_each (name, names)
        reasons_add(reasons, verdict_text(map_find(&by_name, name->text)), false, 1);
    map_done(&by_name);
}

void reasons_take(struct node_reasons *reasons, const struct document *names,
                  const struct document *answer, const struct document *verdicts)
{
    struct node_reasons found = {.arena = reasons->arena};
    const uint32_t before = reasons->nodes;

    must(names->kind == DOCUMENT_ARRAY);
    if (names->count == 0)
        return;
    take_entries(answer, &found);
    if (found.nodes == names->count)
        for (const struct node_reason *at = found.first; at != NULL; at = at->next)
            reasons_add(reasons, at->text, at->own, at->nodes);
    else if (verdicts != NULL && found.first != NULL && found.first->next != NULL)
        take_verdicts(reasons, names, verdicts);
    else
        take_together(reasons, &found, names->count);
    must(reasons->nodes == before + names->count);
}

/* --- writing --- */

/* Most nodes first; the order of equals is stable. */
static bool comes_before(const struct node_reason *a, const struct node_reason *b)
{
    must(a->nodes > 0);
    must(b->nodes > 0);
    return a->nodes != b->nodes ? a->nodes > b->nodes : strcmp(a->text, b->text) < 0;
}

static void reasons_sort(struct node_reasons *reasons)
{
    struct node_reason *sorted = NULL;

    for (struct node_reason *at = reasons->first, *next; at != NULL; at = next) {
        struct node_reason **place = &sorted;
        next = at->next;
        while (*place != NULL && comes_before(*place, at))
            place = &(*place)->next;
        at->next = *place;
        *place = at;
    }
    must((sorted == NULL) == (reasons->nodes == 0));
    reasons->first = sorted;
}

void reasons_write(struct node_reasons *reasons, struct strbuf *out)
{
    reasons_sort(reasons);
    must(out->len == 0);
    for (const struct node_reason *at = reasons->first; at != NULL; at = at->next) {
        strbuf_printf(out, "%s%u ", out->len > 0 ? "; " : "", (unsigned)at->nodes);
        if (!at->own)
            strbuf_str(out, at->nodes == 1 ? "node: " : "nodes: ");
        strbuf_str(out, at->text);
    }
}

struct document *reasons_document(struct node_reasons *reasons, struct arena *arena)
{
    struct document *list = document_new(arena, DOCUMENT_ARRAY);

    reasons_sort(reasons);
    for (const struct node_reason *at = reasons->first; at != NULL; at = at->next) {
        struct document *one = document_new(arena, DOCUMENT_OBJECT);
        document_set(arena, one, TEXT("nodes"), document_new_int(arena, at->nodes));
        document_set_str(arena, one, "text", at->text);
        document_append(list, one);
    }
    must(list->kind == DOCUMENT_ARRAY);
    return list;
}
