/*
 * The log after a power cut: its checksum is a sum, and a commit that was in flight can look whole
 * though one of its pages is an older one.  Such a commit was never acknowledged: the ledger opens
 * without it.  What is corrupt for another reason is refused, with its log as it was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "milligpu/alloc.h"

#include "store/store_internal.h"
#include "support/disk.h"
#include "support_shelf.h"

enum { PAGE = 4096, LOG_HEAD = 32, FRAME = LOG_FRAME_HEAD_BYTES + PAGE, N_MAX = 500 };

static char *log_of(const struct shelf *shelf)
{
    struct strbuf name;
    strbuf_init(&name);
    strbuf_printf(&name, "%s-wal", shelf->path);
    return strbuf_steal(&name);
}

/* Yours to xfree. */
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

/* A ledger whose log has commits, the last of which the world has not settled. */
static void leave_log(struct shelf *shelf, int commits)
{
    static const struct core_gpu one_a100[] = {{.id = "GPU-a", .index = 0, .mib = 81920}};
    struct err err;
    char uid[16];

    shelf_open(shelf);
    (void)core_node(&shelf->core, "n1", one_a100, 1);
    shelf_save(shelf);
    shelf_turn(shelf); /* an orderly end, which leaves no log */
    for (int i = 0; i < commits; i++) {
        core_run_until_idle(&shelf->core);
        shelf->written = 0;
        (void)snprintf(uid, sizeof uid, "p%d", i);
        (void)core_reserve(&shelf->core, uid, "n1", "50");
        assert_int_equal(shelf->ops.begin(shelf->ops.ctx, &err), 0);
        assert_int_equal(shelf_write(shelf, &err), STORE_OK);
        assert_int_equal(shelf->ops.commit(shelf->ops.ctx, &err), 0);
    }
    end_without_warning(shelf);
}

static void take_back(struct shelf *shelf)
{
    while (shelf->core.dones > 0)
        core_undo(&shelf->core);
    shelf->written = 0;
}

static void add(char *at, uint32_t what)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    word += what;
    memcpy(at, &word, sizeof word);
}

/* The last page is another one, which the sum does not see; its first byte says what it is. */
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

static void opens_without_the_last(struct shelf *shelf)
{
    take_back(shelf);
    shelf_open(shelf);
    shelf_same(shelf);
    assert_non_null(strstr(shelf->notices.data, "without the last commit of its log it is sound"));
    (void)core_reserve(&shelf->core, "next", "n1", "50");
    shelf_save(shelf);
    shelf_turn(shelf);
}

static void a_commit_that_only_looks_whole_is_taken_off(void **state)
{
    (void)state;
    for (int commits = 1; commits <= 3; commits++) {
        static struct shelf shelf;
        shelf_init(&shelf);
        leave_log(&shelf, commits);
        swap_last_page(&shelf);
        opens_without_the_last(&shelf);
        shelf_done(&shelf);
        disk_clear();
    }
}

/* The frames of a commit that was cut short come behind the last one, and are none themselves. */
static void what_comes_behind_the_last_commit_is_not_the_last_commit(void **state)
{
    static struct shelf shelf;
    size_t len;

    (void)state;
    shelf_init(&shelf);
    leave_log(&shelf, 2);
    swap_last_page(&shelf);
    CLEANUP(xfreep) char *name = log_of(&shelf);
    CLEANUP(xfreep) char *log = bytes_of(name, &len);
    CLEANUP(xfreep) char *longer = xcalloc(1, len + FRAME);
    memcpy(longer, log, len);
    memcpy(longer + len, log + len - FRAME, FRAME); /* its salts hold, its sum does not */
    put(name, longer, len + FRAME);
    opens_without_the_last(&shelf);
    shelf_done(&shelf);
    disk_clear();
}

static void spoil_page_outside_the_log(const struct shelf *shelf)
{
    size_t len;
    CLEANUP(xfreep) char *file = bytes_of(shelf->path, &len);
    const long long page =
        shelf_number(shelf->path, "SELECT rootpage FROM sqlite_schema WHERE name = 'baseline'");
    assert_in_range(page, 2, len / PAGE);
    file[(page - 1) * PAGE] = 99;
    put(shelf->path, file, len);
}

static void what_is_corrupt_without_it_too_keeps_its_log(void **state)
{
    static struct shelf shelf;
    struct err err;
    size_t len, now_len;

    (void)state;
    shelf_init(&shelf);
    leave_log(&shelf, 2);
    CLEANUP(xfreep) char *name = log_of(&shelf);
    CLEANUP(xfreep) char *log = bytes_of(name, &len);
    spoil_page_outside_the_log(&shelf); /* a look at the file takes the log in: put it back */
    put(name, log, len);

    assert_int_equal(shelf_try(&shelf, &err), -(int)ERR_CORRUPT);
    CLEANUP(xfreep) char *now = bytes_of(name, &now_len);
    assert_int_equal(now_len, len);
    assert_memory_equal(now, log, len);
    assert_int_equal(shelf.notices.len, 0);
    shelf_done(&shelf);
    disk_clear();
}

