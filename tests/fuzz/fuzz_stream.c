/*
 * An answer of the API server means the same in whatever pieces it arrives: the reflector calls its
 * sink the same way, and sends the same requests, as when each answer arrives whole.
 *
 * Input: answers. Each begins with a byte for the status and one for how it ends, and goes on up to
 * a NUL; the first two bytes of the input choose the sizes of the pieces. In an answer of protobuf,
 * 0xFE stands for a NUL.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/limits.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/kube/kube.h"
#include "milligpu/kube/reflector.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "support.h"

enum { ANSWERS_MAX = 12, STEP_MS = 700 };

struct side {
    struct reflector *reflector;
    struct strbuf calls; /* calls of the sink and requests, in order */
    uint64_t id;         /* of the open request; 0: none */
    bool listing;
    uint32_t listed;
    int64_t now_ms;
};

static void list_begin(void *user)
{
    struct side *side = user;
    must(!side->listing);
    side->listing = true;
    side->listed++;
    strbuf_str(&side->calls, "begin\n");
}

static void add(struct side *side, const char *word, struct text object)
{
    must(object.len > 0 && object.len <= EVENT_BYTES_MAX);
    strbuf_printf(&side->calls, "%s %.*s\n", word, TEXT_ARG(object));
}

static int listed(void *user, struct text object, struct err *err)
{
    struct side *side = user;
    must(side->listing);
    add(side, "listed", object);
    (void)err;
    return 0;
}

static void list_end(void *user, const char *resource_version)
{
    struct side *side = user;
    must(side->listing);
    side->listing = false;
    strbuf_printf(&side->calls, "end of %s\n", resource_version);
}

static void list_failed(void *user)
{
    struct side *side = user;
    must(side->listing);
    side->listing = false;
    strbuf_str(&side->calls, "failed\n");
}

/* Changes come only after a complete list, never within one. */
static int changed(void *user, struct text object, struct err *err)
{
    struct side *side = user;
    must(!side->listing && side->listed > 0);
    add(side, "changed", object);
    (void)err;
    return 0;
}

static int deleted(void *user, struct text object, struct err *err)
{
    struct side *side = user;
    must(!side->listing && side->listed > 0);
    add(side, "deleted", object);
    (void)err;
    return 0;
}

static void trouble(void *user, const struct err *err)
{
    struct side *side = user;
    must(err->text[0] != '\0');
    strbuf_printf(&side->calls, "trouble %s\n", err->text);
}

/* Each event is passed on; its digest must be the same in whatever pieces it arrives. */
static bool repeats(void *user, struct text line, struct arena *arena, const char **out_version)
{
    static const struct siphash_key key = {{7, 11}};
    struct side *side = user;
    struct node_digest digest;

    must(out_version != NULL);
    if (node_digest(line, &key, arena, &digest))
        strbuf_printf(&side->calls, "digest %llx %llx %s\n", (unsigned long long)digest.name,
                      (unsigned long long)digest.bytes, digest.version);
    return false;
}

static int start(void *ctx, const struct kube_request *request, struct err *err)
{
    struct side *side = ctx;
    must(err != NULL && side->id == 0);
    side->id = request->id;
    strbuf_printf(&side->calls, "%s %s\n", request->method, request->path);
    return 0;
}

static void cancel(void *ctx, uint64_t id)
{
    struct side *side = ctx;
    must(side->id == id || side->id == 0); /* it may have ended */
    side->id = 0;
    strbuf_str(&side->calls, "cancel\n");
}

static void side_init(struct side *side)
{
    static const struct reflector_rules rules = {.path = "/api/v1/pods",
                                                 .page = 500,
                                                 .watch_ms = 300000,
                                                 .silence_ms = 90000,
                                                 .list_timeout_ms = 30000,
                                                 .seed = 7,
                                                 .id_base = 1};
    const struct kube_ops ops = {.ctx = side, .start = start, .cancel = cancel};
    const struct reflector_sink sink = {.user = side,
                                        .list_begin = list_begin,
                                        .listed = listed,
                                        .list_end = list_end,
                                        .list_failed = list_failed,
                                        .changed = changed,
                                        .deleted = deleted,
                                        .trouble = trouble,
                                        .repeats = repeats};
    *side = (struct side){.now_ms = 1000};
    strbuf_init(&side->calls);
    side->reflector = reflector_new(&rules, &ops, &sink);
}

