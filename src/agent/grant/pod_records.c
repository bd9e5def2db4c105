/*
 * Keeps the folder of first allocations. Main thread only, in the handlers of the runtime's calls:
 * so records are written without fsync, except once in the life of the folder (pod_records_born).
 * A file torn by a crash is detected by the length in its first line, and dropped at the next
 * start.
 */
#include "pod_records.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/limits.h"
#include "milligpu/base/map.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/run/file.h"
#include "milligpu/run/log.h"

enum { RECORD_BYTES_MAX = ANNOTATION_BYTES_MAX + 256, HEAD_BYTES_MAX = 64 };

static const char HEAD[] = "milligpu-node 2 ";
/* Format of agents that also recorded pods without a signature: no proof. */
static const char UNPROVEN[] = "milligpu-node 1 ";
static const char BORN[] = "born";
static const char FRESH[] = ".new";

struct record {
    char *uid;
    char *annotation;
    size_t bytes;
    uint64_t number; /* in order of creation; the lowest is evicted first */
    bool runs;
    bool written; /* on disk */
};

struct pod_records {
    int dir;
    int pods;
    bool is_new;
    uint64_t next;
    size_t unproven;
    struct map by_uid;
};

bool pod_records_takes(struct text uid)
{
    for (size_t i = 0; i < uid.len; i++) {
        const char c = text_lower(uid.at[i]);
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'))
            return false;
    }
    return uid.len > 0 && uid.len <= UID_BYTES_MAX;
}

static void record_free(struct record *record)
{
    xfree(record->uid);
    xfree(record->annotation);
    xfree(record);
}

static struct record *record_add(struct pod_records *records, struct text uid,
                                 struct text annotation, uint64_t number)
{
    struct record *record = xcalloc(1, sizeof *record);

    must(pod_records_takes(uid));
    record->uid = xmalloc(uid.len + 1);
    memcpy(record->uid, uid.at, uid.len);
    record->uid[uid.len] = '\0';
    record->annotation = xmalloc(annotation.len + 1);
    if (annotation.len > 0)
        memcpy(record->annotation, annotation.at, annotation.len);
    record->annotation[annotation.len] = '\0';
    record->bytes = annotation.len;
    record->number = number;
    must(map_put(&records->by_uid, text_of(record->uid), record) == NULL);
    return record;
}

/* --- reading --- */

/* Parses "milligpu-node 2 NUMBER LENGTH\n" and LENGTH bytes. */
static bool record_read(struct pod_records *records, const char *name, const char *data, size_t len)
{
    uint64_t number = 0;
    uint64_t length = 0;
    const char *end = memchr(data, '\n', len);

    if (end == NULL || end - data > HEAD_BYTES_MAX || !text_starts((struct text){data, len}, HEAD))
        return false;
    char *rest = NULL;
    number = strtoull(data + sizeof HEAD - 1, &rest, 10);
    if (*rest != ' ')
        return false;
    length = strtoull(rest + 1, &rest, 10);
    const size_t body = len - (size_t)(end + 1 - data);
    if (rest != end || length != body || number >= UINT64_MAX / 2)
        return false;
    struct record *record =
        record_add(records, text_of(name), (struct text){end + 1, body}, number);
    record->written = true;
    if (number >= records->next)
        records->next = number + 1;
    return true;
}

/* A record that cannot be read stays on disk, for the next start. */
static void record_take(struct pod_records *records, const char *path, const char *uid)
{
    CLEANUP(xfreep) char *data = NULL;
    size_t len;
    struct err why;

    if (file_read(path, RECORD_BYTES_MAX, &data, &len, &why) < 0) {
        log_write(LOG_WARN, "the record of a pod cannot be read", log_str("why", why.text));
        return;
    }
    if (record_read(records, uid, data, len))
        return;
    if (text_starts((struct text){data, len}, UNPROVEN)) {
        records->unproven++;
        (void)unlinkat(records->pods, uid, 0);
        return;
    }
    log_write(LOG_WARN, "the record of a pod is damaged: it is dropped", log_str("uid", uid));
    (void)unlinkat(records->pods, uid, 0);
}

static int records_read(struct pod_records *records, const char *dir, struct err *err)
{
    const int copy = openat(records->pods, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *entry;
    struct strbuf path;

    if (list == NULL)
        return err_set(err, ERR_IO, "%s/pods cannot be read: %s", dir, strerrordesc_np(errno));
    strbuf_init(&path);
    while ((entry = readdir(list)) != NULL) { /* NOLINT(concurrency-mt-unsafe): our own stream */
        if (!pod_records_takes(text_of(entry->d_name)))
            continue;
        strbuf_reset(&path);
        strbuf_printf(&path, "%s/pods/%s", dir, entry->d_name);
        record_take(records, path.data, entry->d_name);
    }
    strbuf_done(&path);
    (void)closedir(list);
    if (records->unproven > 0)
        log_write(LOG_INFO,
                  "records of an older agent are dropped: pods with a signature are recorded again",
                  log_i64("records", (int64_t)records->unproven));
    return 0;
}

static int folder_open(int at, const char *name, struct err *err)
{
    if (mkdirat(at, name, 0700) != 0 && errno != EEXIST)
        return err_set(err, ERR_IO, "folder %s cannot be made: %s", name, strerrordesc_np(errno));
    const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, ERR_IO, "folder %s cannot be opened: %s", name, strerrordesc_np(errno));
    return fd;
}

