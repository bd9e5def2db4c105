#include "disk_image.h"

#include <string.h>

#include "milligpu/base/alloc.h"

#include "support/seen.h"

void disk_image_init(struct disk_image *image, const struct trace *trace)
{
    *image = (struct disk_image){.trace = trace};
}

void disk_image_done(struct disk_image *image)
{
    for (size_t i = 0; i < image->n_files; i++) {
        struct disk_image_file *file = &image->file[i];
        xfree(file->base);
        xfree(file->now);
        xfree(file->block);
        xfree(file->touched);
        xfree(file->touch);
    }
    xfree(image->file);
    xfree(image->change);
}

static void reserve(struct disk_image_file *file, size_t len)
{
    if (len <= file->room)
        return;
    const size_t room = (2 * len / DISK_IMAGE_SECTOR + 64) * DISK_IMAGE_SECTOR;
    const size_t more = room - file->room;
    const size_t blocks = room / DISK_IMAGE_SECTOR;
    const size_t had = file->room / DISK_IMAGE_SECTOR;
    file->base = xrealloc(file->base, room, 1);
    file->now = xrealloc(file->now, room, 1);
    file->block = xrealloc(file->block, blocks, sizeof *file->block);
    file->touched = xrealloc(file->touched, blocks, sizeof *file->touched);
    file->touch = xrealloc(file->touch, blocks, sizeof *file->touch);
    memset(file->base + file->room, 0, more);
    memset(file->now + file->room, 0, more);
    memset(file->block + had, 0, (blocks - had) * sizeof *file->block);
    memset(file->touched + had, 0, (blocks - had) * sizeof *file->touched);
    file->room = room;
}

static struct disk_image_file *file_of(struct disk_image *image, uint32_t number)
{
    while (image->n_files <= number) {
        image->file = xgrow(image->file, image->n_files, &image->file_room, sizeof *image->file);
        image->file[image->n_files] =
            (struct disk_image_file){.number = (uint32_t)image->n_files, .lowest = SIZE_MAX};
        image->n_files++;
    }
    return &image->file[number];
}

static void touch(struct disk_image_file *file, size_t from, size_t to)
{
    for (size_t i = from / DISK_IMAGE_SECTOR; i * DISK_IMAGE_SECTOR < to; i++) {
        if (file->touched[i])
            continue;
        file->touched[i] = true;
        file->touch[file->n_touches++] = i;
    }
}

static void resize(struct disk_image_file *file, size_t len)
{
    const size_t low = len < file->now_len ? len : file->now_len;
    const size_t high = len < file->now_len ? file->now_len : len;
    reserve(file, high);
    touch(file, low, high);
    if (len < file->now_len)
        memset(file->now + len, 0, file->now_len - len);
    file->now_len = len;
}

static void apply(struct disk_image_file *file, const struct trace *trace,
                  const struct trace_event *event, size_t len)
{
    if (event->kind == DISK_CUT_OFF) {
        resize(file, event->at);
        return;
    }
    if (event->at + len > file->now_len)
        resize(file, event->at + len);
    memcpy(file->now + event->at, trace->bytes.data + event->from, len);
    touch(file, event->at, event->at + len);
}

static uint64_t block_hash(const struct disk_image_file *file, size_t i)
{
    const size_t at = i * DISK_IMAGE_SECTOR;
    return at < file->now_len ? hash_bytes(file->now + at, DISK_IMAGE_SECTOR, i + 1) : 0;
}

static void rehash(struct disk_image_file *file)
{
    file->hash = file->base_hash;
    for (size_t i = 0; i < file->n_touches; i++) {
        const size_t block = file->touch[i];
        file->hash += block_hash(file, block) - file->block[block];
    }
}

static void revert(struct disk_image_file *file)
{
    for (size_t i = 0; i < file->n_touches; i++) {
        const size_t at = file->touch[i] * DISK_IMAGE_SECTOR;
        memcpy(file->now + at, file->base + at, DISK_IMAGE_SECTOR);
        file->touched[file->touch[i]] = false;
    }
    file->n_touches = 0;
    file->now_len = file->base_len;
    file->hash = file->base_hash;
}

/* The built content becomes the synced content. */
static void disk_image_persist(struct disk_image_file *file)
{
    for (size_t i = 0; i < file->n_touches; i++) {
        const size_t block = file->touch[i];
        const size_t at = block * DISK_IMAGE_SECTOR;
        const uint64_t hash = block_hash(file, block);
        file->base_hash += hash - file->block[block];
        file->block[block] = hash;
        memcpy(file->base + at, file->now + at, DISK_IMAGE_SECTOR);
        file->touched[block] = false;
    }
    file->n_touches = 0;
    file->base_len = file->now_len;
    file->hash = file->base_hash;
    file->version++;
    file->unsynced = 0;
    file->lowest = SIZE_MAX;
}

