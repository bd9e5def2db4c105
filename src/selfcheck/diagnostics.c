/*
 * Writes the diagnostics bundle of safe mode into the folder that safe_mode_enter() has created.
 * Called once, by the verifier thread, so that its seconds delay no call. A file that fails does
 * not stop the others: on a bad disk, a part is better than nothing.
 */
#include "diagnostics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/selfcheck/metrics_page.h"
#include "milligpu/spine/command_trace.h"
#include "milligpu/wire/admin/wire_admin.h"

#include "milligpu_version.h"

/*
 * Text is written in chunks of this size, so that the text of 15,000 nodes is never in memory as a
 * whole.
 */
enum { CHUNK_BYTES = 1 << 16 };

struct diagnostics {
    struct app *app;
    FILE *file;
    struct strbuf text;
    const char *name; /* name of the current file */
    bool failed;
    struct err err; /* error of the first file that failed */
};

/* Keeps the first failure: later ones usually follow from it. */
static void note_failure(struct diagnostics *diagnostics, const struct err *err)
{
    must(err->code != ERR_NONE);
    if (!diagnostics->failed)
        diagnostics->err = *err;
    diagnostics->failed = true;
}

/*
 * O_EXCL, because the folder is new and an existing file is not ours. Mode 0600, because the files
 * contain names of pods.
 */
