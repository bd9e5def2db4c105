/*
 * disk_image - the disk at one point of a trace: what is synced for certain, and each way that the
 * rest can have come out.
 *
 * Not synced are the changes since: writes and truncations of a file until the file is synced,
 * names until the folder is. An image keeps some of them, in their order; one of them may be torn,
 * so that only what is before a boundary of 512 bytes was written.
 */
#ifndef MILLIGPU_TESTS_POWER_DISK_IMAGE_H
#define MILLIGPU_TESTS_POWER_DISK_IMAGE_H

#include "trace.h"

enum { DISK_IMAGE_SECTOR = 512 };

struct disk_image_file {
    uint32_t number;
    char *base; /* synced content */
    size_t base_len;
    char *now; /* content in the image; zero from its end to room */
    size_t now_len;
    size_t room;
    uint64_t *block; /* hashes of base, by sector */
    uint64_t base_hash;
    uint64_t hash;
    bool *touched; /* by sector */
    size_t *touch;
    size_t n_touches;
    size_t unsynced;  /* number of its changes not synced */
    size_t lowest;    /* lowest byte that they touch */
    uint64_t version; /* of base; grows with each sync */
};

struct disk_image_name {
    const char *name;
    int file; /* -1: no file */
};

enum { DISK_IMAGE_NAMES = 64 };

struct disk_image {
    const struct trace *trace;
    struct disk_image_file *file;
    size_t n_files;
    size_t file_room;
    struct disk_image_name base[DISK_IMAGE_NAMES];
    size_t n_bases;
    struct disk_image_name now[DISK_IMAGE_NAMES];
    size_t n_now;
    size_t *change; /* the events that are not synced */
    size_t n_changes;
    size_t change_room;
};

void disk_image_init(struct disk_image *image, const struct trace *trace);
void disk_image_done(struct disk_image *image);
void disk_image_step(struct disk_image *image, size_t event);

/* How many boundaries change i can be torn at. */
size_t disk_image_tears(const struct disk_image *image, size_t i);

/* keep[i]: change i is kept. torn: change torn (if < changes) is kept up to boundary tear. */
void disk_image_build(struct disk_image *image, const bool *keep, size_t torn, size_t tear);
void disk_image_forget(struct disk_image *image); /* discard the built image */

/* Looks in the built image. NULL: there is no file of this name. */
const struct disk_image_file *disk_image_find(const struct disk_image *image, const char *name);
uint64_t disk_image_hash(const struct disk_image *image); /* of all names and bytes in it */

#endif
