/*
 * A plugin's session survives any runtime: the runtime can receive what it sends, which is the same
 * however the bytes are cut. Handlers are called in their order, with whole texts.
 *
 * Input: a byte that chooses how, two for the sizes of the pieces, and then bytes as they come from
 * the socket, or (bit 0) calls in good frames: a byte for the method, two for the length of its
 * payload, and the payload. With bit 1, the session is configured and synchronized before.
 */
#include <string.h>

#include "milligpu/nri/nri.h"

#include "support.h"
#include "support/fake_runtime.h"

enum { CALLS = 1, CONNECTED = 2, ABSENT = 4 };

struct side {
    struct nri_session *session;
    struct strbuf said;
    uint32_t reported; /* hash of the handlers' arguments */
    bool lists;        /* in a list of running pods and containers */
    bool configured;
    bool synchronized;
};

/* Reads all of it. */
static void see(struct side *side, struct text text)
{
    must(text.at != NULL && text.len <= NRI_MESSAGE_MAX);
    side->reported = side->reported * 31 + text_hash(text);
}

/* Only a member of a list may be broken. */
static void see_flaw(const struct side *side, enum nri_flaw flaw)
{
    must(flaw == NRI_WHOLE || flaw == NRI_TOO_LONG || (flaw == NRI_BROKEN && side->lists));
}

static void see_pod(struct side *side, const struct nri_pod *pod)
{
    struct text value;
    see_flaw(side, pod->flaw);
    must(pod->flaw != NRI_BROKEN || pod->n_annotations == 0);
    see(side, pod->id);
    see(side, pod->name);
    see(side, pod->uid);
    see(side, pod->namespace);
    for (uint32_t i = 0; i < pod->n_annotations; i++) {
        see(side, pod->annotation[i].key);
        see(side, pod->annotation[i].value);
    }
    (void)nri_annotation(pod, "A", &value);
    see(side, value);
}

static void see_devices(struct side *side, const struct nri_device *device, uint32_t devices)
{
    for (uint32_t i = 0; i < devices; i++) {
        see(side, device[i].path);
        see(side, device[i].type);
    }
}

static void see_rules(struct side *side, const struct nri_device_rule *rule, uint32_t rules)
{
    for (uint32_t i = 0; i < rules; i++) {
        see(side, rule[i].type);
        must(rule[i].major >= NRI_ANY_NUMBER && rule[i].minor >= NRI_ANY_NUMBER);
    }
}

static void see_container(struct side *side, const struct nri_container *container)
{
    see_flaw(side, container->flaw);
    must(container->flaw != NRI_BROKEN ||
         container->n_envs + container->n_cdi_devices + container->n_devices == 0);
    see(side, container->id);
    see(side, container->pod_id);
    see(side, container->name);
    see(side, container->cgroups_path);
    must(container->state >= NRI_UNKNOWN && container->state <= NRI_STOPPED);
    for (uint32_t i = 0; i < container->n_envs; i++)
        see(side, container->env[i]);
    for (uint32_t i = 0; i < container->n_cdi_devices; i++)
        see(side, container->cdi_device[i]);
    see_devices(side, container->device, container->n_devices);
    see_rules(side, container->rule, container->n_rules);
}

static void see_call(struct side *side, const struct nri_pod *pod,
                     const struct nri_container *container)
{
    must(side->configured && side->synchronized);
    see_pod(side, pod);
    see_container(side, container);
}

/* Every other container is refused, with a text that contains its id. */
static int answer(const struct nri_container *container, struct err *err)
{
    if (container->id.len % 2 == 0)
        return 0;
    return err_set(err, ERR_CONFLICT, "not %.*s", TEXT_ARG(text_first(container->id, 200)));
}

static int configure(void *user, const struct nri_runtime *runtime, uint32_t *out_events,
                     struct err *err)
{
    struct side *side = user;
    see(side, runtime->name);
    see(side, runtime->version);
    see(side, runtime->nri);
    must(*out_events == NRI_EVENTS);
    side->synchronized = false;
    side->configured = runtime->name.len % 2 == 0;
    return side->configured ? 0 : err_set(err, ERR_INVALID, "too old");
}

