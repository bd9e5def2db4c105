/*
 * power - every point at which the power can fail. README.md says what is promised.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/random.h"
#include "milligpu/run/clock.h"

#include "check.h"
#include "content.h"
#include "support/seen.h"

enum { SUBSETS_MAX = 6, REPORTS_MAX = 10, GOES_ON_ONE_IN = 8 };

struct options {
    struct trace_rules load;
    uint64_t sample; /* number of images; 0: all */
    uint64_t seed;
    uint64_t one_in; /* of the images whose content was seen, one in this many is opened */
    int64_t point;   /* the only point; -1: all */
    uint64_t from;   /* first point */
    uint64_t to;     /* end of the points, exclusive */
    bool bites;
};

struct power {
    const struct options *options;
    struct trace trace;
    struct disk_image image;
    struct seen images;
    struct seen contents;
    struct seen copies;
    bool *keep;
    size_t keep_room;
    size_t point;
    size_t torn; /* index of the torn change; SIZE_MAX: none */
    size_t tear;
    uint64_t chance;
    uint64_t points;
    uint64_t built;
    uint64_t distinct;
    uint64_t alike;
    uint64_t opened;
    uint64_t audited;
    uint64_t violations;
    uint64_t lost; /* violations where an acknowledged commit is missing */
};

static uint64_t draw(struct power *power, uint64_t below)
{
    return random_next(&power->chance) % below;
}

/* Whatever was acknowledged before the next operation must be on the disk. */
static const struct trace_event *promise(const struct power *power)
{
    const size_t next = power->point + 1;
    const struct trace *trace = &power->trace;
    return &trace->event[next < trace->n_events ? next : trace->n_events - 1];
}

static void violate(struct power *power, const char *what)
{
    const struct options *options = power->options;

    power->violations++;
    if (options->bites || power->violations > REPORTS_MAX)
        return;
    (void)printf("violation at point %zu: %s\n  unsynced, + is kept:", power->point, what);
    for (size_t i = 0; i < power->image.n_changes; i++)
        (void)printf(" %c%zu", power->keep[i] ? '+' : '-', power->image.change[i]);
    if (power->torn != SIZE_MAX)
        (void)printf("; torn is %zu, at boundary %zu", power->image.change[power->torn],
                     power->tear);
    (void)printf("\n  again: power --point %zu --commits %u --load %" PRIu64, power->point,
                 options->load.commits, options->load.seed);
    if (options->sample > 0)
        (void)printf(" or --sample %" PRIu64 " --seed %" PRIu64, options->sample, options->seed);
    (void)printf("\n");
}

/* found: the state, the learned workload, and a bit for the cluster identity. */
enum { CLAIMED = 1 << 30, LEARNED_SHIFT = 15, STATES_MAX = 1 << LEARNED_SHIFT };

static void check(struct power *power, uint32_t found)
{
    const struct trace_event *is = &power->trace.event[power->point];
    const struct trace_event *next = promise(power);
    const uint32_t state = found % STATES_MAX;
    const uint32_t learned = (found & ~(uint32_t)CLAIMED) >> LEARNED_SHIFT;
    char text[CHECK_TEXT_BYTES];

    if (state < next->acknowledged) {
        (void)snprintf(text, sizeof text, "commit %u was acknowledged, the disk has %u",
                       next->acknowledged, state);
        power->lost++;
        violate(power, text);
    } else if (state > is->begun) {
        (void)snprintf(text, sizeof text, "the disk has commit %u, the last begun is %u", state,
                       is->begun);
        violate(power, text);
    } else if (next->claimed && (found & CLAIMED) == 0) {
        violate(power, "the cluster's uid was acknowledged and is not there");
    } else if (learned < next->learned || learned > is->learning) {
        (void)snprintf(text, sizeof text, "learned: the disk has %u, it should have %u to %u",
                       learned, next->learned, is->learning);
        violate(power, text);
    }
}

static bool open_really(struct power *power, enum check_depth depth, uint32_t *out)
{
    struct check_found found;

    power->opened++;
    power->audited += depth >= CHECK_AUDIT;
    check_ledger(&power->image, promise(power), depth, &found);
    must(found.broken || (found.state < STATES_MAX && found.learned < STATES_MAX));
    *out = found.state | found.learned << LEARNED_SHIFT | (found.claimed ? (uint32_t)CLAIMED : 0);
    if (found.broken)
        violate(power, found.text);
    return !found.broken;
}

