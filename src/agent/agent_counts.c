/*
 * The numbers of the agent. Called by all of its threads; the page is written by the listener's.
 */
#include "agent/agent_counts.h"

#include <stdatomic.h>
#include <string.h>

static const struct {
    const char *name;
    const char *type;
    const char *label;
    const char *help;
} rows[] = {
#define X(id, name, type, label, help) {name, type, label, help},
    AGENT_COUNTS(X)
#undef X
};

static atomic_uint_fast64_t values[COUNTS];

void agent_count(enum agent_count id)
{
    must((size_t)id < COUNTS);
    (void)atomic_fetch_add(&values[id], 1);
}

void agent_count_set(enum agent_count id, uint64_t value)
{
    must((size_t)id < COUNTS);
    atomic_store(&values[id], value);
}

uint64_t agent_count_get(enum agent_count id)
{
    must((size_t)id < COUNTS);
    return atomic_load(&values[id]);
}

void agent_counts_write(struct strbuf *out)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const bool first = i == 0 || strcmp(rows[i - 1].name, rows[i].name) != 0;
        if (first)
            strbuf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", rows[i].name, rows[i].help,
                          rows[i].name, rows[i].type);
        strbuf_str(out, rows[i].name);
        if (rows[i].label[0] != '\0')
            strbuf_printf(out, "{%s}", rows[i].label);
        strbuf_printf(out, " %llu\n", (unsigned long long)atomic_load(&values[i]));
    }
}

/* One row for each name. */
void agent_counts_markdown(struct strbuf *out)
{
    strbuf_str(out, "| metric | type | label | meaning |\n| --- | --- | --- | --- |\n");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct text label = {rows[i].label, strcspn(rows[i].label, "=")};
        if (i > 0 && strcmp(rows[i - 1].name, rows[i].name) == 0)
            continue;
        strbuf_printf(out, "| `%s` | %s | %.*s | %s |\n", rows[i].name, rows[i].type,
                      TEXT_ARG(label), rows[i].help);
    }
}