static void synchronize(void *user, const struct nri_pod *pod, uint32_t pods,
                        const struct nri_container *container, uint32_t containers, bool more)
{
    struct side *side = user;
    must(side->configured);
    side->lists = true;
    for (uint32_t i = 0; i < pods; i++)
        see_pod(side, &pod[i]);
    for (uint32_t i = 0; i < containers; i++)
        see_container(side, &container[i]);
    side->lists = false;
    side->synchronized = !more;
}

static int create(void *user, const struct nri_pod *pod, const struct nri_container *container,
                  struct nri_adjustment *out, struct err *err)
{
    static char value[5000];
    static struct nri_pair env[] = {{{"A", 1}, {"B", 1}}, {{"LONG", 4}, {value, sizeof value}}};
    static struct text cdi[] = {{"nvidia.com/gpu=GPU-0", 20}};
    static const struct text option[] = {{"ro", 2}};
    static struct nri_mount mount[] = {{{"/a", 2}, {"/b", 2}, {"bind", 4}, 1, option}};

    see_call(user, pod, container);
    out->n_envs = container->n_envs % 3;
    out->env = env;
    out->n_cdi_devices = container->n_cdi_devices % 2;
    out->cdi_device = cdi;
    out->n_mounts = container->n_devices % 2;
    out->mount = mount;
    return answer(container, err);
}

static int start(void *user, const struct nri_pod *pod, const struct nri_container *container,
                 struct err *err)
{
    see_call(user, pod, container);
    return answer(container, err);
}

static void ended(void *user, const struct nri_pod *pod, const struct nri_container *container)
{
    see_call(user, pod, container);
}

static void pod_ended(void *user, const struct nri_pod *pod)
{
    const struct side *side = user;
    must(side->configured && side->synchronized);
    see_pod(user, pod);
}

static int validate(void *user, const struct nri_pod *pod, const struct nri_container *container,
                    const struct nri_adjustment *all, enum nri_validator validator, struct err *err)
{
    struct side *side = user;
    must(validator <= NRI_VALIDATOR_ON);
    see_call(side, pod, container);
    for (uint32_t i = 0; i < all->n_envs; i++) {
        see(side, all->env[i].key);
        see(side, all->env[i].value);
    }
    for (uint32_t i = 0; i < all->n_cdi_devices; i++)
        see(side, all->cdi_device[i]);
    see_devices(side, all->device, all->n_devices);
    see_rules(side, all->rule, all->n_rules);
    for (uint32_t i = 0; i < all->n_mounts; i++) {
        see(side, all->mount[i].destination);
        see(side, all->mount[i].source);
        see(side, all->mount[i].type);
        for (uint32_t k = 0; k < all->mount[i].n_options; k++)
            see(side, all->mount[i].option[k]);
    }
    return answer(container, err);
}

static void side_init(struct side *side, bool absent)
{
    const struct nri_handlers all = {side,  configure, synchronize, create,  start,
                                     ended, ended,     pod_ended,   validate};
    const struct nri_handlers none = {.user = side};
    *side = (struct side){.reported = 0};
    strbuf_init(&side->said);
    side->session = nri_session_new(absent ? &none : &all);
}

static void side_done(struct side *side)
{
    nri_session_free(side->session);
    strbuf_done(&side->said);
}