static void give(struct side *side, struct kube_answer answer, enum kube_piece piece)
{
    answer.piece = piece;
    if (side->id == answer.id)
        must(reflector_answer(side->reflector, side->now_ms, &answer));
}

static int status_of(uint8_t byte)
{
    static const int statuses[] = {200, 200, 410, 429, 500, 404, 401, 504};
    return statuses[byte % ARRAY_LEN(statuses)];
}

/* Returns a copy in the arena. */
static struct text with_nuls(struct text text, struct arena *arena)
{
    char *copy = arena_copy(arena, text);

    for (size_t i = 0; i < text.len; i++)
        if (copy[i] == '\xfe')
            copy[i] = '\0';
    return (struct text){copy, text.len};
}

/* Deliver one answer in pieces of cut[0], cut[1], cut[0], ... bytes; 0: whole. */
static void answer(struct side *side, struct text text, const uint8_t cut[2])
{
    struct pieces pieces = pieces_of((const uint8_t *)text.at, text.len);
    const struct err lost = {ERR_IO, "lost"};
    struct kube_answer says = {.id = side->id, .err = &lost};
    const uint8_t status = pieces_byte(&pieces);
    const uint8_t how = pieces_byte(&pieces);
    const bool fails = how % 4 == 3;
    const bool silent = fails && (how & 4) == 0; /* not even a status comes */
    SCOPED_ARENA(arena);
    if ((how & 8) != 0) {
        const struct text bytes = with_nuls(pieces_rest(&pieces), &arena);
        pieces = pieces_of((const uint8_t *)bytes.at, bytes.len);
    }
    says.status = status_of(status);
    says.retry_after_s = how >> 4;
    if ((status & 8) != 0) /* a page that waits is decoded here, else by the first piece */
        must(reflector_step(side->reflector, side->now_ms) >= 0);
    if (!silent)
        give(side, says, KUBE_HEAD);
    for (int i = 0; pieces.left > 0 && !silent; i = 1 - i) {
        says.data = pieces_take(&pieces, cut[i] > 0 ? cut[i] : pieces.left);
        give(side, says, KUBE_DATA);
    }
    if (side->id != says.id)
        return;
    side->id = 0;
    says.piece = fails ? KUBE_FAILED : KUBE_DONE;
    must(reflector_answer(side->reflector, side->now_ms, &says));
}

static void play(struct side *side, struct pieces input, const uint8_t cut[2])
{
    struct reflector_stats stats;
    for (int i = 0; i < ANSWERS_MAX && input.left > 0; i++) {
        for (int j = 0; j < 64 && side->id == 0; j++, side->now_ms += STEP_MS)
            must(reflector_step(side->reflector, side->now_ms) >= 0);
        must(side->id != 0); /* the longest pause is 45 s */
        answer(side, pieces_until(&input, '\0'), cut);
    }
    reflector_stats(side->reflector, &stats);
    must(!stats.synced || stats.lists > 0);
    strbuf_printf(&side->calls, "%llu lists, %llu events, %llu failures\n",
                  (unsigned long long)stats.lists, (unsigned long long)stats.events,
                  (unsigned long long)stats.failures);
    reflector_free(side->reflector);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t whole[2] = {0, 0};
    struct pieces input = pieces_of(data, size);
    const uint8_t cut[2] = {pieces_byte(&input), pieces_byte(&input)};
    const size_t before = heap_bytes();
    struct side at_once;
    struct side cut_up;
    side_init(&at_once);
    side_init(&cut_up);
    play(&at_once, input, whole);
    play(&cut_up, input, cut);
    must(at_once.calls.len == cut_up.calls.len &&
         memcmp(at_once.calls.data, cut_up.calls.data, cut_up.calls.len) == 0);
    heap_is_bounded(before, size);
    strbuf_done(&at_once.calls);
    strbuf_done(&cut_up.calls);
    return 0;
}