static void a_disk_that_fails_meanwhile_loses_nothing_more(void **state)
{
    static const struct {
        unsigned kinds;
        bool lasting;
    } faults[] = {{DISK_WRITE, false}, {DISK_WRITE, true}, {DISK_SYNC, false}, {DISK_SYNC, true},
                  {DISK_READ, false},  {DISK_READ, true},  {DISK_OPEN, true}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        bool failed = true;
        for (uint64_t n = 1; failed; n++) {
            static struct shelf shelf;
            struct err err;
            assert_true(n < N_MAX);
            shelf_init(&shelf);
            shelf.rules.on_corrupt = STORE_MOVE_ASIDE;
            leave_log(&shelf, 2);
            swap_last_page(&shelf);
            disk_fail(faults[i].kinds, n, SQLITE_IOERR, faults[i].lasting);
            const int refused = shelf_try(&shelf, &err);
            assert_int_not_equal(refused, -(int)ERR_CORRUPT);
            failed = disk_failed() > 0;
            disk_fail(0, 0, SQLITE_OK, false);
            shelf_close(&shelf);
            assert_null(strstr(shelf.notices.data != NULL ? shelf.notices.data : "", "kept as"));
            take_back(&shelf);
            shelf_open(&shelf);
            shelf_same(&shelf);
            shelf_done(&shelf);
            disk_clear();
        }
    }
}

/* Each has one thing wrong: no log to SQLite, and so no commit to us. */
static void what_is_no_log_has_no_last_commit(void **state)
{
    static const struct {
        const char *what;
        size_t at;
        unsigned char flip;
        size_t keep; /* bytes; 0: all */
    } broken[] = {
        {"it is empty", 0, 0, 1},
        {"its head is cut off", 0, 0, LOG_HEAD - 1},
        {"it ends with its head", 0, 0, LOG_HEAD},
        {"its only frame is cut off", 0, 0, LOG_HEAD + FRAME - 1},
        {"another magic number", 1, 1, 0},
        {"sums of the other byte order", 3, 1, 0},
        {"another format", 7, 1, 0},
        {"a page of 4097 bytes", 11, 1, 0},
        {"a page of 0 bytes", 10, 0x10, 0},
        {"a page of 128 KiB and 4096 bytes", 9, 2, 0},
        {"another salt", 16, 1, 0},
        {"another sum of the head", 24, 1, 0},
        {"the first frame is of page 0", LOG_HEAD + 3, 0xff, LOG_HEAD + FRAME},
        {"the first frame has another salt", LOG_HEAD + 8, 1, 0},
        {"the first page has another byte", LOG_HEAD + LOG_FRAME_HEAD_BYTES, 1, 0},
    };
    static struct shelf shelf;
    size_t len;

    (void)state;
    shelf_init(&shelf);
    leave_log(&shelf, 1);
    CLEANUP(xfreep) char *name = log_of(&shelf);
    CLEANUP(xfreep) char *log = bytes_of(name, &len);
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        struct log_cut cut;
        struct err err;
        log[broken[i].at] ^= (char)broken[i].flip;
        put(name, log, broken[i].keep != 0 ? broken[i].keep : len);
        assert_int_equal(log_take_off(shelf.path, &cut, &err), 0);
        if (cut.at != 0)
            fail_msg("%s, but a commit was found at %lld", broken[i].what, (long long)cut.at);
        log[broken[i].at] ^= (char)broken[i].flip;
    }
    shelf_done(&shelf);
    disk_clear();
}

/* The place was written over meanwhile: what is there now is newer. */
static void what_was_written_since_is_not_put_back(void **state)
{
    static struct shelf shelf;
    struct log_cut cut;
    struct err err;
    size_t len, now_len;

    (void)state;
    shelf_init(&shelf);
    leave_log(&shelf, 2);
    CLEANUP(xfreep) char *name = log_of(&shelf);
    CLEANUP(xfreep) char *log = bytes_of(name, &len);
    assert_int_equal(log_take_off(shelf.path, &cut, &err), 0);
    assert_in_range(cut.at, LOG_HEAD + FRAME, len - FRAME);
    assert_int_equal(log_put_back(shelf.path, &cut, &err), 0);
    CLEANUP(xfreep) char *now = bytes_of(name, &now_len);
    assert_int_equal(now_len, len);
    assert_memory_equal(now, log, len);

    log[cut.at + LOG_FRAME_HEAD_BYTES - 1] ^= 1;
    put(name, log, len);
    assert_int_equal(log_put_back(shelf.path, &cut, &err), 0);
    CLEANUP(xfreep) char *newer = bytes_of(name, &now_len);
    assert_memory_equal(newer, log, len);
    shelf_done(&shelf);
    disk_clear();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_commit_that_only_looks_whole_is_taken_off),
        cmocka_unit_test(what_comes_behind_the_last_commit_is_not_the_last_commit),
        cmocka_unit_test(what_is_corrupt_without_it_too_keeps_its_log),
        cmocka_unit_test(a_disk_that_fails_meanwhile_loses_nothing_more),
        cmocka_unit_test(what_is_no_log_has_no_last_commit),
        cmocka_unit_test(what_was_written_since_is_not_put_back),
    };
    disk_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
