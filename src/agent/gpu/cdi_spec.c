/* Parses one specification: its kind and the names of its devices. Called by cdi.c. */
#include <string.h>

#include "milligpu/document/document.h"

#include "cdi.h"

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* True for a part of a CDI name: letters and digits, and the others except at the ends. */
static bool cdi_is_name(struct text name, const char *others)
{
    if (name.len == 0 || !is_alphanumeric(name.at[0]) || !is_alphanumeric(name.at[name.len - 1]))
        return false;
    for (size_t i = 1; i + 1 < name.len; i++)
        if (!is_alphanumeric(name.at[i]) &&
            (name.at[i] == '\0' || strchr(others, name.at[i]) == NULL))
            return false;
    return true;
}

/* True for "vendor/class", both beginning with a letter. */
static bool is_kind(struct text kind)
{
    struct text rest = kind;
    struct text vendor;

    if (!text_cut(&rest, '/', &vendor) || rest.len == 0)
        return false;
    return cdi_is_name(vendor, "_-.") && cdi_is_name(rest, "_-.") &&
           text_lower(vendor.at[0]) >= 'a' && text_lower(rest.at[0]) >= 'a';
}

static bool has_edits(const struct document *device)
{
    const struct document *edits = document_get(device, "containerEdits");
    return edits != NULL && edits->kind == DOCUMENT_OBJECT && edits->count > 0;
}

static int fail(const char *file, const struct document *at, const char *what, struct err *err)
{
    return err_set(err, ERR_INVALID, "%s:%u:%u: %s", file, at->at.line, at->at.column, what);
}

static int compare_names(const void *a, const void *b)
{
    const char *const *first = a;
    const char *const *second = b;
    return strcmp(*first, *second);
}

static int read_devices(const struct document *devices, const char *file, struct arena *arena,
                        struct cdi_spec *out, struct err *err)
{
    out->name = arena_array(arena, devices->count, sizeof *out->name);
    document_each (device, devices) {
        const struct document *name = document_get(device, "name");
        if (name == NULL || name->kind != DOCUMENT_STRING || !cdi_is_name(name->text, "_-.:"))
            return fail(file, device, "a device has no name, or one that CDI does not allow", err);
        if (!has_edits(device))
            return fail(file, device, "a device has no containerEdits", err);
        out->name[out->n_names++] = name->text.at; /* terminated, and has no NUL */
    }
    /* Sorted to find duplicates in less than quadratic time. */
    qsort(out->name, out->n_names, sizeof *out->name, compare_names);
    for (uint32_t i = 1; i < out->n_names; i++)
        if (strcmp(out->name[i - 1], out->name[i]) == 0)
            return fail(file, devices, "two devices have the same name", err);
    return 0;
}

int cdi_spec_read(struct text bytes, const char *file, struct arena *arena, struct cdi_spec *out,
                  struct err *err)
{
    struct document *stream;

    if (document_parse_file(bytes, file, arena, &stream, err) < 0)
        return err_same(err);
    const struct document *spec = stream->first;
    if (spec == NULL || spec->kind != DOCUMENT_OBJECT)
        return err_set(err, ERR_INVALID, "%s: no CDI specification", file);
    const struct document *kind = document_get(spec, "kind");
    const struct document *devices = document_get(spec, "devices");
    if (document_str(spec, "cdiVersion")[0] == '\0')
        return fail(file, spec, "there is no cdiVersion", err);
    if (kind == NULL || kind->kind != DOCUMENT_STRING || !is_kind(kind->text))
        return fail(file, kind != NULL ? kind : spec, "kind is not vendor/class", err);
    if (devices == NULL || devices->kind != DOCUMENT_ARRAY || devices->count == 0)
        return fail(file, devices != NULL ? devices : spec, "there are no devices", err);
    *out = (struct cdi_spec){.kind = kind->text.at};
    return read_devices(devices, file, arena, out, err);
}
