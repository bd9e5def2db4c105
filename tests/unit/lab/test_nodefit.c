/* Runs tests/unit/lab/nodefit.txt; the language is described at its top. */
#include <stdio.h>
#include <string.h>

#include "lab/cluster/nodefit.h"
#include "support/sentences.h"
#include "support/test.h"

enum { NODES = 16 };

static const char *const file = "tests/unit/lab/nodefit.txt";
static const char managed[] = "nvidia.com/vgpu";

struct table {
    struct arena arena;
    struct fit_node node[NODES];
    size_t n_nodes;
    struct fit_pod pod;
    int pod_status; /* of reading it */
    struct err err;
    bool err_seen;
    uint32_t line;
    unsigned judged;
    unsigned refused;
};

#define WRONG(table, ...)                                                                          \
    do {                                                                                           \
        print_error("%s:%u: ", file, (table)->line);                                               \
        print_error(__VA_ARGS__);                                                                  \
        fail_msg("\n%s:%u", file, (table)->line);                                                  \
    } while (0)

static struct document *yaml(struct table *table, const char *text)
{
    struct document *documents;
    struct err err;

    if (document_parse_yaml(text_of(text), &table->arena, &documents, &err) < 0)
        WRONG(table, "%s: %s", text, err.text);
    if (documents->count != 1)
        WRONG(table, "'%s' is not one document", text);
    return documents->first;
}

/* The rest of the line behind the word, or NULL. */
static const char *after(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0 ? text + strlen(word) : NULL;
}

static void move(struct table *table, const struct document *from, const char *key,
                 struct document *to)
{
    const struct document *value = document_get(from, key);
    if (value != NULL)
        document_set(&table->arena, to, text_of(key), document_copy(&table->arena, value));
}

static struct document *make_node(struct table *table, const char *name, const char *text)
{
    const struct document *brief = yaml(table, text);
    struct document *node = document_new(&table->arena, DOCUMENT_OBJECT);
    struct document *meta = document_object(&table->arena, node, "metadata");
    struct document *spec = document_object(&table->arena, node, "spec");

    document_set_str(&table->arena, meta, "name", name);
    move(table, brief, "labels", meta);
    move(table, brief, "unschedulable", spec);
    move(table, brief, "taints", spec);
    move(table, brief, "allocatable", document_object(&table->arena, node, "status"));
    return node;
}

static struct document *pod_of(struct table *table, const char *spec)
{
    struct document *pod = document_new(&table->arena, DOCUMENT_OBJECT);
    document_set(&table->arena, pod, TEXT("spec"), yaml(table, spec));
    return pod;
}

static struct fit_node *node_named(struct table *table, const char *name)
{
    for (size_t i = 0; i < table->n_nodes; i++)
        if (strcmp(table->node[i].name, name) == 0)
            return &table->node[i];
    WRONG(table, "no node %s", name);
    return NULL;
}

static void add_node(struct table *table, char *rest)
{
    char *text = strchr(rest, ' ');
    struct err err;

    if (text == NULL || table->n_nodes == NODES)
        WRONG(table, "a node is NAME YAML, and at most %d", NODES);
    *text++ = '\0';
    if (fit_node_read(&table->arena, make_node(table, rest, text), &table->node[table->n_nodes++],
                      &err) < 0)
        WRONG(table, "%s", err.text);
}

static void bad_node(struct table *table, char *rest)
{
    char *says = strstr(rest, "}: ");
    struct fit_node node;
    struct err err;

    if (says == NULL)
        WRONG(table, "a bad node is YAML: TEXT");
    says[1] = '\0';
    if (fit_node_read(&table->arena, make_node(table, "bad", rest), &node, &err) == 0)
        WRONG(table, "it was read");
    if (strstr(err.text, says + 3) == NULL)
        WRONG(table, "the error is %s", err.text);
    table->refused++;
}

static void check_error_seen(struct table *table)
{
    if (table->pod_status < 0 && !table->err_seen)
        WRONG(table, "the pod before was refused, and no sentence says so: %s", table->err.text);
}

static void take_pod(struct table *table, const char *spec)
{
    check_error_seen(table);
    table->pod_status = fit_pod_read(&table->arena, pod_of(table, spec), &table->pod, &table->err);
    table->err_seen = false;
}

/* why NULL: it fits. */
static void judge_all(struct table *table, char *names, const char *why, bool avoids)
{
    CLEANUP(strbuf_done) struct strbuf text;
    char *rest = NULL;

    strbuf_init(&text);
    if (table->pod_status < 0)
        WRONG(table, "the pod was refused: %s", table->err.text);
    for (char *name = strtok_r(names, " ", &rest); name != NULL;
         name = strtok_r(NULL, " ", &rest)) {
        const struct fit_node *node = node_named(table, name);
        const bool fits = fit_check(&table->pod, node, managed, &text);
        table->judged++;
        if (avoids && !fit_avoids(&table->pod, node))
            WRONG(table, "%s is not avoided", name);
        if (fits != (why == NULL) || strcmp(text.data, why != NULL ? why : "") != 0)
            WRONG(table, "%s: %s", name, fits ? "fits" : text.data);
    }
}

static void take_refused(struct table *table, const char *says)
{
    if (table->pod_status == 0)
        WRONG(table, "the pod was read");
    if (strstr(table->err.text, says) == NULL)
        WRONG(table, "the error is %s", table->err.text);
    table->err_seen = true;
    table->refused++;
}

static void take_runs(struct table *table, char *line)
{
    char *spec = strstr(line, " runs ");
    struct amount *requests;
    struct err err;

    if (spec == NULL)
        WRONG(table, "this is no sentence: %s", line);
    *spec = '\0';
    if (amounts_requested(&table->arena, pod_of(table, spec + strlen(" runs ")), &requests, &err) <
        0)
        WRONG(table, "%s", err.text);
    fit_node_take(&table->arena, node_named(table, line), requests);
}

static void sentence(struct table *table, char *line)
{
    const char *rest;

    if ((rest = after(line, "node ")) != NULL) {
        add_node(table, line + (rest - line));
    } else if ((rest = after(line, "bad node ")) != NULL) {
        bad_node(table, line + (rest - line));
    } else if (strcmp(line, "forget the nodes") == 0) {
        table->n_nodes = 0;
    } else if ((rest = after(line, "pod ")) != NULL) {
        take_pod(table, rest);
    } else if ((rest = after(line, "refused: ")) != NULL) {
        take_refused(table, rest);
    } else if ((rest = after(line, "fits ")) != NULL) {
        judge_all(table, line + (rest - line), NULL, false);
    } else if ((rest = after(line, "avoids ")) != NULL) {
        judge_all(table, line + (rest - line), NULL, true);
    } else if ((rest = after(line, "does not fit ")) != NULL) {
        char *why = strstr(line, ": ");
        if (why == NULL)
            WRONG(table, "why not?");
        *why = '\0';
        judge_all(table, line + (rest - line), why + 2, false);
    } else {
        take_runs(table, line);
    }
}

static void take_sentence(void *user, uint32_t line, char *text)
{
    struct table *table = user;

    table->line = line;
    sentence(table, text);
}

TEST(nodefit__agrees_with_its_table)
{
    struct table table = {.n_nodes = 0};

    arena_init(&table.arena);
    (void)sentences_each(file, &table, take_sentence);
    check_error_seen(&table);
    arena_done(&table.arena);
    assert_true(table.judged > 150);
    assert_true(table.refused > 30);
}
