/*
 * Ring buffer of the last commands and their results. The writer adds entries; the verifier's
 * thread writes them to the diagnostics bundle, while the writer goes on.
 */
#include "milligpu/spine/command_trace.h"

#include "milligpu/base/alloc.h"
#include "milligpu/run/mutex.h"
#include "milligpu/wire/json/json.h"

/* Fixed sizes, so that the writer allocates nothing here; longer names are truncated. */
enum { UID_ROOM = 64, NAME_ROOM = 96, WHY_ROOM = 32 };

struct trace_entry {
    int64_t at_ms;
    enum command_kind kind;
    const char *outcome;
    uint32_t milli; /* requested, all containers together */
    char uid[UID_ROOM];
    char namespace[NAME_ROOM];
    char name[NAME_ROOM];
    char node[NAME_ROOM];
    char why[WHY_ROOM];
};

struct command_trace {
    struct mutex lock; /* guards the ring */
    uint64_t added;
    struct trace_entry entry[RECENT_MAX];
};

struct command_trace *command_trace_new(void)
{
    struct command_trace *command_trace = xcalloc(1, sizeof *command_trace);

    mutex_init(&command_trace->lock);
    return command_trace;
}

void command_trace_free(struct command_trace *command_trace)
{
    if (command_trace == NULL)
        return;
    mutex_done(&command_trace->lock);
    xfree(command_trace);
}

static uint32_t command_trace_asked(const struct request *request)
{
    uint32_t milli = 0;

    for (uint32_t i = 0; request != NULL && i < request->n_wants; i++) {
        must(request->want[i].parts > 0);
        milli += request->want[i].parts * request->want[i].milli;
    }
    return milli;
}

void command_trace_add(struct command_trace *command_trace, const struct command *command,
                       const char *outcome)
{
    if (command_trace == NULL)
        return;
    must(outcome != NULL);
    mutex_lock(&command_trace->lock);
    struct trace_entry *entry = &command_trace->entry[command_trace->added++ % RECENT_MAX];
    entry->at_ms = command->at_ms;
    entry->kind = command->kind;
    entry->outcome = outcome;
    entry->milli = command_trace_asked(command->request);
    text_clip(text_of(command->uid), entry->uid, sizeof entry->uid);
    text_clip(text_of(command->namespace), entry->namespace, sizeof entry->namespace);
    text_clip(text_of(command->name), entry->name, sizeof entry->name);
    text_clip(text_of(command->node), entry->node, sizeof entry->node);
    text_clip(text_of(command->why), entry->why, sizeof entry->why);
    mutex_unlock(&command_trace->lock);
}

static void put_text(struct json_writer *json, const char *key, const char *text)
{
    must(key[0] != '\0');
    if (text[0] == '\0')
        return;
    json_write_key(json, key);
    json_write_str(json, text);
}

static void put_entry(struct strbuf *out, const struct trace_entry *entry)
{
    struct json_writer json;

    must(entry->outcome != NULL);
    json_writer_init(&json, out);
    json_write_object(&json);
    json_write_key(&json, "atMs");
    json_write_i64(&json, entry->at_ms);
    put_text(&json, "command", command_name(entry->kind));
    put_text(&json, "outcome", entry->outcome);
    put_text(&json, "uid", entry->uid);
    put_text(&json, "namespace", entry->namespace);
    put_text(&json, "name", entry->name);
    put_text(&json, "node", entry->node);
    put_text(&json, "why", entry->why);
    if (entry->milli > 0) {
        json_write_key(&json, "milli");
        json_write_u64(&json, entry->milli);
    }
    json_write_object_end(&json);
    strbuf_char(out, '\n');
}

/*
 * Copies entry *number, counted since the start, or the oldest entry (and sets *number) if that one
 * is overwritten. False: end of the trace.
 */
static bool command_trace_copy_entry(struct command_trace *command_trace, uint64_t *number,
                                     struct trace_entry *out)
{
    mutex_lock(&command_trace->lock);
    if (command_trace->added > *number + RECENT_MAX)
        *number = command_trace->added - RECENT_MAX;
    const bool found = *number < command_trace->added;
    if (found)
        *out = command_trace->entry[*number % RECENT_MAX];
    mutex_unlock(&command_trace->lock);
    return found;
}

/*
 * Copies one entry at a time, because the writer waits for the lock. At most RECENT_MAX, since the
 * writer goes on adding.
 */
void command_trace_write(struct command_trace *command_trace, struct strbuf *out)
{
    struct trace_entry entry;
    size_t written = 0;

    must(command_trace != NULL && out != NULL);
    for (uint64_t i = 0;
         written < RECENT_MAX && command_trace_copy_entry(command_trace, &i, &entry);
         i++, written++)
        put_entry(out, &entry);
}
