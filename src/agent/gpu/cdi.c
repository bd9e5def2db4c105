/*
 * Caches the specifications of the CDI folders and resolves names. Called by the main thread for
 * each container with a share, and by the reporter's thread with a struct of its own. A file is
 * parsed only when it is new or changed.
 */
#include "cdi.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/run/file.h"

static const char *const kinds[] = {"nvidia.com/gpu", "k8s.device-plugin.nvidia.com/gpu",
                                    "milligpu.io/gpu"};
static_assert(ARRAY_LEN(kinds) == CDI_KINDS, "each kind has its name");

/* A file of a folder. */
struct cdi_entry {
    char *name;
    uint32_t folder; /* index in cdi.folder, which is its priority */
    struct stat stat;
    enum cdi_kind kind; /* CDI_KINDS if it is another kind, or unusable */
    char *why;          /* why it is unusable, a sentence; NULL if it is usable */
    char *names;        /* names of its devices, each terminated by NUL; NULL with CDI_KINDS */
    size_t names_bytes;
};

struct cdi {
    uint32_t n_folders;
    char *folder[CDI_FOLDERS_MAX];
    uint32_t n_entries;
    struct cdi_entry *entry[CDI_FILES_MAX];
    uint32_t left_out; /* files beyond CDI_FILES_MAX */
};

const char *cdi_kind_name(enum cdi_kind kind)
{
    must(kind < CDI_KINDS);
    return kinds[kind];
}

struct cdi *cdi_new(const char *const folder[], uint32_t folders)
{
    must(folders <= CDI_FOLDERS_MAX);

    struct cdi *cdi = xcalloc(1, sizeof *cdi);
    cdi->n_folders = folders;
    for (uint32_t i = 0; i < folders; i++)
        cdi->folder[i] = xstrdup(folder[i]);
    return cdi;
}

static void entry_free(struct cdi_entry *entry)
{
    if (entry == NULL)
        return;
    xfree(entry->name);
    xfree(entry->why);
    xfree(entry->names);
    xfree(entry);
}