static bool diagnostics_begin(struct diagnostics *diagnostics, const char *name)
{
    char path[SAFE_FOLDER_MAX + 64];
    struct err err;

    must(diagnostics->file == NULL);
    (void)snprintf(path, sizeof path, "%s/%s", diagnostics->app->health.safe.folder, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    diagnostics->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    diagnostics->name = name;
    strbuf_reset(&diagnostics->text);
    if (diagnostics->file != NULL)
        return true;
    (void)err_set(&err, ERR_IO, "%.300s: %m", path);
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
    note_failure(diagnostics, &err);
    return false;
}

/* Writes the buffered text; errors are checked at the end. */
static void diagnostics_flush(struct diagnostics *diagnostics)
{
    must(diagnostics->file != NULL);
    (void)fwrite(diagnostics->text.data, 1, diagnostics->text.len, diagnostics->file);
    strbuf_reset(&diagnostics->text);
}

/* fclose() is checked, too: a full disk may be reported only there. */
static void diagnostics_end(struct diagnostics *diagnostics)
{
    struct err err;

    diagnostics_flush(diagnostics);
    const bool written = ferror(diagnostics->file) == 0;
    const bool closed = fclose(diagnostics->file) == 0;
    diagnostics->file = NULL;
    must(diagnostics->name != NULL);
    if (written && closed)
        return;
    (void)err_set(&err, ERR_IO, "%s cannot be written: %m", diagnostics->name);
    note_failure(diagnostics, &err);
}

/* Written first, so that an incomplete bundle has an explanation. */
static void put_readme(struct diagnostics *diagnostics)
{
    const struct safe_mode *safe = &diagnostics->app->health.safe;
    char at[TIME_TEXT_BYTES];

    must(safe->folder[0] != '\0');
    if (!diagnostics_begin(diagnostics, "README.txt"))
        return;
    time_format(safe->since_ms, at);
    strbuf_printf(
        &diagnostics->text,
        "milligpud %s (%s) stopped granting at %s.\n%s:\n\n    %s\n\n"
        "ledger.db       the ledger; verify it with: milligpuctl verify ledger.db\n"
        "ledger.db-wal   its log, if only a raw copy could be made: keep both files together\n"
        "snapshot.json   nodes, GPUs and allocations as they were in memory\n"
        "commands.jsonl  the last commands (at most %d), with their results\n"
        "settings.yaml   the settings in force, without the contents of any key file\n"
        "metrics.txt     /metrics at that time\n\n"
        "These files name your nodes, namespaces and pods. Read them before you send them to "
        "anyone.\nWhat to do now: see \"Safe mode\" in docs/operate/backup.md of milligpu.\n",
        MILLIGPU_VERSION, MILLIGPU_COMMIT, at, safe_mode_why(diagnostics->app), safe->text,
        RECENT_MAX);
    diagnostics_end(diagnostics);
}

/*
 * Uses SQLite's backup, which makes one consistent file. If that fails on a damaged file, copies
 * the raw bytes and the log beside them, which is safe because nothing is written in safe mode.
 */
static void put_ledger(struct diagnostics *diagnostics)
{
    char path[SAFE_FOLDER_MAX + 64];
    struct err err;

    must(diagnostics->app->store != NULL);
    (void)snprintf(path, sizeof path, "%s/ledger.db", diagnostics->app->health.safe.folder);
    if (store_backup(diagnostics->app->store, path, &err) == 0)
        return;
    if (store_copy_raw(diagnostics->app->store, path, &err) < 0)
        note_failure(diagnostics, &err);
}

static void diagnostics_comma(struct diagnostics *diagnostics, bool *first)
{
    must(diagnostics->file != NULL);
    strbuf_str(&diagnostics->text, *first ? "\n" : ",\n");
    *first = false;
    if (diagnostics->text.len >= CHUNK_BYTES)
        diagnostics_flush(diagnostics);
}

static void put_nodes(struct diagnostics *diagnostics, const struct snapshot *snapshot)
{
    CLEANUP(fragments_freep) struct fragments *fragments = fragments_new_for(snapshot);
    const struct node *node;
    bool first = true;
    uint32_t at = 0;
    struct json_writer json;

    must(snapshot != NULL);
    strbuf_str(&diagnostics->text, "\"nodes\":[");
    while ((node = snapshot_next(snapshot, &at)) != NULL) {
        diagnostics_comma(diagnostics, &first);
        json_writer_init(&json, &diagnostics->text);
        admin_node(&json, node, fragments, NULL, true);
    }
    strbuf_str(&diagnostics->text, "],\n");
}

static void put_allocations(struct diagnostics *diagnostics, const struct snapshot *snapshot)
{
    const struct node *node;
    bool first = true;
    uint32_t at = 0;
    struct json_writer json;

    must(snapshot != NULL);
    strbuf_str(&diagnostics->text, "\"allocations\":[");
    while ((node = snapshot_next(snapshot, &at)) != NULL)
        for (uint32_t i = 0; i < node->n_allocations; i++) {
            diagnostics_comma(diagnostics, &first);
            json_writer_init(&json, &diagnostics->text);
            admin_allocation(&json, node->allocation[i], node, NULL);
        }
    strbuf_str(&diagnostics->text, "]");
}

/* The ledger in memory, in the format of REST. */
static void put_snapshot(struct diagnostics *diagnostics)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(diagnostics->app->view);

    must(diagnostics->app->view != NULL);
    if (snapshot == NULL || !diagnostics_begin(diagnostics, "snapshot.json"))
        return;
    strbuf_printf(&diagnostics->text, "{\"generation\":%llu,\n",
                  (unsigned long long)snapshot->generation);
    put_nodes(diagnostics, snapshot);
    put_allocations(diagnostics, snapshot);
    strbuf_str(&diagnostics->text, "}\n");
    diagnostics_end(diagnostics);
}

/* Most useful files first, in case the disk fills up: explanation, evidence, context. */
int diagnostics_write(struct app *app, struct err *err)
{
    struct diagnostics diagnostics = {.app = app};

    must(app->health.safe.folder[0] != '\0');
    strbuf_init(&diagnostics.text);
    put_readme(&diagnostics);
    put_ledger(&diagnostics);
    put_snapshot(&diagnostics);
    if (app->command_trace != NULL && diagnostics_begin(&diagnostics, "commands.jsonl")) {
        command_trace_write(app->command_trace, &diagnostics.text);
        diagnostics_end(&diagnostics);
    }
    if (app->set != NULL && diagnostics_begin(&diagnostics, "settings.yaml")) {
        settings_print(&diagnostics.text, atomic_load(&app->set));
        diagnostics_end(&diagnostics);
    }
    if (diagnostics_begin(&diagnostics, "metrics.txt")) {
        metrics_page(app, &diagnostics.text, METRIC_PLAIN);
        diagnostics_end(&diagnostics);
    }
    strbuf_done(&diagnostics.text);
    if (!diagnostics.failed)
        return 0;
    *err = diagnostics.err;
    return -(int)err->code;
}