/* Judges an image that was not seen before. False: it is broken. */
static bool meet(struct power *power, uint64_t hash, uint32_t *out)
{
    uint64_t content = 0;
    uint32_t known = 0;
    const bool like = content_hash(&power->image, power->trace.path, &content);

    content += promise(power)->migrates;
    const bool seen = like && seen_find(&power->contents, content, &known);
    if (seen && hash % power->options->one_in != 0) {
        power->alike++;
        *out = known;
        return true;
    }
    const bool goes_on = power->options->sample > 0 || content % GOES_ON_ONE_IN == 0;
    if (!open_really(power, seen ? CHECK_STATE : goes_on ? CHECK_GOES_ON : CHECK_AUDIT, out))
        return false;
    if (seen && known != *out)
        violate(power, "two images with the same content are not the same to the store");
    if (like && !seen)
        seen_put(&power->contents, content, *out);
    return true;
}

/* Each acknowledged copy is there, and each copy that is there is whole. */
static void look_at_copies(struct power *power)
{
    const struct trace *trace = &power->trace;
    const uint32_t acknowledged = promise(power)->copies;

    for (uint32_t i = 0; i < trace->n_copies; i++) {
        const struct disk_image_file *file = disk_image_find(&power->image, trace->copy[i].name);
        struct check_found found;
        uint32_t known = 0;
        if (file == NULL && i < acknowledged)
            violate(power, "an acknowledged copy is gone");
        if (file == NULL || seen_find(&power->copies, file->hash + i, &known))
            continue;
        check_copy(&power->image, trace->copy[i].name, &found);
        if (!found.broken && found.state != trace->copy[i].state) {
            violate(power, "a copy holds another state than it was made of");
        } else if (found.broken) {
            violate(power, found.text);
        } else {
            seen_put(&power->copies, file->hash + i, 1);
        }
    }
}

static void one_image(struct power *power, size_t torn, size_t tear)
{
    uint32_t found = 0;

    power->built++;
    power->torn = torn;
    power->tear = tear;
    disk_image_build(&power->image, power->keep, torn, tear);
    const uint64_t hash = disk_image_hash(&power->image) + promise(power)->migrates;
    bool whole = true;
    if (!seen_find(&power->images, hash, &found)) {
        power->distinct++;
        whole = meet(power, hash, &found);
        if (whole)
            seen_put(&power->images, hash, found);
    }
    if (whole)
        check(power, found);
    look_at_copies(power);
    disk_image_forget(&power->image);
}

static void keep_all(struct power *power, bool keep)
{
    const size_t changes = power->image.n_changes;
    if (changes > power->keep_room) {
        power->keep_room = 2 * changes;
        power->keep = xrealloc(power->keep, power->keep_room, sizeof *power->keep);
    }
    if (changes > 0)
        memset(power->keep, keep, changes * sizeof *power->keep);
}

/* Torn, with all other changes kept; and torn, with only the changes before it kept. */
static void each_tear(struct power *power, size_t torn, bool only_all)
{
    const size_t tears = disk_image_tears(&power->image, torn);
    for (size_t tear = 0; tear < tears; tear++) {
        keep_all(power, true);
        power->keep[torn] = false;
        one_image(power, torn, tear);
        memset(power->keep + torn, 0, power->image.n_changes - torn);
        if (only_all)
            power->built++;
        else
            one_image(power, torn, tear);
    }
}

static void keep_subset(struct power *power, unsigned subset)
{
    for (size_t i = 0; i < power->image.n_changes; i++)
        power->keep[i] = (subset >> i & 1) != 0;
    one_image(power, SIZE_MAX, 0);
}

static void every_image(struct power *power)
{
    const size_t changes = power->image.n_changes;

    keep_all(power, false);
    one_image(power, SIZE_MAX, 0);
    for (size_t i = 0; i < changes; i++) { /* each prefix; the last is all changes */
        power->keep[i] = true;
        one_image(power, SIZE_MAX, 0);
    }
    for (size_t i = 0; i < changes; i++) {
        power->keep[i] = false; /* each one missing */
        one_image(power, SIZE_MAX, 0);
        power->keep[i] = true;
    }
    for (size_t i = 0; i < changes; i++) {
        keep_all(power, false); /* each one alone */
        power->keep[i] = true;
        one_image(power, SIZE_MAX, 0);
        each_tear(power, i, false);
    }
    if (changes > SUBSETS_MAX)
        return;
    for (unsigned subset = 0; subset < 1u << changes; subset++)
        keep_subset(power, subset);
}

