/*
 * The command diagnostics: the data for a bug report in one archive, read over REST. A part that
 * fails becomes NAME.error with the reason, and the others are still written.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/wire/kube/wire_kube.h"

#include "ctl/commands.h"
#include "ctl/ctl.h"
#include "milligpu_version.h"
#include "new_file.h"
#include "tar.h"

#define FOLDER "milligpu-diagnostics/"

/* PART_LIST: all pages, as {"items":[...]}. */
enum part_kind { PART_AS_IT_IS, PART_LIST, PART_LEDGER };

struct bundle_part {
    const char *name;
    const char *path;
    enum part_kind kind;
    const char *text;
};

static const struct bundle_part parts[] = {
    {"doctor.json", "/api/v1/doctor", PART_AS_IT_IS, "what milligpud itself finds wrong"},
    {"summary.json", "/api/v1/summary", PART_AS_IT_IS, "the cluster in numbers"},
    {"nodes.json", "/api/v1/nodes", PART_LIST, "nodes and their GPUs, as they are in memory"},
    {"allocations.json", "/api/v1/allocations", PART_LIST, "which pod holds what, in memory"},
    {"waiting.json", "/api/v1/waiting", PART_LIST, "pods that wait, and why"},
    {"drift.json", "/api/v1/drift", PART_LIST, "where ledger and cluster disagree"},
    {"policy.json", "/api/v1/policy", PART_AS_IT_IS, "the policy that decides"},
    {"keys.json", "/api/v1/keys", PART_AS_IT_IS, "ids of the keys that sign, no private key"},
    {"settings.json", "/api/v1/settings", PART_LIST, "the settings in force"},
    {"commands.jsonl", "/api/v1/commands", PART_AS_IT_IS, "the last commands, with their results"},
    {"metrics.txt", "/metrics", PART_AS_IT_IS, "the metrics"},
    {"ledger.db", "/api/v1/backup", PART_LEDGER, "the ledger; check it by milligpuctl verify"},
};

struct bundle {
    struct ctl *ctl;
    const char *base;
    FILE *tar;
    int64_t at_s;
    size_t n_missing;
};

struct list_file {
    FILE *file;
    struct strbuf text;
    size_t items;
};

static int put_item(void *user, const struct document *item, struct err *err)
{
    struct list_file *list = user;

    strbuf_reset(&list->text);
    strbuf_str(&list->text, list->items++ == 0 ? "\n" : ",\n");
    document_write(&list->text, item);
    if (fwrite(list->text.data, 1, list->text.len, list->file) != list->text.len)
        return err_set(err, ERR_IO, "a temporary file: %m");
    return 0;
}

static int read_list(const struct bundle *bundle, const struct bundle_part *part, FILE *file,
                     struct err *err)
{
    struct list_file list = {.file = file};
    const struct client_each each = {part->path, &list, put_item};

    must(part->kind == PART_LIST);
    strbuf_init(&list.text);
    (void)fputs("{\"items\":[", file);
    const int failed = client_each(ctl_client(bundle->ctl), bundle->base, &each, err);
    (void)fputs("]}\n", file);
    strbuf_done(&list.text);
    return failed;
}

static int read_part(const struct bundle *bundle, const struct bundle_part *part, FILE *file,
                     struct err *err)
{
    int failed = part->kind == PART_LIST ? read_list(bundle, part, file, err)
                                         : client_download(ctl_client(bundle->ctl), bundle->base,
                                                           part->path, file, err);

    if (failed == 0 && (fflush(file) != 0 || ferror(file) != 0))
        failed = err_set(err, ERR_IO, "a temporary file: %m");
    return failed;
}

static int add_text(const struct bundle *bundle, const char *name, struct text text,
                    struct err *err)
{
    FILE *file = tmpfile();

    if (file == NULL)
        return err_set(err, ERR_IO, "a temporary file: %m");
    (void)fwrite(text.at, 1, text.len, file); /* checked in the next line */
    const int failed = fflush(file) != 0 ? err_set(err, ERR_IO, "a temporary file: %m")
                                         : tar_add(bundle->tar, name, file, bundle->at_s, err);
    (void)fclose(file); /* it is in the archive */
    return failed;
}

/* Fails only if the archive cannot be written. */
static int add_part(struct bundle *bundle, const struct bundle_part *part, struct err *err)
{
    struct arena *arena = &bundle->ctl->arena;
    struct err why;
    FILE *file = tmpfile();

    if (file == NULL)
        return err_set(err, ERR_IO, "a temporary file: %m");
    int failed;
    if (read_part(bundle, part, file, &why) == 0) {
        failed = tar_add(bundle->tar, arena_printf(arena, FOLDER "%s", part->name), file,
                         bundle->at_s, err);
    } else {
        bundle->n_missing++;
        (void)fprintf(bundle->ctl->err, "milligpuctl: %s is missing: %s\n", part->name, why.text);
        failed = add_text(bundle, arena_printf(arena, FOLDER "%s.error", part->name),
                          text_of(arena_printf(arena, "%s\n", why.text)), err);
    }
    (void)fclose(file); /* it is in the archive */
    return failed;
}

/* The first file, so that a truncated archive has it, too. */
static int add_readme(const struct bundle *bundle, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf text;
    char at[TIME_TEXT_BYTES];

    strbuf_init(&text);
    time_format(bundle->at_s * 1000, at);
    strbuf_printf(&text, "milligpuctl %s (%s) collected this at %s.\n\n", MILLIGPU_VERSION,
                  MILLIGPU_COMMIT, at);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        strbuf_printf(&text, "%-17s %s\n", parts[i].name, parts[i].text);
    strbuf_str(
        &text,
        "\nA part that could not be had is a file NAME.error that says why. Each part is of a "
        "moment of its own.\nThese files name your nodes, namespaces and pods. Read "
        "them before you send them to anyone.\n");
    return add_text(bundle, FOLDER "README.txt", (struct text){text.data, text.len}, err);
}

static int write_bundle(struct bundle *bundle, struct err *err)
{
    const bool has_ledger = bundle->ctl->options.given[OPTION_without_ledger] == NULL;

    must(bundle->tar != NULL);
    int failed = add_readme(bundle, err);
    for (size_t i = 0; failed == 0 && i < ARRAY_LEN(parts); i++)
        if (parts[i].kind != PART_LEDGER || has_ledger)
            failed = add_part(bundle, &parts[i], err);
    return failed == 0 ? tar_end(bundle->tar, err) : failed;
}

int command_diagnostics(struct ctl *ctl)
{
    const char *name = ctl->options.argument[0];
    struct bundle bundle = {.ctl = ctl, .at_s = ctl->screen.now_ms / 1000};
    struct new_file file;
    struct err err;

    must(ctl->options.n_arguments == 1);
    if (new_file_open(ctl, name, &file, &err) < 0)
        return err.code == ERR_INVALID ? ctl_misused(ctl, &err) : ctl_fail(ctl, &err);
    bundle.tar = file.file;
    if (ctl_base(ctl, &bundle.base, &err) < 0 || write_bundle(&bundle, &err) < 0) {
        new_file_drop(&file);
        return ctl_fail(ctl, &err);
    }
    const long long bytes = (long long)ftello(file.file);
    if (new_file_publish(ctl, &file, &err) < 0)
        return ctl_fail(ctl, &err);
    (void)fprintf(ctl->screen.out,
                  "%s: %lld bytes. It names nodes, namespaces and pods: read it "
                  "before you send it to anyone.\n",
                  name, bytes);
    return bundle.n_missing == 0 ? CTL_FINE : CTL_NO;
}
