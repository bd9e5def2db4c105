#include "support/disk_plate.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/random.h"

enum { SECTOR = 512, NAMES_PER_CHANGE = 2 };

struct name {
    char *name;
    struct plate_file *file; /* NULL: no file has this name */
};

struct meaning {
    const char *name;
    struct plate_file *file;
};

struct names {
    struct name *name;
    size_t count;
    size_t room;
};

/* One change of the folder; a rename changes two names at once. */
struct name_change {
    struct name name[NAMES_PER_CHANGE];
};

static struct plate_file **files;
static size_t file_count;
static size_t file_room;
static uint32_t next_number;
static struct names now;
static struct names synced;
static struct name_change *renamings;
static size_t renaming_count;
static size_t renaming_room;
static void *watch_user;
static void (*watch_event)(void *user, const struct disk_event *event);

static void tell(struct disk_event event)
{
    if (watch_event != NULL)
        watch_event(watch_user, &event);
}

void plate_watch(void *user, void (*event)(void *user, const struct disk_event *event))
{
    watch_user = user;
    watch_event = event;
}

static void bytes_reserve(struct plate_bytes *bytes, size_t len)
{
    if (len <= bytes->room)
        return;
    bytes->room = len < 2 * bytes->room ? 2 * bytes->room : len + 4096;
    bytes->at = xrealloc(bytes->at, bytes->room, 1);
}

static void bytes_resize(struct plate_bytes *bytes, size_t len)
{
    bytes_reserve(bytes, len);
    if (len > bytes->len)
        memset(bytes->at + bytes->len, 0, len - bytes->len);
    bytes->len = len;
}

static void bytes_put(struct plate_bytes *bytes, size_t at, const char *from, size_t len)
{
    if (len == 0)
        return;
    if (at + len > bytes->len)
        bytes_resize(bytes, at + len);
    memcpy(bytes->at + at, from, len);
}

static void bytes_copy(struct plate_bytes *to, const struct plate_bytes *from)
{
    to->len = 0;
    bytes_put(to, 0, from->at, from->len);
}

static struct name *names_find(const struct names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->name[i].name, name) == 0)
            return &names->name[i];
    return NULL;
}

static void names_set(struct names *names, struct meaning set)
{
    struct name *is = names_find(names, set.name);
    if (is != NULL) {
        is->file = set.file;
        return;
    }
    names->name = xgrow(names->name, names->count, &names->room, sizeof *names->name);
    names->name[names->count++] = (struct name){xstrdup(set.name), set.file};
}

static void names_clear(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        xfree(names->name[i].name);
    names->count = 0;
}

static bool names_hold(const struct names *names, const struct plate_file *file)
{
    for (size_t i = 0; i < names->count; i++)
        if (names->name[i].file == file)
            return true;
    return false;
}

static void renamings_clear(void)
{
    for (size_t i = 0; i < renaming_count; i++)
        for (size_t k = 0; k < NAMES_PER_CHANGE; k++)
            xfree(renamings[i].name[k].name);
    renaming_count = 0;
}

static void names_apply(struct names *names, const struct name_change *change)
{
    for (size_t k = 0; k < NAMES_PER_CHANGE; k++) {
        const struct name *is = &change->name[k];
        if (is->name != NULL)
            names_set(names, (struct meaning){is->name, is->file});
    }
}

static struct name noted(struct meaning meaning)
{
    return (struct name){meaning.name != NULL ? xstrdup(meaning.name) : NULL, meaning.file};
}

static void change_names(struct meaning one, struct meaning two)
{
    const struct name_change change = {.name = {noted(one), noted(two)}};
    names_apply(&now, &change);
    renamings = xgrow(renamings, renaming_count, &renaming_room, sizeof *renamings);
    renamings[renaming_count++] = change;
}

struct plate_file *plate_find(const char *name)
{
    const struct name *is = names_find(&now, name);
    return is != NULL ? is->file : NULL;
}

struct plate_file *plate_make(const char *name)
{
    struct plate_file *file = xcalloc(1, sizeof *file);
    file->number = next_number++;
    file->nameless = name == NULL;
    if (name == NULL)
        return file;
    files = xgrow(files, file_count, &file_room, sizeof(struct plate_file *));
    files[file_count++] = file;
    change_names((struct meaning){name, file}, (struct meaning){NULL, NULL});
    tell((struct disk_event){.kind = DISK_NAMED, .file = file->number, .name = name});
    return file;
}

static void shm_free(struct plate_shm *shm)
{
    must(shm->users == 0);
    for (size_t i = 0; i < shm->n_regions; i++)
        xfree(shm->region[i]);
    xfree(shm->region);
    *shm = (struct plate_shm){.users = 0};
}

static void file_free(struct plate_file *file)
{
    must(file->handles == 0);
    shm_free(&file->shm);
    xfree(file->now.at);
    xfree(file->synced.at);
    xfree(file->written.at);
    xfree(file->change);
    xfree(file);
}

void plate_open(struct plate_file *file)
{
    file->handles++;
}

void plate_close(struct plate_file *file)
{
    must(file->handles > 0);
    file->handles--;
    if (file->shm.users == 0)
        shm_free(&file->shm);
    if (file->handles == 0 && file->nameless)
        file_free(file);
}

static void changes_clear(struct plate_file *file)
{
    file->n_changes = 0;
    file->written.len = 0;
}