int pod_records_open(const char *dir, struct pod_records **out, struct err *err)
{
    CLEANUP(pod_records_closep) struct pod_records *records = xcalloc(1, sizeof *records);

    must(dir[0] != '\0');
    map_init(&records->by_uid);
    records->pods = -1;
    records->dir = folder_open(AT_FDCWD, dir, err);
    if (records->dir < 0)
        return err_same(err);
    records->pods = folder_open(records->dir, "pods", err);
    if (records->pods < 0 || records_read(records, dir, err) < 0)
        return err_same(err);
    records->is_new = faccessat(records->dir, BORN, F_OK, 0) != 0;
    *out = STEAL(records);
    return 0;
}

static bool record_drop(void *user, void *value)
{
    (void)user;
    record_free(value);
    return false;
}

void pod_records_close(struct pod_records *records)
{
    if (records == NULL)
        return;
    (void)map_retain(&records->by_uid, NULL, record_drop);
    map_done(&records->by_uid);
    if (records->pods >= 0)
        (void)close(records->pods);
    if (records->dir >= 0)
        (void)close(records->dir);
    xfree(records);
}

/* --- writing --- */

/*
 * Written under a temporary name, which is not a valid uid, and renamed, so that readers see a
 * complete record or none.
 */
static bool file_put(int folder, const char *name, const char *head, struct text body)
{
    const int fd = openat(folder, FRESH, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0)
        return false;
    const bool good = file_write(fd, text_of(head)) && file_write(fd, body);
    if (close(fd) == 0 && good && renameat(folder, FRESH, folder, name) == 0)
        return true;
    (void)unlinkat(folder, FRESH, 0);
    return false;
}

static void record_write(struct pod_records *records, struct record *record)
{
    char head[HEAD_BYTES_MAX];

    must(!record->written);
    (void)snprintf(head, sizeof head, "%s%" PRIu64 " %zu\n", HEAD, record->number, record->bytes);
    record->written = file_put(records->pods, record->uid, head,
                               (struct text){record->annotation, record->bytes});
}

/* Evicts the oldest record of a pod that does not run, if there are RECORDS_MAX. */
static void make_room(struct pod_records *records)
{
    struct record *oldest = NULL;
    struct record *record;
    size_t at = 0;

    if (records->by_uid.count < RECORDS_MAX)
        return;
    while ((record = map_next(&records->by_uid, &at)) != NULL)
        if (!record->runs && (oldest == NULL || record->number < oldest->number))
            oldest = record;
    if (oldest == NULL)
        return;
    must(map_take(&records->by_uid, text_of(oldest->uid)) == oldest);
    (void)unlinkat(records->pods, oldest->uid, 0);
    record_free(oldest);
}

void pod_records_add(struct pod_records *records, struct text uid, struct text annotation)
{
    must(map_find(&records->by_uid, uid) == NULL);

    make_room(records);
    struct record *record = record_add(records, uid, annotation, records->next++);
    record->runs = true;
    record_write(records, record);
}

size_t pod_records_flush(struct pod_records *records)
{
    struct record *record;
    size_t at = 0;
    size_t left = 0;

    while ((record = map_next(&records->by_uid, &at)) != NULL) {
        if (!record->written)
            record_write(records, record);
        left += record->written ? 0 : 1;
    }
    return left;
}

int pod_records_born(struct pod_records *records, struct err *err)
{
    if (pod_records_flush(records) > 0 || syncfs(records->pods) != 0 ||
        !file_put(records->dir, BORN, "", TEXT("")) || fsync(records->dir) != 0)
        return err_set(err, ERR_IO, "the pods that run cannot be recorded: %s",
                       strerrordesc_np(errno));
    records->is_new = false;
    return 0;
}

/* --- asking --- */

bool pod_records_are_new(const struct pod_records *records)
{
    return records->is_new;
}

bool pod_records_find(const struct pod_records *records, struct text uid, struct text *out)
{
    const struct record *record = map_find(&records->by_uid, uid);

    if (record == NULL)
        return false;
    *out = (struct text){record->annotation, record->bytes};
    return true;
}

void pod_records_none_run(struct pod_records *records)
{
    struct record *record;
    size_t at = 0;

    while ((record = map_next(&records->by_uid, &at)) != NULL)
        record->runs = false;
}

void pod_records_runs(struct pod_records *records, struct text uid)
{
    struct record *record = map_find(&records->by_uid, uid);

    if (record != NULL)
        record->runs = true;
}

size_t pod_records_count(const struct pod_records *records)
{
    return records->by_uid.count;
}