/* In pieces of cut[0], cut[1], cut[0], ... bytes; 0: the rest. The code of the error, if any. */
static enum err_code feed(struct side *side, struct text bytes, const uint8_t cut[2])
{
    struct err err = {.code = ERR_NONE};
    for (int i = 0; bytes.len > 0; i = 1 - i) {
        const struct text piece = text_first(bytes, cut[i] > 0 ? cut[i] : bytes.len);
        bytes.at += piece.len;
        bytes.len -= piece.len;
        const int result = nri_feed(side->session, piece, &err);
        must(result == -(int)err.code);
        must(result == 0 || err.text[0] != '\0');
        /* A socket takes half of it. */
        const struct text output = nri_output(side->session);
        const size_t sent = cut[i] > 0 ? (output.len + 1) / 2 : output.len;
        strbuf_text(&side->said, text_first(output, sent));
        nri_sent(side->session, sent);
    }
    strbuf_text(&side->said, nri_output(side->session));
    nri_sent(side->session, nri_output(side->session).len);
    must(nri_output(side->session).len == 0);
    return err.code;
}

static const char *const methods[] = {"Configure",
                                      "Synchronize",
                                      "CreateContainer",
                                      "StartContainer",
                                      "StopContainer",
                                      "StateChange",
                                      "ValidateContainerAdjustment",
                                      "Shutdown",
                                      "RemoveContainer",
                                      "RunPodSandbox"};

/* The number of calls. */
static uint32_t write_calls(struct pieces *pieces, uint32_t stream, struct strbuf *out)
{
    uint32_t calls = 0;
    for (; pieces->left > 0; stream += 2, calls++) {
        const char *method = methods[pieces_byte(pieces) % ARRAY_LEN(methods)];
        const size_t bytes = (size_t)pieces_byte(pieces) << 8 | pieces_byte(pieces);
        runtime_put_call(out, stream, method, pieces_take(pieces, bytes));
    }
    return calls;
}

/* The first message registers; the others are answers. How many there are. */
static uint32_t check(struct text said)
{
    struct runtime_reader reader;
    struct runtime_message message;
    uint32_t count = 0;
    runtime_reader_init(&reader);
    for (; runtime_read(&reader, &said, &message); count++) {
        must(message.connection == (count == 0 ? 2 : 1));
        must(message.type == (count == 0 ? 1 : 2));
        const struct text status = pb_get(message.data, 1);
        if (count == 0 || status.len == 0)
            continue;
        must(pb_get_number(status, 1) != 0);
        const struct text text = pb_get(status, 2);
        must(text.len > 0);
        for (size_t at = 0; at < text.len; at += text_sequence(text, at))
            must(text_sequence(text, at) > 0);
    }
    runtime_reader_done(&reader);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pieces pieces = pieces_of(data, size);
    const size_t before = heap_bytes();
    const uint8_t how = pieces_byte(&pieces);
    const uint8_t cut[2] = {pieces_byte(&pieces), pieces_byte(&pieces)};
    const uint8_t whole[2] = {0, 0};
    SCOPED_STRBUF(bytes);
    struct side at_once;
    struct side in_pieces;
    uint32_t calls = 0;

    side_init(&at_once, how & ABSENT);
    side_init(&in_pieces, how & ABSENT);
    if (how & CONNECTED) {
        runtime_put_welcome(&bytes, 0, "");
        runtime_put_call(&bytes, 1, "Configure", TEXT(""));
        runtime_put_call(&bytes, 3, "Synchronize", TEXT(""));
        calls = 2;
    }
    if (how & CALLS)
        calls += write_calls(&pieces, 2 * calls + 1, &bytes);
    else
        strbuf_text(&bytes, pieces_rest(&pieces));
    const struct text stream = {bytes.data, bytes.len};
    const enum err_code code = feed(&at_once, stream, whole);
    must(feed(&in_pieces, stream, cut) == code);
    must(stream.len == 0 || text_eq((struct text){at_once.said.data, at_once.said.len},
                                    (struct text){in_pieces.said.data, in_pieces.said.len}));
    must(at_once.reported == in_pieces.reported);
    must(nri_is_synchronized(at_once.session) == nri_is_synchronized(in_pieces.session));
    const uint32_t messages = check((struct text){at_once.said.data, at_once.said.len});
    must(!(how & CALLS) || (code == ERR_NONE && messages == calls + 1));
    heap_is_bounded(before, size + at_once.said.len);
    side_done(&at_once);
    side_done(&in_pieces);
    return 0;
}