static void change_add(struct plate_file *file, struct plate_change change, const char *bytes)
{
    change.from = file->written.len;
    bytes_put(&file->written, file->written.len, bytes, change.truncates ? 0 : change.len);
    file->change = xgrow(file->change, file->n_changes, &file->change_room, sizeof *file->change);
    file->change[file->n_changes++] = change;
}

void plate_write(struct plate_file *file, size_t at, struct text bytes)
{
    bytes_put(&file->now, at, bytes.at, bytes.len);
    if (file->nameless)
        return;
    change_add(file, (struct plate_change){.at = at, .len = bytes.len}, bytes.at);
    tell((struct disk_event){.kind = DISK_WROTE, .file = file->number, .at = at, .bytes = bytes});
}

void plate_truncate(struct plate_file *file, size_t len)
{
    bytes_resize(&file->now, len);
    if (file->nameless)
        return;
    change_add(file, (struct plate_change){.truncates = true, .len = len}, NULL);
    tell((struct disk_event){.kind = DISK_CUT_OFF, .file = file->number, .at = len});
}

static void change_keep(struct plate_file *file, const struct plate_change *change)
{
    if (change->truncates)
        bytes_resize(&file->synced, change->len);
    else
        bytes_put(&file->synced, change->at, file->written.at + change->from, change->len);
}

void plate_sync(struct plate_file *file)
{
    if (file->nameless)
        return;
    for (size_t i = 0; i < file->n_changes; i++)
        if (!file->change[i].doubtful)
            change_keep(file, &file->change[i]);
    changes_clear(file);
    tell((struct disk_event){.kind = DISK_SYNCED, .file = file->number});
}

void plate_sync_failed(struct plate_file *file)
{
    for (size_t i = 0; i < file->n_changes; i++)
        file->change[i].doubtful = true;
}

bool plate_delete(const char *name)
{
    const struct plate_file *file = plate_find(name);
    if (file == NULL)
        return false;
    change_names((struct meaning){name, NULL}, (struct meaning){NULL, NULL});
    tell((struct disk_event){.kind = DISK_UNNAMED, .file = file->number, .name = name});
    return true;
}

bool plate_rename(const char *from, const char *to)
{
    struct plate_file *file = plate_find(from);
    if (file == NULL)
        return false;
    must(strcmp(from, to) != 0);
    change_names((struct meaning){from, NULL}, (struct meaning){to, file});
    tell(
        (struct disk_event){.kind = DISK_RENAMED, .file = file->number, .name = from, .other = to});
    return true;
}

static void forget_unnamed(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < file_count; i++) {
        struct plate_file *file = files[i];
        bool named = file->handles > 0 || names_hold(&now, file) || names_hold(&synced, file);
        for (size_t k = 0; k < renaming_count; k++)
            named |= renamings[k].name[0].file == file || renamings[k].name[1].file == file;
        if (named)
            files[kept++] = file;
        else
            file_free(file);
    }
    file_count = kept;
}

void plate_sync_names(void)
{
    for (size_t i = 0; i < renaming_count; i++)
        names_apply(&synced, &renamings[i]);
    renamings_clear();
    forget_unnamed();
    tell((struct disk_event){.kind = DISK_SYNCED_FOLDER});
}

void plate_clear(void)
{
    names_clear(&now);
    names_clear(&synced);
    renamings_clear();
    forget_unnamed();
    must(file_count == 0);
    next_number = 0;
}

/* Each sector of one write is kept or not, at random. */
static void keep_torn(struct plate_file *file, const struct plate_change *change, uint64_t *seed)
{
    size_t done = 0;
    while (done < change->len) {
        const size_t left = SECTOR - (change->at + done) % SECTOR;
        const size_t len = left < change->len - done ? left : change->len - done;
        if ((random_next(seed) & 1) != 0)
            bytes_put(&file->synced, change->at + done, file->written.at + change->from + done,
                      len);
        done += len;
    }
}

static void keep_some(struct plate_file *file, uint64_t *seed)
{
    for (size_t i = 0; i < file->n_changes; i++) {
        const uint64_t chance = random_next(seed) % 3;
        if (chance == 0)
            change_keep(file, &file->change[i]);
        else if (chance == 1 && !file->change[i].truncates)
            keep_torn(file, &file->change[i], seed);
    }
}

void plate_restart(enum disk_loss loss, uint64_t seed)
{
    for (size_t i = 0; i < file_count; i++)
        must(files[i]->handles == 0);
    if (loss == DISK_KEEPS_ALL) {
        forget_unnamed();
        return;
    }
    for (size_t i = 0; i < file_count; i++) {
        if (loss == DISK_KEEPS_SOME)
            keep_some(files[i], &seed);
        changes_clear(files[i]);
        bytes_copy(&files[i]->now, &files[i]->synced);
    }
    for (size_t i = 0; i < renaming_count; i++)
        if (loss == DISK_KEEPS_SOME && random_next(&seed) % 2 == 0)
            names_apply(&synced, &renamings[i]);
    renamings_clear();
    names_clear(&now);
    for (size_t i = 0; i < synced.count; i++)
        if (synced.name[i].file != NULL)
            names_set(&now, (struct meaning){synced.name[i].name, synced.name[i].file});
    forget_unnamed();
}

void plate_put(const char *name, struct text bytes)
{
    struct plate_file *file = plate_find(name);
    if (file == NULL)
        file = plate_make(name);
    must(file->handles == 0);
    file->now.len = 0;
    bytes_put(&file->now, 0, bytes.at, bytes.len);
    bytes_copy(&file->synced, &file->now);
    changes_clear(file);
    plate_sync_names();
}
