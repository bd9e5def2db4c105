/* The pod cache: pods are found by uid and by name, without going through all of it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/sign/signing.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "support/test.h"

static const struct request_rules rules = {
    .resource = "nvidia.com/vgpu", .min_milli = 1, .step_milli = 1};

static int set_up(void **state)
{
    *state = pod_cache_new();
    return 0;
}

static int tear_down(void **state)
{
    pod_cache_free(*state);
    return 0;
}

#define POD_CACHE_TEST(name) TEST_WITH(name, struct pod_cache *pods, set_up, tear_down)

/* Asks for 300. */
static struct pod pod_of(const char *uid, const char *node)
{
    static struct pod_container container = {.name = "c", .amount = "300"};

    return (struct pod){.uid = uid,
                        .namespace = "default",
                        .name = uid,
                        .node = node,
                        .resource_version = "1",
                        .phase = POD_PENDING,
                        .ours = true,
                        .n_containers = 1,
                        .container = &container};
}

static void put(struct pod_cache *pods, const char *uid, const char *name, const char *node)
{
    struct pod pod = pod_of(uid, node);

    pod.name = name;
    pod_cache_put(pods, &pod, &rules, 1);
}

static const struct request *request_of(struct pod_cache *pods, const char *uid)
{
    const struct pod_record *record = pod_cache_find(pods, uid);

    assert_non_null(record);
    return pod_record_request(record);
}

static const struct node_demands *demands_of(struct pod_cache *pods, const char *uid)
{
    const struct pod_record *record = pod_cache_find(pods, uid);

    assert_non_null(record);
    return pod_record_demands(record);
}

static void stale(void *user, const struct pod_record *record)
{
    assert_null(user);
    assert_non_null(record);
}

/* --- signatures --- */

/* RFC 8032, 7.1, TEST 2: the seed as PKCS#8. */
static const char rfc_key[] = "-----BEGIN PRIVATE KEY-----\n"
                              "MC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7\n"
                              "-----END PRIVATE KEY-----\n";
static const char granted[] = "the bytes of an allocation";

/* The key is retiring, so signatures are verified. */
struct signer {
    char signature[SIGNATURE_TEXT_BYTES]; /* of "u1" on "n1" with granted */
    struct cached_key key;
};

static void make_signer(struct signer *out)
{
    const struct signed_facts what = {
        .uid = TEXT("u1"), .node = TEXT("n1"), .bytes = text_of(granted)};
    struct signing_key *key = NULL;
    char file[64];
    struct err err;

    (void)snprintf(file, sizeof file, "/tmp/milligpu-cache-%d", (int)getpid());
    const int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, rfc_key, sizeof rfc_key - 1), sizeof rfc_key - 1);
    (void)close(fd);
    assert_int_equal(signing_key_open(file, &key, &err), 0);
    assert_int_equal(signing_sign(key, &what, out->signature, &err), 0);
    out->key.number = key_number(text_of(signing_key_id(key)));
    memcpy(out->key.key, signing_key_public(key), sizeof out->key.key);
    out->key.is_retiring = true;
    signing_key_free(key);
    (void)unlink(file);
}

static struct pod signed_pod(const struct signer *signer)
{
    struct pod pod = pod_of("u1", "n1");

    pod.n_containers = 0;
    pod.whole_gpus = 1;
    pod.signed_by = signer->key.number;
    pod.signature = signer->signature;
    pod.note_text = granted;
    return pod;
}

static struct pod_signer signer_of(struct pod_cache *pods)
{
    return pod_cache_signer(pods, TEXT("u1"), TEXT("n1"));
}

/* Each row changes one fact of a pod whose signature is good. */
POD_CACHE_TEST(signature__is_verified_over_uid_node_and_allocation)
{
    struct signer signer;
    struct pod row[6];
    char broken[SIGNATURE_TEXT_BYTES];

    make_signer(&signer);
    pod_cache_set_keys(pods, &signer.key, 1);
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        row[i] = signed_pod(&signer);
    memcpy(broken, signer.signature, sizeof broken);
    broken[40] = broken[40] == 'A' ? 'B' : 'A';
    row[1].note_text = "the bytes of another allocation";
    row[2].signature = broken;
    row[3].note_text = "";
    row[4].ours = false;
    row[5].signed_by = 0;
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        pod_cache_put(pods, &row[i], &rules, 1);
        assert_int_equal(signer_of(pods).verdict == SIGNATURE_GOOD, i == 0);
        assert_int_equal(signer_of(pods).key, i < 4 ? signer.key.number : 0);
        assert_int_equal(row[i].signature_verdict, SIGNATURE_UNCHECKED); /* the pod is borrowed */
        pod_cache_remove(pods, "u1");
    }
    assert_int_equal(signer_of(pods).key, 0);
}