/*
 * The same images, for when the point before already built all those without the last change: those
 * are only counted, and the others built.
 */
static void every_new_image(struct power *power)
{
    const size_t changes = power->image.n_changes;
    const size_t last = changes - 1;

    power->built += 2 * changes; /* none, each prefix, the last missing, each other alone */
    keep_all(power, true);
    one_image(power, SIZE_MAX, 0);
    for (size_t i = 0; i < last; i++) {
        power->keep[i] = false;
        one_image(power, SIZE_MAX, 0);
        power->keep[i] = true;
    }
    for (size_t i = 0; i < changes; i++)
        each_tear(power, i, true);
    keep_all(power, false);
    power->keep[last] = true;
    one_image(power, SIZE_MAX, 0);
    if (changes > SUBSETS_MAX)
        return;
    power->built += 1u << last;
    for (unsigned subset = 1u << last; subset < 1u << changes; subset++)
        keep_subset(power, subset);
}

static bool same_promise(const struct trace_event *a, const struct trace_event *b)
{
    return a->acknowledged == b->acknowledged && a->copies == b->copies &&
           a->claimed == b->claimed && a->migrates == b->migrates && a->learned == b->learned;
}

static void all_images(struct power *power)
{
    const struct trace_event *event = &power->trace.event[power->point];
    const bool syncs = event->kind == DISK_SYNCED || event->kind == DISK_SYNCED_FOLDER;

    power->points++;
    if (power->options->point < 0 && power->point > power->options->from && !syncs &&
        same_promise(event, promise(power)))
        every_new_image(power);
    else
        every_image(power);
}

/* A random image: each change kept or not by chance, and perhaps one torn. */
static void any_image(struct power *power)
{
    const size_t changes = power->image.n_changes;
    size_t torn = SIZE_MAX;
    size_t tear = 0;

    keep_all(power, draw(power, 2) == 0);
    const uint64_t flips = changes == 0 ? 0 : draw(power, changes + 1);
    for (uint64_t i = 0; i < flips; i++) {
        const size_t at = (size_t)draw(power, changes);
        power->keep[at] = !power->keep[at];
    }
    if (changes > 0 && draw(power, 2) == 0) {
        const size_t at = (size_t)draw(power, changes);
        const size_t tears = disk_image_tears(&power->image, at);
        if (tears > 0) {
            torn = at;
            tear = (size_t)draw(power, tears);
            power->keep[at] = false;
        }
    }
    one_image(power, torn, tear);
}

static void tell_progress(const struct power *power)
{
    if (power->point % 1000 != 0 || power->options->sample > 0 || power->options->bites)
        return;
    (void)fprintf(stderr,
                  "point %zu of %zu: images %" PRIu64 " distinct %" PRIu64 " opened %" PRIu64
                  " violations %" PRIu64 "\n",
                  power->point, power->trace.n_events, power->built, power->distinct, power->opened,
                  power->violations);
}

static void go(struct power *power)
{
    const struct options *options = power->options;
    const size_t points = power->trace.n_events;

    for (power->point = 0; power->point < points; power->point++) {
        disk_image_step(&power->image, power->point);
        tell_progress(power);
        if (power->point < options->from || power->point >= options->to)
            continue;
        if (options->point >= 0 && power->point != (size_t)options->point)
            continue;
        if (options->sample == 0) {
            all_images(power);
            continue;
        }
        uint64_t images = options->sample / points;
        images += draw(power, points) < options->sample % points;
        power->points += images > 0;
        for (uint64_t i = 0; i < images; i++)
            any_image(power);
    }
}

static void help(void)
{
    (void)printf(
        "power --exhaustive         every image of every point\n"
        "power --sample N           about N images, by chance\n"
        "power --point P            every image of one point, each opened\n"
        "power --bites              a load without syncs: succeeds if a loss is found\n"
        "  --commits N (2000)       of the load\n"
        "  --load SEED (1)          another load\n"
        "  --seed SEED (1)          another sample\n"
        "  --from P --to P          only the points from the one to before the other\n"
        "  --open-one-in N (16)     of images whose content was met before; 1: each is opened\n");
}

static bool number(const char *text, uint64_t *out)
{
    char *end = NULL;
    *out = strtoull(text, &end, 10);
    return end != text && *end == '\0';
}

