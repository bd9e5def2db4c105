/*
 * The command convert: reads manifests, writes them for milligpu, and prints remarks on standard
 * error. Reads all input first, so that a missing file ends it before any output.
 */
#include "convert.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/commands.h"
#include "ctl/ctl.h"

enum { READ_BYTES = 64 * 1024 };

struct convert_input {
    size_t begin; /* offset in the bytes of all inputs */
    size_t end;
    const char *name;
};

static void say_line(void *user, const char *line)
{
    const struct ctl *ctl = user;

    must(line[0] != '\0');
    (void)fprintf(ctl->err, "milligpuctl: %s\n", line);
}

static int read_stream(FILE *stream, const char *name, struct strbuf *all, struct err *err)
{
    char bytes[READ_BYTES];
    size_t got;

    must(all->len <= CONVERT_BYTES_MAX);
    while ((got = fread(bytes, 1, sizeof bytes, stream)) > 0) {
        if (all->len + got > CONVERT_BYTES_MAX)
            return err_set(err, ERR_TOO_LARGE, "%.200s: the input is larger than %d MiB", name,
                           CONVERT_BYTES_MAX / 1048576);
        strbuf_add(all, bytes, got);
    }
    return ferror(stream) != 0 ? err_set(err, ERR_IO, "%.200s: %m", name) : 0;
}

static int read_input(const char *file, struct strbuf *all, struct convert_input *out,
                      struct err *err)
{
    const bool is_stdin = strcmp(file, "-") == 0;
    FILE *stream = is_stdin ? stdin : fopen(file, "re");

    if (stream == NULL)
        return err_set(err, ERR_INVALID, "%.200s: %m", file);
    out->name = is_stdin ? "standard input" : file;
    out->begin = all->len;
    const int rc = read_stream(stream, out->name, all, err);
    out->end = all->len;
    if (!is_stdin)
        (void)fclose(stream); /* read-only */
    return rc;
}

/* --- options --- */

static int read_gpu_memory(const struct ctl *ctl, int64_t *out, struct err *err)
{
    const char *given = ctl->options.given[OPTION_gpu_memory];

    if (given == NULL)
        return 0;
    const size_t digits = strspn(given, "0123456789");
    const long long mib = digits < 10 ? strtoll(given, NULL, 10) : 0;
    if (digits == 0 || given[digits] != '\0' || mib == 0 || mib > CONVERT_GPU_MIB_MAX)
        return err_set(err, ERR_INVALID,
                       "--gpu-memory is %.60s: it must be the MiB of one GPU, as nvidia-smi shows "
                       "them, such as 40960",
                       given);
    *out = mib;
    return 0;
}

static int read_rules(const struct ctl *ctl, struct convert_rules *out, struct err *err)
{
    const char *const *given = ctl->options.given;
    size_t unit = 0;
    size_t peer = 0;

    *out = (struct convert_rules){.resource = "nvidia.com/vgpu"};
    if (given[OPTION_resource] != NULL)
        out->resource = given[OPTION_resource];
    if (strchr(out->resource, '/') == NULL)
        return err_set(err, ERR_INVALID,
                       "--resource is %.60s: it must be an extended resource, such as "
                       "nvidia.com/vgpu",
                       out->resource);
    if (read_gpu_memory(ctl, &out->gpu_mib, err) < 0 ||
        (given[OPTION_aliyun_unit] != NULL &&
         options_choice(&ctl->options, OPTION_aliyun_unit, &unit, err) < 0))
        return err_same(err);
    out->aliyun_mib = unit == 0 ? 1024 : 1;
    if (given[OPTION_from_peer] == NULL)
        return 0;
    if (options_choice(&ctl->options, OPTION_from_peer, &peer, err) < 0)
        return err_same(err);
    out->from = (enum convert_peer)(PEER_HAMI + peer);
    return 0;
}

/* --- output --- */

/* Adds a document separator between two inputs. */
static void separate(struct strbuf *out, struct text next)
{
    if (out->len == 0 || next.len == 0)
        return;
    if (out->data[out->len - 1] != '\n')
        strbuf_char(out, '\n');
    if (!text_starts(next, "---"))
        strbuf_str(out, "---\n");
}

static int read_inputs(struct ctl *ctl, struct strbuf *all, struct convert_input *input,
                       struct err *err)
{
    if (ctl->options.n_arguments == 0)
        return read_input("-", all, input, err);
    for (size_t i = 0; i < ctl->options.n_arguments; i++)
        if (read_input(ctl->options.argument[i], all, &input[i], err) < 0)
            return err_same(err);
    return 0;
}

int command_convert(struct ctl *ctl)
{
    CLEANUP(strbuf_done) struct strbuf all;
    CLEANUP(strbuf_done) struct strbuf out;
    struct conversion conversion = {.user = ctl, .say = say_line};
    const size_t inputs = ctl->options.n_arguments > 0 ? ctl->options.n_arguments : 1;
    struct convert_input *input = arena_array(&ctl->arena, inputs, sizeof *input);
    struct err err;

    strbuf_init(&all);
    strbuf_init(&out);
    if (read_rules(ctl, &conversion.rules, &err) < 0)
        return ctl_misused(ctl, &err);
    if (read_inputs(ctl, &all, input, &err) < 0)
        return ctl_fail(ctl, &err);
    for (size_t i = 0; i < inputs; i++) {
        const struct text bytes = {all.data + input[i].begin, input[i].end - input[i].begin};
        separate(&out, bytes);
        convert_text(&conversion, bytes, input[i].name, &out);
    }
    (void)fwrite(out.data, 1, out.len, ctl->screen.out); /* checked in ctl_finish() */
    return conversion.unconverted > 0 ? CTL_NO : CTL_FINE;
}
