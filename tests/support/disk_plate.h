/*
 * disk_plate - the files of the disk in memory: what exists, what is synced, who holds locks.
 *
 * A file has its current bytes, its bytes as of the last sync, and the changes between the two in
 * their order; so have the names.
 */
#ifndef MILLIGPU_TESTS_DISK_PLATE_H
#define MILLIGPU_TESTS_DISK_PLATE_H

#include "support/disk.h"

struct plate_bytes {
    char *at;
    size_t len;
    size_t room;
};

struct plate_change {
    bool truncates;
    bool doubtful; /* a sync of it failed */
    size_t at;
    size_t len;
    size_t from; /* its bytes in plate_file.written */
};

enum { SHM_SLOTS = 8 };

/* Shared by all connections to one file. */
struct plate_shm {
    void **region;
    size_t n_regions;
    size_t room;
    unsigned users;
    int holders[SHM_SLOTS]; /* -1: exclusively */
};

struct plate_file {
    uint32_t number;
    unsigned handles;
    bool nameless; /* a temporary file: not counted, kept or cut */
    struct plate_bytes now;
    struct plate_bytes synced;
    struct plate_bytes written;
    struct plate_change *change;
    size_t n_changes;
    size_t change_room;
    unsigned shared;
    const void *reserved;
    const void *pending;
    const void *exclusive;
    struct plate_shm shm;
};

struct plate_file *plate_find(const char *name);
struct plate_file *plate_make(const char *name); /* NULL: it has no name */
void plate_open(struct plate_file *file);
void plate_close(struct plate_file *file);

void plate_write(struct plate_file *file, size_t at, struct text bytes);
void plate_truncate(struct plate_file *file, size_t len);
void plate_sync(struct plate_file *file);
void plate_sync_failed(struct plate_file *file);
bool plate_delete(const char *name); /* false: there is none */
bool plate_rename(const char *from, const char *to);
void plate_sync_names(void);

void plate_clear(void);
void plate_restart(enum disk_loss loss, uint64_t seed);
void plate_put(const char *name, struct text bytes);
void plate_watch(void *user, void (*event)(void *user, const struct disk_event *event));

/* disk.c, for the folder: whether the next operation of this kind fails; SQLite's code. */
int disk_touch(enum disk_kind kind);

/* disk_folder.c: from now on the folder's names are the disk's, too. */
void disk_folder_join(void);

#endif