/* False: show the help and do nothing. */
static bool take_options(int count, char **words, struct options *out)
{
    enum { EXHAUSTIVE = 1, SAMPLE, POINT, BITES, COMMITS, LOAD, FROM, TO, SEED, ONE_IN };
    static const struct option known[] = {
        {"exhaustive", no_argument, NULL, EXHAUSTIVE},
        {"sample", required_argument, NULL, SAMPLE},
        {"point", required_argument, NULL, POINT},
        {"bites", no_argument, NULL, BITES},
        {"commits", required_argument, NULL, COMMITS},
        {"load", required_argument, NULL, LOAD},
        {"from", required_argument, NULL, FROM},
        {"to", required_argument, NULL, TO},
        {"seed", required_argument, NULL, SEED},
        {"open-one-in", required_argument, NULL, ONE_IN},
        {NULL, 0, NULL, 0},
    };
    uint64_t point = UINT64_MAX;
    uint64_t commits = out->load.commits;
    uint64_t *const value[] = {
        [SAMPLE] = &out->sample, [POINT] = &point, [COMMITS] = &commits, [LOAD] = &out->load.seed,
        [FROM] = &out->from,     [TO] = &out->to,  [SEED] = &out->seed,  [ONE_IN] = &out->one_in};
    bool has_mode = false;
    int option;

    while ((option = getopt_long(count, words, "", known, NULL)) != -1) {
        if (option == '?' || (optarg != NULL && !number(optarg, value[option])))
            return false;
        has_mode |= option <= BITES;
        if (option == BITES)
            out->bites = out->load.unsynced = true;
    }
    out->point = (int64_t)point;
    out->load.commits = (uint32_t)commits;
    if (out->bites && out->sample == 0)
        out->sample = 500;
    return has_mode && optind == count && out->one_in > 0 && commits > 0 &&
           commits < STATES_MAX - 1;
}

static void print_counters(const struct power *power, int64_t started_ns)
{
    const struct trace *trace = &power->trace;
    (void)printf("load: commits %zu operations %zu checkpoints %u folds %u openings %u copies %zu "
                 "versions %u\n",
                 trace->n_states - 1, trace->n_events, trace->checkpoints, trace->folds,
                 trace->reopenings + 1, trace->n_copies, trace->versions);
    (void)printf("points %" PRIu64 " images %" PRIu64 " distinct %" PRIu64 " opened %" PRIu64
                 " alike %" PRIu64 " contents %" PRIu64 " verified %" PRIu64 ""
                 " violations %" PRIu64 "\n",
                 power->points, power->built, power->distinct, power->opened, power->alike,
                 (uint64_t)power->contents.count, power->audited, power->violations);
    (void)printf("%.1f s, %.1f s of a processor\n", (double)(clock_ns() - started_ns) / 1e9,
                 (double)clock() / CLOCKS_PER_SEC);
}

int main(int count, char **words)
{
    struct options options = {.load = {.seed = 1, .commits = 2000},
                              .seed = 1,
                              .one_in = 16,
                              .point = -1,
                              .to = UINT64_MAX};
    const int64_t started_ns = clock_ns();

    /* Line-buffered, so that an interrupted run still shows its violations. */
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (!take_options(count, words, &options)) {
        help();
        return 2;
    }
    if (options.point >= 0 || options.sample > 0)
        options.one_in = 1;
    struct power power = {.options = &options, .chance = options.seed};
    /* One thread opens the store some ten thousand times, so configure SQLite for speed. */
    must(sqlite3_config(SQLITE_CONFIG_SINGLETHREAD) == SQLITE_OK);
    must(sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0) == SQLITE_OK);
    must(sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 1200, 2000) == SQLITE_OK);
    trace_record(&power.trace, &options.load);
    disk_image_init(&power.image, &power.trace);
    seen_init(&power.images);
    seen_init(&power.contents);
    seen_init(&power.copies);
    go(&power);
    print_counters(&power, started_ns);
    const bool bitten = power.lost > 0;
    const bool failed = options.bites ? !bitten : power.violations > 0;
    if (options.bites)
        (void)printf("without syncs, %" PRIu64 " images lost an acknowledged commit\n", power.lost);
    seen_done(&power.images);
    seen_done(&power.contents);
    seen_done(&power.copies);
    xfree(power.keep);
    disk_image_done(&power.image);
    trace_done(&power.trace);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
