/*
 * Reads the policy that the setting names, or the copy of its document stored in the ledger. Called
 * by daemon.c on the main thread: at the start, at SIGHUP and when the file has changed.
 */
#include "policy_source.h"

#include <string.h>
#include <sys/stat.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/arena.h"
#include "milligpu/document/policy/policy_document.h"
#include "milligpu/document/policy/zone_file.h"
#include "milligpu/run/file.h"
#include "milligpu/run/log.h"
#include "milligpu/store/store.h"

enum { NEVER_SEEN = 0 };

static const struct policy_edges edges = {.load_zone = zone_load, .read_file = file_read};

void policy_source_done(struct policy_source *source)
{
    xfree(source->word);
    rulebook_unref(source->last);
    source->word = NULL;
    source->last = NULL;
}

/* FNV-1a hash of the file's identity; follows links, which kubelet switches for ConfigMaps. */
static uint64_t print_of(const char *file)
{
    struct stat at;
    uint64_t print = 14695981039346656037U;

    must(file != NULL);
    if (!policy_is_path(file) || stat(file, &at) != 0)
        return print;
    const uint64_t facts[] = {(uint64_t)at.st_dev, (uint64_t)at.st_ino, (uint64_t)at.st_size,
                              (uint64_t)at.st_mtim.tv_sec, (uint64_t)at.st_mtim.tv_nsec};
    for (size_t i = 0; i < ARRAY_LEN(facts); i++)
        print = (print ^ facts[i]) * 1099511628211U;
    return print == NEVER_SEEN ? 1 : print;
}

/* Logs one line per warning; a policy with warnings is used all the same. */
static void report_warnings(const struct policy_source *source, const struct strbuf *warnings)
{
    struct text rest = {warnings->data, warnings->len};
    struct text line;

    while (!source->quiet && text_cut(&rest, '\n', &line)) {
        char text[ERR_TEXT_MAX];
        text_clip(line, text, sizeof text);
        if (text[0] != '\0')
            log_write(LOG_WARN, "policy", log_str("warning", text));
    }
}

/* Takes over the reference to book and returns another one. */
static const struct rulebook *remember(struct policy_source *source, const struct rulebook *book)
{
    must(book != NULL);
    rulebook_unref(source->last);
    source->last = book;
    return rulebook_ref(book);
}

int policy_source_read(struct policy_source *source, const char *word, const struct rulebook **out,
                       struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf warnings;
    /* Before the read, so that the next check detects a change in between. */
    const uint64_t print = print_of(word);
    char *copy = xstrdup(word);
    struct rulebook *book = NULL;

    must(out != NULL);
    *out = NULL;
    strbuf_init(&warnings);
    xfree(source->word);
    source->word = copy;
    source->seen = print;
    const int rc = policy_choose(word, &edges, &book, &warnings, err);
    report_warnings(source, &warnings);
    if (rc < 0)
        return err_wrap(err, "policy");
    if (source->last != NULL && rulebook_alike(source->last, book)) {
        rulebook_unref(book);
        return 0;
    }
    *out = remember(source, book);
    return 0;
}

int policy_source_read_kept(struct policy_source *source, const char *ledger,
                            const struct rulebook **out, struct err *why)
{
    CLEANUP(arena_done) struct arena arena;
    CLEANUP(strbuf_done) struct strbuf warnings;
    struct store_policy kept = {.name = NULL};
    struct rulebook *book = NULL;
    struct err err;

    must(why->code != ERR_NONE && source->word != NULL);
    arena_init(&arena);
    strbuf_init(&warnings);
    if (!policy_is_path(source->word) || strcmp(ledger, ":memory:") == 0)
        return err_same(why);
    int rc = store_kept_policy(ledger, &arena, &kept, &err);
    if (rc == 0 && kept.name == NULL)
        return err_same(why);
    if (rc == 0)
        rc = policy_keep_document(kept.document, kept.name, &edges, &book, &warnings, &err);
    if (rc < 0) {
        log_write(LOG_ERROR, "could not use the policy document that the ledger has kept",
                  log_str("error", err.text));
        return err_same(why);
    }
    report_warnings(source, &warnings);
    source->kept_ms = kept.read_ms;
    *out = remember(source, book);
    return 0;
}

bool policy_source_changed(const struct policy_source *source)
{
    return source->word != NULL && print_of(source->word) != source->seen;
}

void policy_source_again(struct policy_source *source)
{
    must(source->word != NULL);
    source->seen = NEVER_SEEN;
    rulebook_unref(source->last);
    source->last = NULL;
}
