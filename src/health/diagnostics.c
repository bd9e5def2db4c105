#include "health/diagnostics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/alloc.h"
#include "milligpu/command_trace.h"
#include "milligpu/metrics_page.h"
#include "milligpu/wire_admin.h"

#include "milligpu_version.h"

enum { CHUNK_BYTES = 1 << 16 };

struct diagnostics {
    struct app *app;
    FILE *file;
    struct strbuf text;
    const char *name; /* of the file that is being written */
    bool failed;
    struct err err; /* of the first that failed */
};

static void note_failure(struct diagnostics *bundle, const struct err *err)
{
    must(err->code != ERR_NONE);
    if (!bundle->failed)
        bundle->err = *err;
    bundle->failed = true;
}

static bool begin(struct diagnostics *bundle, const char *name)
{
    char path[SAFE_FOLDER_MAX + 64];
    struct err err;

    must(bundle->file == NULL);
    (void)snprintf(path, sizeof path, "%s/%s", bundle->app->safe.bundle, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bundle->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    bundle->name = name;
    strbuf_reset(&bundle->text);
    if (bundle->file != NULL)
        return true;
    (void)err_set(&err, ERR_IO, "%.300s: %m", path);
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
    note_failure(bundle, &err);
    return false;
}

/* What has come together, out; judged at the end. */
static void flush(struct diagnostics *bundle)
{
    must(bundle->file != NULL);
    (void)fwrite(bundle->text.data, 1, bundle->text.len, bundle->file);
    strbuf_reset(&bundle->text);
}

static void end(struct diagnostics *bundle)
{
    struct err err;

    flush(bundle);
    const bool written = ferror(bundle->file) == 0;
    const bool closed = fclose(bundle->file) == 0;
    bundle->file = NULL;
    must(bundle->name != NULL);
    if (written && closed)
        return;
    (void)err_set(&err, ERR_IO, "%s cannot be written: %m", bundle->name);
    note_failure(bundle, &err);
}

static void put_readme(struct diagnostics *bundle)
{
    const struct safe_mode *safe = &bundle->app->safe;
    char at[TIME_TEXT_BYTES];

    must(safe->bundle[0] != '\0');
    if (!begin(bundle, "README.txt"))
        return;
    time_format(safe->since_ms, at);
    strbuf_printf(
        &bundle->text,
        "milligpud %s (%s) stopped granting at %s.\n%s:\n\n    %s\n\n"
        "ledger.db       the ledger; check it with: milligpuctl verify ledger.db\n"
        "ledger.db-wal   its log, if only a raw copy could be made: keep the two together\n"
        "snapshot.json   nodes, GPUs and allocations as they were in memory\n"
        "commands.jsonl  the last %d commands at most, and what became of each\n"
        "settings.yaml   the settings in force, without the contents of any key file\n"
        "metrics.txt     /metrics of that moment\n\n"
        "These files name your nodes, namespaces and pods. Read them before you send them to "
        "anybody.\nWhat to do now: see \"When it says safe mode\" in README.md of milligpu.\n",
        MILLIGPU_VERSION, MILLIGPU_COMMIT, at, safe_mode_why(bundle->app), safe->text, RECENT_MAX);
    end(bundle);
}

static void put_ledger(struct diagnostics *bundle)
{
    char path[SAFE_FOLDER_MAX + 64];
    struct err err;

    must(bundle->app->store != NULL);
    (void)snprintf(path, sizeof path, "%s/ledger.db", bundle->app->safe.bundle);
    if (store_backup(bundle->app->store, path, &err) == 0)
        return;
    if (store_copy_raw(bundle->app->store, path, &err) < 0)
        note_failure(bundle, &err);
}

static void comma(struct diagnostics *bundle, bool *first)
{
    must(bundle->file != NULL);
    strbuf_str(&bundle->text, *first ? "\n" : ",\n");
    *first = false;
    if (bundle->text.len >= CHUNK_BYTES)
        flush(bundle);
}

static void put_nodes(struct diagnostics *bundle, const struct snapshot *snapshot)
{
    const struct node *node;
    bool first = true;
    uint32_t at = 0;
    struct json_writer json;

    must(snapshot != NULL);
    strbuf_str(&bundle->text, "\"nodes\":[");
    while ((node = snapshot_next(snapshot, &at)) != NULL) {
        comma(bundle, &first);
        json_writer_init(&json, &bundle->text);
        admin_node(&json, node, true);
    }
    strbuf_str(&bundle->text, "],\n");
}

static void put_allocations(struct diagnostics *bundle, const struct snapshot *snapshot)
{
    const struct node *node;
    bool first = true;
    uint32_t at = 0;
    struct json_writer json;

    must(snapshot != NULL);
    strbuf_str(&bundle->text, "\"allocations\":[");
    while ((node = snapshot_next(snapshot, &at)) != NULL)
        for (uint32_t i = 0; i < node->allocations; i++) {
            comma(bundle, &first);
            json_writer_init(&json, &bundle->text);
            admin_allocation(&json, node->allocation[i], node);
        }
    strbuf_str(&bundle->text, "]");
}

static void put_snapshot(struct diagnostics *bundle)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(bundle->app->view);

    must(bundle->app->view != NULL);
    if (snapshot == NULL || !begin(bundle, "snapshot.json"))
        return;
    strbuf_printf(&bundle->text, "{\"generation\":%llu,\n",
                  (unsigned long long)snapshot->generation);
    put_nodes(bundle, snapshot);
    put_allocations(bundle, snapshot);
    strbuf_str(&bundle->text, "}\n");
    end(bundle);
}

int diagnostics_write(struct app *app, struct err *err)
{
    struct diagnostics bundle = {.app = app};

    must(app->safe.bundle[0] != '\0');
    strbuf_init(&bundle.text);
    put_readme(&bundle);
    put_ledger(&bundle);
    put_snapshot(&bundle);
    if (app->command_trace != NULL && begin(&bundle, "commands.jsonl")) {
        command_trace_write(app->command_trace, &bundle.text);
        end(&bundle);
    }
    if (app->set != NULL && begin(&bundle, "settings.yaml")) {
        settings_print(&bundle.text, atomic_load(&app->set));
        end(&bundle);
    }
    if (begin(&bundle, "metrics.txt")) {
        metrics_page(app, &bundle.text);
        end(&bundle);
    }
    strbuf_done(&bundle.text);
    if (!bundle.failed)
        return 0;
    *err = bundle.err;
    return -(int)err->code;
}