POD_CACHE_TEST(signature__counts_on_its_own_node_and_pod_only)
{
    struct signer signer;

    make_signer(&signer);
    pod_cache_set_keys(pods, &signer.key, 1);
    struct pod pod = signed_pod(&signer);
    pod.node = "n2";
    pod_cache_put(pods, &pod, &rules, 1);
    assert_int_equal(signer_of(pods).key, 0); /* it is on another node */
    assert_int_not_equal(pod_cache_signer(pods, TEXT("u1"), TEXT("n2")).verdict, SIGNATURE_GOOD);
    pod.node = "";
    pod_cache_put(pods, &pod, &rules, 1);
    assert_int_equal(signer_of(pods).key, 0);
    pod = signed_pod(&signer);
    pod.uid = "u2";
    pod_cache_put(pods, &pod, &rules, 1);
    assert_int_not_equal(pod_cache_signer(pods, TEXT("u2"), TEXT("n1")).verdict, SIGNATURE_GOOD);
    assert_int_equal(pod_cache_signer(pods, TEXT("u2"), TEXT("n1")).key, signer.key.number);
}

/* A text that no key made shows that nothing is verified. Each row differs in one fact. */
POD_CACHE_TEST(signature__of_this_process_is_not_verified)
{
    const struct signed_facts what = {
        .uid = TEXT("u1"), .node = TEXT("n1"), .bytes = text_of(granted)};
    struct signer signer;
    struct pod row[4];

    make_signer(&signer);
    signer.signature[40] = signer.signature[40] == 'A' ? 'B' : 'A';
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        row[i] = signed_pod(&signer);
    row[1].note_text = "the bytes of another allocation";
    row[2].uid = "u2";
    row[3].node = "n2";
    pod_cache_note_signature(pods, text_of(signer.signature), &what);
    pod_cache_check_signature(pods, &row[0]); /* its key is not known */
    assert_int_equal(row[0].signature_verdict, SIGNATURE_UNKNOWN);
    row[0].signature_verdict = SIGNATURE_UNCHECKED;
    pod_cache_set_keys(pods, &signer.key, 1);
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        pod_cache_check_signature(pods, &row[i]);
        assert_int_equal(row[i].signature_verdict, i == 0 ? SIGNATURE_GOOD : SIGNATURE_BAD);
    }
}

POD_CACHE_TEST(signature__of_this_process_is_known_while_1024_newer_ones_come)
{
    struct signer signer;
    char uid[8];

    make_signer(&signer);
    signer.signature[40] = signer.signature[40] == 'A' ? 'B' : 'A';
    pod_cache_set_keys(pods, &signer.key, 1);
    for (unsigned i = 0; i <= 1024; i++) {
        (void)snprintf(uid, sizeof uid, "u%u", i);
        const struct signed_facts what = {
            .uid = text_of(uid), .node = TEXT("n1"), .bytes = text_of(granted)};
        pod_cache_note_signature(pods, text_of(signer.signature), &what);
    }
    for (unsigned i = 0; i <= 1024; i++) {
        struct pod pod = signed_pod(&signer);
        (void)snprintf(uid, sizeof uid, "u%u", i);
        pod.uid = uid;
        pod_cache_check_signature(pods, &pod);
        assert_int_equal(pod.signature_verdict, i == 0 ? SIGNATURE_BAD : SIGNATURE_GOOD);
    }
}

/* A verdict stays while the bytes stay; only a hash is made then. */
POD_CACHE_TEST(signature__is_verified_once)
{
    struct cached_key other = {.number = 7};
    struct signer signer;

    make_signer(&signer);
    struct pod pod = signed_pod(&signer);
    pod_cache_check_signature(pods, &pod); /* no key is known */
    assert_int_equal(pod.signature_verdict, SIGNATURE_UNKNOWN);
    pod_cache_set_keys(pods, &signer.key, 1);
    pod_cache_put(pods, &pod, &rules, 1); /* it is not checked again */
    assert_int_not_equal(signer_of(pods).verdict, SIGNATURE_GOOD);
    assert_int_equal(signer_of(pods).key, signer.key.number);
    pod = signed_pod(&signer);
    pod_cache_put(pods, &pod, &rules, 1);
    assert_int_equal(signer_of(pods).verdict, SIGNATURE_GOOD);
    pod_cache_set_keys(pods, &other, 1); /* without the key, nothing could be verified anew */
    pod_cache_put(pods, &pod, &rules, 1);
    assert_int_equal(signer_of(pods).verdict, SIGNATURE_GOOD);
    pod.note_text = "other bytes";
    pod_cache_put(pods, &pod, &rules, 1);
    assert_int_not_equal(signer_of(pods).verdict, SIGNATURE_GOOD);
    pod_cache_set_keys(pods, &signer.key, 1);
    pod = signed_pod(&signer);
    pod.resource_version = "2";
    pod_cache_put_fetched(pods, &pod, &rules);
    assert_int_equal(signer_of(pods).verdict, SIGNATURE_GOOD);
    pod_cache_set_keys(pods, NULL, 0);
    pod_cache_remove_stale(pods, (struct pod_cache_list){2, 9}, NULL, stale);
    assert_int_equal(signer_of(pods).key, 0);
}

