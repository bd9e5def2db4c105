/*
 * Reads what the setting policy names. Called by daemon.c at the start, at SIGHUP and when the file
 * has changed.
 */
#include "daemon/policy_source.h"

#include <string.h>
#include <sys/stat.h>

#include "milligpu/alloc.h"
#include "milligpu/file.h"
#include "milligpu/log.h"
#include "milligpu/policy_document.h"
#include "milligpu/zone_file.h"

enum { NEVER_SEEN = 0 };

void policy_source_done(struct policy_source *source)
{
    xfree(source->word);
    source->word = NULL;
}

/* Also behind a changed link, which is how kubelet replaces the files of a ConfigMap. */
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

/* One line each; what is probably not meant is no reason not to decide by it. */
static void tell_of_warnings(const struct strbuf *warnings)
{
    struct text rest = {warnings->data, warnings->len};
    struct text line;

    while (text_cut(&rest, '\n', &line)) {
        char text[ERR_TEXT_MAX];
        text_clip(line, text, sizeof text);
        if (text[0] != '\0')
            log_write(LOG_WARN, "policy", log_str("warning", text));
    }
}

int policy_source_read(struct policy_source *source, const char *word, struct rulebook **out,
                       struct err *err)
{
    static const struct policy_edges edges = {.load_zone = zone_load, .read_file = file_read};
    CLEANUP(strbuf_done) struct strbuf warnings;
    /* Before it is read: a change in between is found at the next look. */
    const uint64_t print = print_of(word);
    char *copy = xstrdup(word);

    must(out != NULL);
    strbuf_init(&warnings);
    xfree(source->word);
    source->word = copy;
    source->seen = print;
    const int rc = policy_choose(word, &edges, out, &warnings, err);
    tell_of_warnings(&warnings);
    return rc < 0 ? err_wrap(err, "policy") : 0;
}

bool policy_source_changed(const struct policy_source *source)
{
    return source->word != NULL && print_of(source->word) != source->seen;
}

void policy_source_again(struct policy_source *source)
{
    must(source->word != NULL);
    source->seen = NEVER_SEEN;
}