static void name(struct disk_image_name *names, size_t *count, const char *is, int file)
{
    for (size_t i = 0; i < *count; i++) {
        if (strcmp(names[i].name, is) != 0)
            continue;
        names[i].file = file;
        return;
    }
    must(*count < DISK_IMAGE_NAMES);
    names[(*count)++] = (struct disk_image_name){is, file};
}

static void apply_name(struct disk_image_name *names, size_t *count, const struct trace *trace,
                       const struct trace_event *event)
{
    const char *is = trace->bytes.data + event->from;
    name(names, count, is, event->kind == DISK_NAMED ? (int)event->file : -1);
    if (event->kind == DISK_RENAMED)
        name(names, count, trace->bytes.data + event->other, (int)event->file);
}

static bool is_name(const struct trace_event *event)
{
    return event->kind == DISK_NAMED || event->kind == DISK_UNNAMED || event->kind == DISK_RENAMED;
}

static void synced(struct disk_image *image, const struct trace_event *sync)
{
    const struct trace *trace = image->trace;
    const bool folder = sync->kind == DISK_SYNCED_FOLDER;
    size_t kept = 0;

    for (size_t i = 0; i < image->n_changes; i++) {
        const struct trace_event *event = &trace->event[image->change[i]];
        if (folder && is_name(event))
            apply_name(image->base, &image->n_bases, trace, event);
        else if (!folder && !is_name(event) && event->file == sync->file)
            apply(file_of(image, event->file), trace, event, event->len);
        else
            image->change[kept++] = image->change[i];
    }
    image->n_changes = kept;
    if (!folder)
        disk_image_persist(file_of(image, sync->file));
}

void disk_image_step(struct disk_image *image, size_t at)
{
    const struct trace_event *event = &image->trace->event[at];

    if (event->kind == DISK_SYNCED || event->kind == DISK_SYNCED_FOLDER) {
        synced(image, event);
        return;
    }
    image->change =
        xgrow(image->change, image->n_changes, &image->change_room, sizeof *image->change);
    image->change[image->n_changes++] = at;
    struct disk_image_file *file = file_of(image, event->file);
    if (is_name(event))
        return;
    file->unsynced++;
    if (event->at < file->lowest)
        file->lowest = event->at;
}

size_t disk_image_tears(const struct disk_image *image, size_t i)
{
    const struct trace_event *event = &image->trace->event[image->change[i]];
    if (event->kind != DISK_WROTE || event->len == 0)
        return 0;
    return (event->at + event->len - 1) / DISK_IMAGE_SECTOR - event->at / DISK_IMAGE_SECTOR;
}

void disk_image_build(struct disk_image *image, const bool *keep, size_t torn, size_t tear)
{
    const struct trace *trace = image->trace;

    memcpy(image->now, image->base, sizeof image->base);
    image->n_now = image->n_bases;
    for (size_t i = 0; i < image->n_changes; i++) {
        const struct trace_event *event = &trace->event[image->change[i]];
        if (!keep[i] && i != torn)
            continue;
        if (is_name(event)) {
            apply_name(image->now, &image->n_now, trace, event);
            continue;
        }
        const size_t until = (event->at / DISK_IMAGE_SECTOR + 1 + tear) * DISK_IMAGE_SECTOR;
        apply(file_of(image, event->file), trace, event,
              i == torn ? until - event->at : event->len);
    }
    for (size_t i = 0; i < image->n_files; i++)
        rehash(&image->file[i]);
}

void disk_image_forget(struct disk_image *image)
{
    for (size_t i = 0; i < image->n_files; i++)
        revert(&image->file[i]);
}

const struct disk_image_file *disk_image_find(const struct disk_image *image, const char *is)
{
    for (size_t i = 0; i < image->n_now; i++)
        if (image->now[i].file >= 0 && strcmp(image->now[i].name, is) == 0)
            return &image->file[image->now[i].file];
    return NULL;
}

uint64_t disk_image_hash(const struct disk_image *image)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < image->n_now; i++) {
        const struct disk_image_name *is = &image->now[i];
        if (is->file < 0)
            continue;
        const struct disk_image_file *file = &image->file[is->file];
        const uint64_t whole[3] = {file->hash, file->now_len, 0};
        hash += hash_bytes(whole, sizeof whole, hash_bytes(is->name, strlen(is->name), 7));
    }
    return hash;
}