/* A key is not taken away before it is retiring, so its signatures need no verdict. */
POD_CACHE_TEST(signature__is_not_verified_before_its_key_is_retiring)
{
    struct signer signer;
    struct pod row[2];

    make_signer(&signer);
    for (int retiring = 0; retiring < 2; retiring++) {
        signer.key.is_retiring = retiring == 1;
        pod_cache_set_keys(pods, &signer.key, 1);
        row[0] = row[1] = signed_pod(&signer);
        row[1].uid = "u2";
        for (size_t i = 0; i < ARRAY_LEN(row); i++)
            pod_cache_put(pods, &row[i], &rules, 1);
        assert_int_equal(signer_of(pods).key, signer.key.number);
        assert_int_equal(signer_of(pods).verdict,
                         retiring == 1 ? SIGNATURE_GOOD : SIGNATURE_UNKNOWN);
        assert_int_equal(pod_cache_signer(pods, TEXT("u2"), TEXT("n1")).verdict,
                         retiring == 1 ? SIGNATURE_BAD : SIGNATURE_UNKNOWN);
    }
}

static enum signature_verdict put_bad(struct pod_cache *pods, const struct signer *signer)
{
    struct pod bad = signed_pod(signer);

    bad.note_text = "other bytes";
    pod_cache_put(pods, &bad, &rules, 1);
    return signer_of(pods).verdict;
}

/* A pod whose signature this process has made, whatever its bytes are. */
static void put_good(struct pod_cache *pods, const struct signer *signer, int number)
{
    struct pod good = signed_pod(signer);
    char uid[24];

    (void)snprintf(uid, sizeof uid, "good-%d", number);
    good.uid = uid;
    const struct signed_facts what = {
        .uid = text_of(uid), .node = TEXT("n1"), .bytes = text_of(granted)};
    pod_cache_note_signature(pods, text_of(signer->signature), &what);
    pod_cache_put(pods, &good, &rules, 1);
}

/* One good signature keeps the key, so a list of 50,000 need not be verified. */
POD_CACHE_TEST(signature__is_verified_while_few_pods_have_a_good_one)
{
    struct signer signer;

    make_signer(&signer);
    pod_cache_set_keys(pods, &signer.key, 1);
    for (int i = 0; i < SIGNATURES_ENOUGH; i++)
        put_good(pods, &signer, i);
    assert_int_equal(put_bad(pods, &signer), SIGNATURE_UNKNOWN);
    pod_cache_set_keys(pods, &signer.key, 1);
    put_good(pods, &signer, 0); /* it is counted once */
    assert_int_equal(put_bad(pods, &signer), SIGNATURE_UNKNOWN);
    pod_cache_remove(pods, "good-0");
    assert_int_equal(put_bad(pods, &signer), SIGNATURE_BAD);
    put_good(pods, &signer, 0);
    assert_int_equal(put_bad(pods, &signer), SIGNATURE_BAD); /* as it was found before */
}

/* The listed version is older than the stored one after a restore of etcd. */
POD_CACHE_TEST(signature__of_an_older_version_counts_if_it_is_the_same)
{
    struct signer signer;

    make_signer(&signer);
    for (int same = 0; same < 2; same++) {
        signer.key.is_retiring = false;
        pod_cache_set_keys(pods, &signer.key, 1);
        struct pod pod = signed_pod(&signer);
        pod.resource_version = "9";
        assert_true(pod_cache_put(pods, &pod, &rules, 1));
        assert_int_equal(signer_of(pods).verdict, SIGNATURE_UNKNOWN);
        signer.key.is_retiring = true;
        pod_cache_set_keys(pods, &signer.key, 1);
        pod.resource_version = "5";
        pod.note_text = same == 1 ? granted : "other bytes";
        pod_cache_check_signature(pods, &pod);
        assert_false(pod_cache_put(pods, &pod, &rules, 2));
        assert_int_equal(signer_of(pods).verdict, same == 1 ? SIGNATURE_GOOD : SIGNATURE_UNKNOWN);
        pod_cache_remove(pods, "u1");
    }
}

static void put_waiting(struct pod_cache *pods, const char *uid, const char *message,
                        const char *node)
{
    struct pod pod = pod_of(uid, node);

    pod.scheduling =
        (struct pod_scheduling){.scheduler = "s", .reason = "Unschedulable", .message = message};
    pod.owner = (struct pod_owner){.kind = "Deployment", .name = "llm", .revision = uid};
    pod_cache_put(pods, &pod, &rules, 1);
}