void cdi_free(struct cdi *cdi)
{
    if (cdi == NULL)
        return;
    for (uint32_t i = 0; i < cdi->n_entries; i++)
        entry_free(cdi->entry[i]);
    for (uint32_t i = 0; i < cdi->n_folders; i++)
        xfree(cdi->folder[i]);
    xfree(cdi);
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void keep_names(struct cdi_entry *entry, const struct cdi_spec *spec)
{
    struct strbuf names;

    entry->kind = 0;
    while (entry->kind < CDI_KINDS && strcmp(kinds[entry->kind], spec->kind) != 0)
        entry->kind++;
    if (entry->kind == CDI_KINDS)
        return; /* its names are not needed */
    strbuf_init(&names);
    for (uint32_t i = 0; i < spec->n_names; i++)
        strbuf_add(&names, spec->name[i], strlen(spec->name[i]) + 1);
    entry->names_bytes = names.len;
    entry->names = strbuf_steal(&names);
}

static int read_entry(struct cdi_entry *entry, const char *file, struct err *err)
{
    CLEANUP(xfreep) char *bytes = NULL;
    CLEANUP(arena_done) struct arena arena;
    struct cdi_spec spec;
    size_t len;

    arena_init(&arena);
    /* Opening a pipe would block until a writer opens it. */
    if (!S_ISREG(entry->stat.st_mode))
        return err_set(err, ERR_INVALID, "%s: no regular file", file);
    if (file_read(file, CDI_FILE_BYTES_MAX, &bytes, &len, err) < 0)
        return err_same(err);
    if (cdi_spec_read((struct text){bytes, len}, file, &arena, &spec, err) < 0)
        return err_same(err);
    keep_names(entry, &spec);
    return 0;
}

static struct cdi_entry *entry_new(const struct cdi *cdi, uint32_t folder, const char *name,
                                   const struct stat *stat)
{
    struct cdi_entry *entry = xcalloc(1, sizeof *entry);
    struct strbuf file;
    struct err err;

    entry->name = xstrdup(name);
    entry->folder = folder;
    entry->stat = *stat;
    entry->kind = CDI_KINDS;
    strbuf_init(&file);
    strbuf_printf(&file, "%s/%s", cdi->folder[folder], name);
    if (read_entry(entry, file.data, &err) < 0)
        entry->why = xstrdup(err.text);
    strbuf_done(&file);
    return entry;
}

/* Removes and returns the entry of before for this file, if it is unchanged; else NULL. */
static struct cdi_entry *take_known(struct cdi *before, uint32_t folder, const char *name,
                                    const struct stat *stat)
{
    for (uint32_t i = 0; i < before->n_entries; i++) {
        struct cdi_entry *entry = before->entry[i];
        if (entry != NULL && entry->folder == folder && strcmp(entry->name, name) == 0 &&
            is_same_file(&entry->stat, stat))
            return STEAL(before->entry[i]);
    }
    return NULL;
}

static bool is_spec_name(const char *name)
{
    const char *ending = strrchr(name, '.');
    return ending != NULL && (strcmp(ending, ".json") == 0 || strcmp(ending, ".yaml") == 0);
}

/* A folder or file that disappears meanwhile counts as absent. */
static void look_at_folder(struct cdi *cdi, struct cdi *before, uint32_t folder)
{
    const struct dirent *file;
    struct stat stat;

    DIR *dir = opendir(cdi->folder[folder]);
    if (dir == NULL)
        return;
    while ((file = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): a stream of ours */
        if (!is_spec_name(file->d_name) || fstatat(dirfd(dir), file->d_name, &stat, 0) != 0 ||
            S_ISDIR(stat.st_mode))
            continue;
        if (cdi->n_entries == CDI_FILES_MAX) {
            cdi->left_out++;
            continue;
        }
        struct cdi_entry *entry = take_known(before, folder, file->d_name, &stat);
        if (entry == NULL)
            entry = entry_new(cdi, folder, file->d_name, &stat);
        cdi->entry[cdi->n_entries++] = entry;
    }
    (void)closedir(dir); /* only read */
}

static void look(struct cdi *cdi)
{
    struct cdi before = *cdi;

    cdi->n_entries = 0;
    cdi->left_out = 0;
    for (uint32_t i = 0; i < cdi->n_folders; i++)
        look_at_folder(cdi, &before, i);
    for (uint32_t i = 0; i < before.n_entries; i++)
        entry_free(before.entry[i]);
}

uint32_t cdi_skipped(const struct cdi *cdi, const char **why)
{
    uint32_t count = cdi->left_out;

    *why = count > 0 ? "there are more than CDI_FILES_MAX files" : "";
    for (uint32_t i = cdi->n_entries; i > 0; i--) {
        if (cdi->entry[i - 1]->why == NULL)
            continue;
        *why = cdi->entry[i - 1]->why;
        count++;
    }
    return count;
}

static bool has_name(const struct cdi_entry *entry, const char *name)
{
    const size_t len = strlen(name) + 1;

    for (size_t at = 0; at < entry->names_bytes; at += strlen(entry->names + at) + 1)
        if (entry->names_bytes - at >= len && memcmp(entry->names + at, name, len) == 0)
            return true;
    return false;
}

/* Rules 1 and 2 of cdi.h. Sets clash to two files of one folder that both define it, if any. */
static bool is_resolved(const struct cdi *cdi, enum cdi_kind kind, const char *uuid,
                        const struct cdi_entry *clash[2])
{
    const struct cdi_entry *of_folder[CDI_FOLDERS_MAX] = {NULL};
    bool is_named = false;

    for (uint32_t i = 0; i < cdi->n_entries; i++) {
        const struct cdi_entry *entry = cdi->entry[i];
        if (entry->kind != kind || !has_name(entry, uuid))
            continue;
        if (of_folder[entry->folder] != NULL) {
            clash[0] = of_folder[entry->folder];
            clash[1] = entry;
            return false;
        }
        of_folder[entry->folder] = entry;
        is_named = true;
    }
    return is_named;
}

/* Sets err, for the owner of the pod and the administrator of the node. */
static int refuse(const struct cdi *cdi, const char *uuid, const struct cdi_entry *const clash[2],
                  struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf more;
    const char *why;
    const uint32_t skipped = cdi_skipped(cdi, &why);

    strbuf_init(&more);
    if (clash[0] != NULL)
        strbuf_printf(&more, " %s and %s in %s name the same GPU: remove one.", clash[0]->name,
                      clash[1]->name, cdi->folder[clash[0]->folder]);
    if (skipped > 0)
        strbuf_printf(&more, " %u files cannot be used; the first: %s", skipped, why);
    return err_set(
        err, ERR_NOT_FOUND,
        "no CDI specification of this node names GPU %s in a way that the container "
        "runtime can resolve; the node's administrator can run \"nvidia-ctk cdi generate "
        "--output=" CDI_FOLDER_DYNAMIC
        "/nvidia.yaml\", or let milligpu-node write a specification.%s",
        uuid, more.data);
}

/* The first GPU that the kind does not name; NULL if it names all. */
static const char *first_unnamed(const struct cdi *cdi, enum cdi_kind kind,
                                 const char *const uuid[], uint32_t uuids,
                                 const struct cdi_entry *clash[2])
{
    for (uint32_t i = 0; i < uuids; i++)
        if (!is_resolved(cdi, kind, uuid[i], clash))
            return uuid[i];
    return NULL;
}

int cdi_find(struct cdi *cdi, const char *const uuid[], uint32_t uuids, enum cdi_kind *out,
             struct err *err)
{
    const struct cdi_entry *clash[2] = {NULL, NULL};
    const char *unnamed = NULL;

    must(uuids > 0);
    look(cdi);
    for (enum cdi_kind kind = 0; kind < CDI_KINDS; kind++) {
        const char *name = first_unnamed(cdi, kind, uuid, uuids, clash);
        if (name == NULL) {
            *out = kind;
            return 0;
        }
        if (unnamed == NULL)
            unnamed = name;
    }
    return refuse(cdi, unnamed, clash, err);
}

uint32_t cdi_named(struct cdi *cdi, const char *const uuid[], uint32_t uuids, enum cdi_kind *out)
{
    const struct cdi_entry *clash[2];
    uint32_t named = 0;

    *out = CDI_KINDS;
    look(cdi);
    for (uint32_t i = 0; i < uuids; i++) {
        enum cdi_kind kind = 0;
        while (kind < CDI_KINDS && !is_resolved(cdi, kind, uuid[i], clash))
            kind++;
        named += kind < CDI_KINDS;
        *out = kind < *out ? kind : *out;
    }
    return named;
}
