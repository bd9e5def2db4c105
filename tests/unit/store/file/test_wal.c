/*
 * The log after a power cut. Its checksum is only a sum, so an unfinished commit can look complete
 * although one of its pages is an older one (tests/power/README.md has a case). Such a ledger is
 * refused like any other corrupt one, and its log is left untouched.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"
#include "support/disk.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

enum { PAGE = STORE_PAGE_BYTES, LOG_HEAD = 32, FRAME = 24 + PAGE };

static char *log_of(const struct shelf *shelf)
{
    struct strbuf name;
    strbuf_init(&name);
    strbuf_printf(&name, "%s-wal", shelf->path);
    return strbuf_steal(&name);
}

/* The caller xfrees it. */
static char *bytes_of(const char *name, size_t *out_len)
{
    struct text bytes;
    assert_true(disk_file(name, &bytes));
    char *copy = xmalloc(bytes.len + 1);
    memcpy(copy, bytes.at, bytes.len);
    *out_len = bytes.len;
    return copy;
}

static void put(const char *name, const char *bytes, size_t len)
{
    disk_put(name, (struct text){bytes, len});
}

static void end_without_warning(struct shelf *shelf)
{
    disk_cut();
    shelf_close(shelf);
    disk_restart(DISK_KEEPS_ALL, 1);
}

/* A ledger whose log has commits, the last of which the ledger in memory has not settled. */
static void leave_log(struct shelf *shelf, int commits)
{
    static const struct core_gpu one_a100[] = {{.id = "GPU-a", .index = 0, .mib = 81920}};
    struct err err;
    char uid[16];

    shelf_open(shelf);
    (void)core_node(&shelf->core, "n1", one_a100, 1);
    shelf_save_and_turn(shelf); /* a clean close leaves no log */
    for (int i = 0; i < commits; i++) {
        core_forget_undo(&shelf->core);
        shelf->written = 0;
        (void)snprintf(uid, sizeof uid, "p%d", i);
        (void)core_reserve(&shelf->core, uid, "n1", "50");
        shelf_begin(shelf);
        assert_int_equal(shelf_write(shelf, &err), STORE_OK);
        shelf_commit(shelf);
    }
    end_without_warning(shelf);
}

static void add(char *at, uint32_t what)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    word += what;
    memcpy(at, &word, sizeof word);
}

/* Changes the last page in a way that the sum misses; its first byte is the page type. */
static void swap_last_page(const struct shelf *shelf)
{
    CLEANUP(xfreep) char *name = log_of(shelf);
    size_t len;
    CLEANUP(xfreep) char *log = bytes_of(name, &len);
    char *page = log + len - PAGE;

    assert_int_equal((len - LOG_HEAD) % FRAME, 0);
    assert_in_range(page[0], 2, 13);
    add(page, 1);
    add(page + 4, (uint32_t)-1);
    add(page + 8, (uint32_t)-1);
    put(name, log, len);
}

static void refused_with_its_log_as_it_was(struct shelf *shelf)
{
    struct err err;
    size_t len, now_len;
    CLEANUP(xfreep) char *name = log_of(shelf);
    CLEANUP(xfreep) char *log = bytes_of(name, &len);

    assert_int_equal(shelf_try(shelf, &err), -(int)ERR_CORRUPT);
    CLEANUP(xfreep) char *now = bytes_of(name, &now_len);
    assert_int_equal(now_len, len);
    assert_memory_equal(now, log, len);
    assert_int_equal(shelf->notices.len, 0);
}

TEST(commit__that_only_looks_whole_is_refused_with_its_log_kept)
{
    for (int commits = 1; commits <= 3; commits++) {
        static struct shelf shelf;
        shelf_init(&shelf);
        leave_log(&shelf, commits);
        swap_last_page(&shelf);
        refused_with_its_log_as_it_was(&shelf);
        shelf_done(&shelf);
        disk_clear();
    }
}

static int use_fake_disk(void **state)
{
    (void)state;
    disk_install();
    return 0;
}

TEST_GROUP(use_fake_disk, NULL)