POD_CACHE_TEST(context__is_copied_with_the_record)
{
    char message[] = "0/1 nodes";

    put_waiting(pods, "u1", message, "");
    message[0] = 'x';
    struct pod_record *record = pod_cache_copy(pods, "default", "u1");
    const size_t bytes = pod_cache_bytes(pods).contexts;
    assert_non_null(record->context);
    assert_int_equal(record->context->bytes, bytes);
    pod_cache_remove(pods, "u1");
    assert_int_equal(pod_cache_bytes(pods).contexts, 0);
    assert_string_equal(record->context->scheduling.message, "0/1 nodes");
    assert_string_equal(record->context->scheduling.scheduler, "s");
    assert_null(record->context->scheduling.gates);
    assert_string_equal(record->context->owner.name, "llm");
    assert_null(record->context->owner.uid);
    pod_record_free(record);
}

static void put_bound(struct pod_cache *pods, const char *uid, enum pod_annotation annotation,
                      const char *scheduler)
{
    struct pod pod = pod_of(uid, "n1");

    pod.annotation = annotation;
    pod.scheduling.scheduler = scheduler;
    pod_cache_put(pods, &pod, &rules, 1);
}

/* A Binding of ours has the annotation: a pod without one was bound by another scheduler. */
POD_CACHE_TEST(scheduler__is_kept_for_a_pod_bound_by_another)
{
    CLEANUP(arena_done) struct arena arena;

    arena_init(&arena);
    put_bound(pods, "u1", NOTE_NONE, "other");
    put_bound(pods, "u2", NOTE_BROKEN, "other");
    put_bound(pods, "u3", NOTE_OK, "other");
    put_bound(pods, "u4", NOTE_NONE, NULL);
    put_waiting(pods, "u5", "0/1 nodes", "");
    const char *kept = pod_cache_scheduler(pods, TEXT("u1"), &arena);
    pod_cache_remove(pods, "u1");
    assert_string_equal(kept, "other");
    assert_null(pod_cache_scheduler(pods, TEXT("u1"), &arena)); /* no such pod now */
    assert_string_equal(pod_cache_scheduler(pods, TEXT("u2"), &arena), "other");
    assert_null(pod_cache_scheduler(pods, TEXT("u3"), &arena));
    assert_null(pod_cache_scheduler(pods, TEXT("u4"), &arena));
    assert_null(pod_cache_find(pods, "u4")->context);
    assert_string_equal(pod_cache_scheduler(pods, TEXT("u5"), &arena), "s");
    assert_false(
        pod_cache_predecessor(pods, TEXT("u2"), &(struct pod_owner){.kind = "Job", .name = "j"})
            .exists);
}

/* Only the owner of a pod that we bound is kept; nothing of a pod that asks for nothing. */
POD_CACHE_TEST(context__is_kept_for_waiting_pods_only)
{
    struct pod plain = pod_of("u2", "");

    plain.ours = false;
    plain.n_containers = 0;
    plain.scheduling.message = "0/1 nodes";
    put_waiting(pods, "u1", "0/1 nodes", "n1");
    const struct pod_record *record = pod_cache_find(pods, "u1");
    assert_null(record->context->scheduling.message);
    assert_null(record->context->scheduling.reason);
    assert_string_equal(record->context->owner.kind, "Deployment");
    put(pods, "u3", "u3", "n1"); /* no controller */
    assert_null(pod_cache_find(pods, "u3")->context);
    pod_cache_put(pods, &plain, &rules, 1);
    assert_null(pod_cache_find(pods, "u2")->context);
}

POD_CACHE_TEST(context__is_left_out_beyond_the_bound)
{
    static char message[1 << 20];
    char uid[16];

    memset(message, 'm', sizeof message - 1);
    for (int i = 0; i < 17; i++) {
        (void)snprintf(uid, sizeof uid, "u%d", i);
        put_waiting(pods, uid, message, "");
    }
    assert_true(pod_cache_bytes(pods).contexts <= CONTEXTS_BYTES_MAX);
    assert_true(pod_cache_bytes(pods).contexts > CONTEXTS_BYTES_MAX - sizeof message);
    assert_non_null(pod_cache_find(pods, "u14")->context);
    assert_null(pod_cache_find(pods, "u16")->context);
    assert_non_null(request_of(pods, "u16"));
    pod_cache_remove(pods, "u0");
    put_waiting(pods, "u16", message, "");
    assert_non_null(pod_cache_find(pods, "u16")->context);
}

POD_CACHE_TEST(predecessor__is_bound_and_of_another_revision_or_terminating)
{
    const struct pod_owner owner = {.kind = "Deployment", .name = "llm", .revision = "new"};
    const struct pod_owner other = {.kind = "Deployment", .name = "web", .revision = "new"};
    const struct pod_owner same = {.kind = "Deployment", .name = "llm", .revision = "old"};
    struct pod ending = pod_of("old", "n1");

    ending.terminating_ms = 5;
    ending.owner = same;
    put_waiting(pods, "old", "", "n1");
    put_waiting(pods, "unbound", "", "");
    assert_true(pod_cache_predecessor(pods, TEXT("old"), &owner).exists);
    assert_false(pod_cache_predecessor(pods, TEXT("old"), &owner).terminating);
    assert_false(pod_cache_predecessor(pods, TEXT("old"), &other).exists);
    assert_false(pod_cache_predecessor(pods, TEXT("old"), &same).exists);
    assert_false(pod_cache_predecessor(pods, TEXT("unbound"), &owner).exists);
    assert_false(pod_cache_predecessor(pods, TEXT("unknown"), &owner).exists);
    pod_cache_put(pods, &ending, &rules, 1);
    assert_true(pod_cache_predecessor(pods, TEXT("old"), &same).exists);
    assert_true(pod_cache_predecessor(pods, TEXT("old"), &same).terminating);
    assert_false(pod_cache_predecessor(pods, TEXT("old"), &other).exists);
}

static void named(struct pod_cache *pods, const char *name, const char *uid)
{
    struct pod_record *record = pod_cache_copy(pods, "default", name);

    if (uid == NULL) {
        assert_null(record);
    } else {
        assert_non_null(record);
        assert_string_equal(pod_record_uid(record), uid);
        assert_string_equal(pod_record_name(record), name);
    }
    pod_record_free(record);
}

static void count(void *user, const struct pod_record *record)
{
    assert_string_equal(pod_record_node(record), "");
    ++*(unsigned *)user;
}

static unsigned unbound(struct pod_cache *pods)
{
    unsigned visits = 0;

    pod_cache_each_unbound(pods, &visits, count);
    return visits;
}

POD_CACHE_TEST(pod_cache__finds_a_pod_by_name_and_namespace)
{
    char longest[600];

    put(pods, "u1", "a", "");
    put(pods, "u2", "b", "n1");
    named(pods, "a", "u1");
    named(pods, "b", "u2");
    named(pods, "c", NULL);
    assert_null(pod_cache_copy(pods, "other", "a"));
    assert_null(pod_cache_copy(pods, "", ""));
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_null(pod_cache_copy(pods, "default", longest));
    pod_cache_remove(pods, "u1");
    named(pods, "a", NULL);
    named(pods, "b", "u2");
}

POD_CACHE_TEST(pod_cache__finds_every_pod_while_it_settles)
{
    enum { PODS = 800 };
    char uid[16];

    for (int i = 0; i < PODS; i++) {
        (void)snprintf(uid, sizeof uid, "u%d", i);
        put(pods, uid, uid, i % 2 == 0 ? "n1" : "");
    }
    for (int i = 0; i < PODS; i++) {
        pod_cache_settle(pods, 10);
        (void)snprintf(uid, sizeof uid, "u%d", i);
        named(pods, uid, uid);
        assert_int_equal(pod_cache_look(pods, text_of(uid)),
                         i % 2 == 0 ? PODS_BOUND : PODS_UNBOUND);
    }
    assert_int_equal(pod_cache_count(pods), PODS);
}

/* It was deleted and created again, and the end of the first has not been reported yet. */
POD_CACHE_TEST(pod_cache__finds_the_later_of_two_pods_of_one_name)
{
    put(pods, "u1", "a", "n1");
    put(pods, "u2", "a", "");
    named(pods, "a", "u2");
    pod_cache_remove(pods, "u1");
    named(pods, "a", "u2");
    pod_cache_remove(pods, "u2");
    named(pods, "a", NULL);
}

POD_CACHE_TEST(pod_cache__replaces_a_record_with_its_names)
{
    for (unsigned i = 0; i < 1000; i++)
        put(pods, "u1", "a", i % 2 == 0 ? "" : "n1");
    named(pods, "a", "u1");
    assert_int_equal(pod_cache_count(pods), 1);
    assert_int_equal(unbound(pods), 0);
}

static void wants_cpu(struct pod_cache *pods, const char *uid, int64_t cpu_milli,
                      int64_t memory_bytes)
{
    struct pod pod = pod_of(uid, "");

    pod.cpu_milli = cpu_milli;
    pod.memory_bytes = memory_bytes;
    pod_cache_put(pods, &pod, &rules, 1);
}

/* A bind is evaluated with the request of the record. */
POD_CACHE_TEST(request__has_its_own_host_beside_equal_shares)
{
    static const int64_t mib = INT64_C(1024) * 1024;

    wants_cpu(pods, "u1", 1000, mib);
    const size_t one = pod_cache_bytes(pods).requests;
    wants_cpu(pods, "u2", 4000, mib);
    wants_cpu(pods, "u3", 1000, 2 * mib);
    assert_int_equal(request_of(pods, "u1")->host.cpu_milli, 1000);
    assert_int_equal(request_of(pods, "u2")->host.cpu_milli, 4000);
    assert_int_equal(request_of(pods, "u1")->host.memory_mib, 1);
    assert_int_equal(request_of(pods, "u3")->host.memory_mib, 2);
    wants_cpu(pods, "u4", 1000, mib); /* in all alike */
    assert_ptr_equal(request_of(pods, "u4"), request_of(pods, "u1"));
    assert_int_equal(pod_cache_bytes(pods).requests, 3 * one);
}

static void put_tolerant(struct pod_cache *pods, const char *uid, const char *node,
                         const struct node_demands *demands)
{
    struct pod pod = pod_of(uid, node);

    pod.demands = *demands;
    pod_cache_put(pods, &pod, &rules, 1);
}

static const struct toleration tolerant[] = {{"k", "", TOLERATE_EXISTS, EFFECT_ANY}};
static const struct taint taint = {"k", "v", EFFECT_NO_SCHEDULE};

/* A thousand pods of one ReplicaSet demand the same. */
POD_CACHE_TEST(node_demands__are_stored_once_and_freed)
{
    static const struct label selector[] = {{"pool", "a"}};
    const struct node_demands demands = {
        .n_tolerations = 1, .toleration = tolerant, .n_selectors = 1, .selector = selector};

    put_tolerant(pods, "u1", "", &demands);
    const size_t one = pod_cache_bytes(pods).demands;
    assert_true(one > 0);
    put_tolerant(pods, "u2", "", &demands);
    assert_int_equal(pod_cache_bytes(pods).demands, one);
    assert_ptr_equal(demands_of(pods, "u1"), demands_of(pods, "u2"));
    assert_true(tolerations_cover(pod_cache_tolerations(pods), &taint));
    struct pod_record *copy = pod_cache_copy(pods, "default", "u1");
    assert_ptr_not_equal(pod_record_demands(copy), demands_of(pods, "u1"));
    assert_string_equal(pod_record_demands(copy)->selector[0].value, "a");
    pod_record_free(copy);
    /* A bound pod needs no other node: what it tolerates still counts. */
    put_tolerant(pods, "u1", "n1", &demands);
    assert_int_equal(demands_of(pods, "u1")->n_selectors, 0);
    pod_cache_remove(pods, "u2");
    assert_true(tolerations_cover(pod_cache_tolerations(pods), &taint));
    pod_cache_remove(pods, "u1");
    assert_false(tolerations_cover(pod_cache_tolerations(pods), &taint));
    assert_int_equal(pod_cache_bytes(pods).demands, 0);
}

/* Only pods that wait for shares or hold them make room of a taint. */
POD_CACHE_TEST(tolerations__count_only_for_pods_with_shares)
{
    struct pod plain = pod_of("u1", "");

    plain.ours = false;
    plain.n_containers = 0;
    plain.demands = (struct node_demands){.n_tolerations = 1, .toleration = tolerant};
    struct pod whole = plain;
    pod_cache_put(pods, &plain, &rules, 1);
    assert_null(demands_of(pods, "u1"));
    assert_false(tolerations_cover(pod_cache_tolerations(pods), &taint));
    whole.uid = "u2";
    whole.node = "n1";
    whole.whole_gpus = 1;
    pod_cache_put(pods, &whole, &rules, 1);
    assert_false(tolerations_cover(pod_cache_tolerations(pods), &taint));
}

/* A tenant whose pods all demand something else takes no more than the bound. */
POD_CACHE_TEST(node_demands__are_limited_and_small_ones_stay)
{
    enum { LARGE = 64 * 1024 };
    char *key = xcalloc(LARGE, 1);
    const struct toleration long_one[] = {{key, "", TOLERATE_EXISTS, EFFECT_ANY}};
    const struct node_demands large = {.n_tolerations = 1, .toleration = long_one};
    const struct node_demands small = {.n_tolerations = 1, .toleration = tolerant};
    char uid[16];
    unsigned kept = 0;

    memset(key, 'k', LARGE - 1);
    for (unsigned i = 0; i < 40; i++) {
        key[0] = (char)('A' + i);
        (void)snprintf(uid, sizeof uid, "u%u", i);
        put_tolerant(pods, uid, "", &large);
        kept += demands_of(pods, uid) != NULL;
        assert_true(pod_cache_bytes(pods).demands <= DEMANDS_BYTES_MAX / 2);
    }
    assert_true(kept > 8 && kept < 40);
    put_tolerant(pods, "small", "", &small);
    assert_non_null(demands_of(pods, "small"));
    struct pod_record *copy = pod_cache_copy(pods, "default", "u39");
    assert_null(pod_record_demands(copy)); /* not kept, so not known */
    pod_record_free(copy);
    xfree(key);
}

POD_CACHE_TEST(unbound_pods__are_visited_without_the_bound_ones)
{
    enum { BOUND = 5000, WAIT = 7 };
    char uid[32];

    for (unsigned i = 0; i < BOUND + WAIT; i++) {
        (void)snprintf(uid, sizeof uid, "u%u", i);
        put(pods, uid, uid, i < BOUND ? "n1" : "");
    }
    assert_int_equal(unbound(pods), WAIT);
    put(pods, "u5000", "u5000", "n1");
    pod_cache_remove(pods, "u5001");
    assert_int_equal(unbound(pods), WAIT - 2);
}

static void put_amount(struct pod_cache *pods, const char *uid, const char *amount,
                       const char *odd_key, uint32_t odd_keys)
{
    struct pod_container container = {.name = "c", .amount = amount};
    struct pod pod = pod_of(uid, "");

    pod.container = &container;
    pod.n_odd_keys = odd_keys;
    for (size_t i = 0; i < ARRAY_LEN(pod.odd_key); i++)
        pod.odd_key[i] = odd_key;
    pod_cache_put(pods, &pod, &rules, 1);
}

static void advises(struct pod_cache *pods, const char *uid, const char *expected)
{
    struct pod_record *record = pod_cache_copy(pods, "default", uid);

    assert_non_null(record);
    if (expected == NULL)
        assert_null(pod_record_advice(record));
    else
        assert_string_equal(pod_record_advice(record), expected);
    pod_record_free(record);
}

POD_CACHE_TEST(advice__is_kept_with_the_pod)
{
    static const char tiny[] = "container c: nvidia.com/vgpu: 1 is 1 thousandth of a GPU; 1000 is "
                               "one whole GPU; did you mean 1000?";
    static const char odd[] = "annotation milligpu.io/gpu_model has no effect; did you mean "
                              "milligpu.io/gpu-model?";
    char both[sizeof tiny + sizeof odd];

    put_amount(pods, "a", "1", NULL, 0);
    advises(pods, "a", tiny);
    assert_int_equal(pod_cache_bytes(pods).seen, sizeof tiny);
    put_amount(pods, "a", "1", "milligpu.io/gpu_model", 1);
    (void)snprintf(both, sizeof both, "%s\n%s", tiny, odd);
    advises(pods, "a", both);
    assert_int_equal(pod_cache_bytes(pods).seen, sizeof tiny + sizeof odd);
    put_amount(pods, "a", "300", "milligpu.io/gpu_model", 1);
    advises(pods, "a", odd);
    put_amount(pods, "b", "300", NULL, 0);
    advises(pods, "b", NULL);
    put_amount(pods, "b", "1500", NULL, 0); /* the refusal says it already */
    advises(pods, "b", NULL);
    pod_cache_remove(pods, "a");
    assert_int_equal(pod_cache_bytes(pods).seen, 0);
}

/* Tenants write it, so it has a bound, together with whole pods. */
POD_CACHE_TEST(advice__ends_where_its_table_does)
{
    enum { LEFT = 10000 };
    char *note = xmalloc(REMEMBERED_BYTES_MAX - LEFT);
    struct pod large = pod_of("large", "n1");
    unsigned without = 0;

    memset(note, 'x', REMEMBERED_BYTES_MAX - LEFT);
    note[REMEMBERED_BYTES_MAX - LEFT - 1] = '\0';
    large.note_text = note;
    pod_cache_put(pods, &large, &rules, 1);
    pod_cache_remember(pods, &large);
    assert_in_range(pod_cache_bytes(pods).seen, REMEMBERED_BYTES_MAX - LEFT, REMEMBERED_BYTES_MAX);
    for (unsigned i = 0; i < 100; i++) {
        char uid[16];
        (void)snprintf(uid, sizeof uid, "%u", i);
        put_amount(pods, uid, "1", "milligpu.io/gpu_model", ODD_KEYS_MAX);
        without += pod_record_advice(pod_cache_find(pods, uid)) == NULL;
        assert_true(pod_cache_bytes(pods).seen <= REMEMBERED_BYTES_MAX);
    }
    assert_in_range(without, 80, 99);
    pod_cache_remove(pods, "large");
    put_amount(pods, "99", "1", NULL, 0);
    assert_non_null(pod_record_advice(pod_cache_find(pods, "99")));
    xfree(note);
}

/* --- what a record owns --- */

/* A pod with all particulars. */
static struct pod ending_pod(struct pod_container *container)
{
    struct pod pod = pod_of("u1", "n1");

    *container = (struct pod_container){.name = "c", .amount = "1"};
    pod.container = container;
    pod.terminating_ms = 5;
    pod.n_odd_keys = 1;
    pod.odd_key[0] = "milligpu.io/gpu_model";
    pod.demands = (struct node_demands){.n_tolerations = 1, .toleration = tolerant};
    return pod;
}

POD_CACHE_TEST(particulars__are_those_of_few_pods)
{
    struct pod_container container;
    struct pod ending = ending_pod(&container);

    put(pods, "u1", "u1", "n1");
    assert_null(pod_cache_find(pods, "u1")->particulars);
    pod_cache_advised(pods, "u1", ADVICE_MODEL);
    pod_cache_put(pods, &ending, &rules, 1);
    const struct pod_record *record = pod_cache_find(pods, "u1");
    assert_int_equal(pod_record_terminating_ms(record), 5);
    assert_non_null(pod_record_advice(record));
    assert_null(record->particulars->request);
    assert_null(record->particulars->demands);
    pod_cache_remember(pods, &ending);
    assert_string_equal(pod_record_seen(record)->container[0].amount, "1");
    assert_int_equal(record->reported_advice, 1U << ADVICE_MODEL);
    put(pods, "u1", "u1", "n1");
    assert_null(pod_cache_find(pods, "u1")->particulars);
    assert_int_equal(pod_cache_bytes(pods).seen, 0);
    assert_int_equal(pod_cache_find(pods, "u1")->reported_advice, 1U << ADVICE_MODEL);
}

/* The pod has no particulars before. */
POD_CACHE_TEST(remembered_pod__is_freed_with_its_record)
{
    struct pod pod = pod_of("u1", "n1");

    pod_cache_put(pods, &pod, &rules, 1);
    pod_cache_remember(pods, &pod);
    assert_string_equal(pod_record_seen(pod_cache_find(pods, "u1"))->name, "u1");
    struct pod_record *copy = pod_cache_copy(pods, "default", "u1");
    assert_null(pod_record_seen(copy));
    pod_record_free(copy);
    pod_cache_remove(pods, "u1");
    assert_int_equal(pod_cache_bytes(pods).seen, 0);
}

POD_CACHE_TEST(copy__outlives_its_record)
{
    struct pod_container container;
    struct pod ending = ending_pod(&container);

    pod_cache_put(pods, &ending, &rules, 1);
    pod_cache_remember(pods, &ending);
    struct pod_record *copy = pod_cache_copy(pods, "default", "u1");
    pod_cache_remove(pods, "u1");
    assert_int_equal(pod_cache_bytes(pods).requests, 0);
    assert_int_equal(pod_cache_bytes(pods).demands, 0);
    assert_int_equal(pod_cache_bytes(pods).seen, 0);
    assert_int_equal(pod_record_request(copy)->want[0].milli, 1);
    assert_string_equal(pod_record_demands(copy)->toleration[0].key, "k");
    assert_int_equal(pod_record_terminating_ms(copy), 5);
    assert_non_null(strstr(pod_record_advice(copy), "gpu_model"));
    assert_null(pod_record_seen(copy));
    pod_record_free(copy);
}

POD_CACHE_TEST(copy__has_the_refusal)
{
    put_amount(pods, "a", "1500", NULL, 0);
    struct pod_record *copy = pod_cache_copy(pods, "default", "a");
    assert_int_equal(copy->verdict, REQUEST_REFUSED);
    assert_string_equal(pod_record_refusal(copy), pod_record_refusal(pod_cache_find(pods, "a")));
    assert_ptr_not_equal(pod_record_refusal(copy), pod_record_refusal(pod_cache_find(pods, "a")));
    assert_null(pod_record_request(copy));
    pod_cache_remove(pods, "a");
    assert_string_not_equal(pod_record_refusal(copy), "");
    pod_record_free(copy);
}

POD_CACHE_TEST(copy__of_a_pod_that_asks_for_nothing_owns_nothing)
{
    static struct pod_container zero = {.name = "c", .amount = "0"};
    struct pod pod = pod_of("u1", "n1");

    pod.container = &zero;
    pod_cache_put(pods, &pod, &rules, 1);
    struct pod_record *copy = pod_cache_copy(pods, "default", "u1");
    assert_int_equal(copy->verdict, REQUEST_ZERO);
    assert_null(copy->particulars);
    pod_record_free(copy);
}

POD_CACHE_TEST(pod_record__has_room_for_the_longest_texts)
{
    char uid[UID_BYTES_MAX + 1];
    char text[3][NAME_BYTES_MAX + 1];

    memset(uid, 'u', sizeof uid - 1);
    uid[sizeof uid - 1] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(text); i++) {
        memset(text[i], (char)('a' + i), sizeof text[i] - 1);
        text[i][sizeof text[i] - 1] = '\0';
    }
    struct pod pod = pod_of(uid, text[2]);
    pod.namespace = text[0];
    pod.name = text[1];
    pod_cache_put(pods, &pod, &rules, 1);
    struct pod_record *copy = pod_cache_copy(pods, text[0], text[1]);
    assert_non_null(copy);
    pod_cache_remove(pods, uid);
    assert_string_equal(pod_record_uid(copy), uid);
    assert_string_equal(pod_record_namespace(copy), text[0]);
    assert_string_equal(pod_record_name(copy), text[1]);
    assert_string_equal(pod_record_node(copy), text[2]);
    pod_record_free(copy);
}
