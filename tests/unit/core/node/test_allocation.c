#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/node/allocation.h"

#include "support/atoms.h"
#include "support/test.h"

static struct share share(const char *container, uint16_t order, const char *gpu, uint32_t milli)
{
    return (struct share){
        .container = container,
        .order = order,
        .gpu = atom(gpu),
        .milli = milli,
        .mib = milli * 80,
    };
}

static struct share share_of(enum container_kind kind, uint16_t order, const char *gpu,
                             uint32_t milli)
{
    static const char *const name[] = {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"};
    struct share made = share(name[order], order, gpu, milli);
    made.kind = kind;
    return made;
}

static struct allocation_facts facts_of(const struct share *shares, uint32_t count)
{
    return (struct allocation_facts){
        .uid = "uid-1",
        .namespace = "default",
        .name = "web-0",
        .node = atom("n1"),
        .node_uid = atom("n1-uid"),
        .n_shares = count,
        .share = shares,
    };
}

static const struct allocation *allocation_of(const struct share *shares, uint32_t count)
{
    const struct allocation_facts facts = facts_of(shares, count);
    return allocation_new(&facts);
}

TEST(charge__is_the_peak_over_the_life_of_the_pod)
{
#define A CONTAINER_APP
#define I CONTAINER_INIT
#define S CONTAINER_SIDECAR
    static const struct {
        struct {
            enum container_kind kind;
            uint32_t milli;
        } life[6];
        uint32_t peak;
    } step[] = {
        {{{A, 300}}, 300},
        {{{A, 300}, {A, 400}}, 700},
        {{{I, 700}}, 700},
        {{{I, 700}, {A, 400}, {A, 400}}, 800},           /* the apps together exceed the init */
        {{{I, 900}, {A, 400}, {A, 400}}, 900},           /* the init container exceeds them */
        {{{I, 500}, {I, 600}, {A, 100}}, 600},           /* init containers never run together */
        {{{S, 100}, {A, 300}}, 400},                     /* a sidecar keeps running */
        {{{S, 100}, {I, 700}, {A, 300}}, 800},           /* started before the init container */
        {{{I, 700}, {S, 100}, {A, 300}}, 700},           /* started after it */
        {{{S, 100}, {I, 200}, {S, 300}, {I, 500}}, 900}, /* both sidecars plus the second */
        {{{S, 100}, {I, 200}, {S, 300}, {I, 500}, {A, 600}}, 1000},
    };
#undef A
#undef I
#undef S

    for (size_t i = 0; i < ARRAY_LEN(step); i++) {
        struct share shares[6];
        uint32_t count = 0;
        for (; count < 6 && step[i].life[count].milli > 0; count++)
            shares[count] = share_of(step[i].life[count].kind, (uint16_t)count, "GPU-a",
                                     step[i].life[count].milli);
        const struct allocation *made = allocation_of(shares, count);
        assert_null(allocation_unsound(made));
        assert_int_equal(made->n_charges, 1);
        assert_int_equal(allocation_charge(made, 0).milli, step[i].peak);
        assert_int_equal(allocation_charge(made, 0).mib, step[i].peak * 80);
        assert_int_equal(allocation_milli(made), step[i].peak);
        allocation_unref(made);
    }
}

TEST(charge__peaks_in_milli_and_mib_separately)
{
    struct share shares[] = {share_of(CONTAINER_INIT, 0, "GPU-a", 700),
                             share_of(CONTAINER_APP, 1, "GPU-a", 600)};
    shares[0].mib = 100;
    shares[1].mib = 900;
    const struct allocation *made = allocation_of(shares, 2);
    assert_int_equal(allocation_charge(made, 0).milli, 700);
    assert_int_equal(allocation_charge(made, 0).mib, 900);
    allocation_unref(made);
}

TEST(charge__is_one_for_each_gpu)
{
    const struct share shares[] = {share("a", 0, "GPU-b", 300), share("a", 0, "GPU-a", 300),
                                   share("b", 1, "GPU-b", 200), share("b", 1, "GPU-a", 100)};
    const struct allocation *made = allocation_of(shares, 4);
    assert_int_equal(made->n_charges, 2);
    assert_ptr_equal(allocation_charge(made, 0).gpu, atom("GPU-b"));
    assert_int_equal(allocation_charge(made, 0).milli, 500);
    assert_ptr_equal(allocation_charge(made, 1).gpu, atom("GPU-a"));
    assert_int_equal(allocation_charge(made, 1).milli, 400);
    assert_int_equal(allocation_milli(made), 900);
    allocation_unref(made);
}

TEST(charge__is_kept_only_where_it_is_no_share)
{
    struct share shares[] = {share("a", 0, "GPU-b", 300), share("b", 1, "GPU-a", 200)};
    const struct allocation *made = allocation_of(shares, 2);
    assert_int_equal(made->n_charges, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ptr_equal(allocation_charge(made, i).gpu, shares[i].gpu);
        assert_int_equal(allocation_charge(made, i).milli, shares[i].milli);
        assert_int_equal(allocation_charge(made, i).mib, shares[i].mib);
    }
    assert_ptr_equal(made->facts.uid, made->facts.share + 2);
    allocation_unref(made);

    shares[1].gpu = shares[0].gpu;
    made = allocation_of(shares, 2);
    assert_int_equal(made->n_charges, 1);
    assert_ptr_equal(made->facts.uid, (const struct charge *)(made->facts.share + 2) + 1);
    allocation_unref(made);
}

TEST(allocation__sorts_shares_by_start_order)
{
    /* The app is given first: without sorting, the init container's peak would lack the sidecar. */
    const struct share shares[] = {share_of(CONTAINER_APP, 2, "GPU-a", 100),
                                   share_of(CONTAINER_INIT, 1, "GPU-a", 500),
                                   share_of(CONTAINER_SIDECAR, 0, "GPU-a", 200)};
    const struct allocation *made = allocation_of(shares, 3);
    assert_null(allocation_unsound(made));
    assert_string_equal(made->facts.share[0].container, "c0");
    assert_string_equal(made->facts.share[2].container, "c2");
    assert_int_equal(allocation_charge(made, 0).milli, 700);
    allocation_unref(made);
}

TEST(allocation__copies_its_facts)
{
    char uid[] = "uid-1";
    char container[] = "main";
    struct share shares[] = {share(container, 0, "GPU-a", 300)};
    struct allocation_facts facts = facts_of(shares, 1);
    facts.uid = uid;
    const struct allocation *made = allocation_new(&facts);
    memset(uid, 'x', 5);
    memset(container, 'x', 4);
    shares[0].milli = 1;
    assert_string_equal(made->facts.uid, "uid-1");
    assert_string_equal(made->facts.namespace, "default");
    assert_string_equal(made->facts.name, "web-0");
    assert_string_equal(made->facts.share[0].container, "main");
    assert_int_equal(made->facts.share[0].milli, 300);
    assert_null(allocation_unsound(made));
    allocation_unref(made);
}

TEST(charge__saturates_at_absurd_amounts)
{
    struct share shares[] = {share("a", 0, "GPU-a", 300), share("b", 1, "GPU-a", 300),
                             share("c", 2, "GPU-b", 300)};
    for (size_t i = 0; i < ARRAY_LEN(shares); i++) {
        shares[i].milli = UINT32_MAX;
        shares[i].mib = UINT32_MAX - 1;
    }
    struct allocation_facts facts = facts_of(shares, 3);
    facts.origin = ORIGIN_ADOPTED;
    const struct allocation *made = allocation_new(&facts);
    assert_int_equal(allocation_charge(made, 0).milli, UINT32_MAX);
    assert_int_equal(allocation_charge(made, 0).mib, UINT32_MAX);
    assert_int_equal(allocation_charge(made, 1).mib, UINT32_MAX - 1);
    assert_int_equal(allocation_milli(made), UINT32_MAX);
    allocation_unref(made);
}

TEST(allocation_fault__names_every_broken_invariant)
{
    const struct share good[] = {share("a", 0, "GPU-a", 300), share("a", 0, "GPU-b", 300),
                                 share("b", 1, "GPU-a", 300)};
    struct allocation_facts facts = facts_of(good, 3);
    assert_null(allocation_fault(&facts));
    facts.version = VERSION_MAX;
    assert_null(allocation_fault(&facts));

#define FAULT(change, said)                                                                        \
    do {                                                                                           \
        struct share shares[3];                                                                    \
        memcpy(shares, good, sizeof good);                                                         \
        facts = facts_of(shares, 3);                                                               \
        change;                                                                                    \
        assert_non_null(allocation_fault(&facts));                                                 \
        assert_string_equal(allocation_fault(&facts), said);                                       \
    } while (0)
    FAULT(facts.uid = "", "an allocation without a pod's uid");
    FAULT(facts.uid = NULL, "an allocation without a pod's uid");
    FAULT(facts.name = NULL, "an allocation without a pod's name");
    FAULT(facts.namespace = NULL, "an allocation without a pod's name");
    FAULT(facts.node = NULL, "an allocation on no node");
    FAULT(facts.n_shares = PARTS_MAX + 1, "more shares than one pod may hold");
    FAULT(facts.n_shares = 0, "a grant without a share");
    FAULT(facts.unplaced_milli = 1, "a grant whose GPU is not known");
    FAULT(facts.version = VERSION_MAX + 1, "a version beyond 63 bits");
    FAULT((facts.origin = ORIGIN_ADOPTED, facts.version = 1),
          "a version of a Binding that we never sent");
    FAULT(shares[1].container = "", "a share without a container");
    FAULT(shares[1].container = NULL, "a share without a container");
    FAULT(shares[1].gpu = NULL, "a share of no GPU");
    FAULT(shares[2].milli = 0, "a share of 0 milli");
    FAULT(shares[2].asked = 301, "a share of less than was asked for");
    FAULT(shares[2].container = "a", "two shares of one container on one GPU");
    FAULT(shares[2] = shares[1], "two shares of one container on one GPU");
#undef FAULT
}

TEST(allocation__defaults_asked_to_the_size_of_the_share)
{
    struct share shares[] = {share("a", 0, "GPU-a", 300), share("b", 1, "GPU-a", 300),
                             share("c", 2, "GPU-a", 300)};
    shares[1].asked = 1; /* as little as anybody can ask for */
    shares[2].asked = 300;
    const struct allocation *made = allocation_of(shares, 3);
    assert_null(allocation_unsound(made));
    assert_int_equal(made->facts.share[0].asked, 300);
    assert_int_equal(made->facts.share[1].asked, 1);
    assert_int_equal(made->facts.share[2].asked, 300);
    assert_int_equal(allocation_milli(made), 900); /* what is charged is what it has */
    allocation_unref(made);
}

TEST(allocation__accepts_parts_max_shares)
{
    static struct share shares[PARTS_MAX];
    static char container[PARTS_MAX][8];
    for (uint32_t i = 0; i < PARTS_MAX; i++) {
        (void)snprintf(container[i], sizeof container[i], "c%u", i);
        shares[i] = share(container[i], (uint16_t)i, "GPU-a", 1);
    }
    const struct allocation *made = allocation_of(shares, PARTS_MAX);
    assert_null(allocation_unsound(made));
    assert_int_equal(allocation_milli(made), PARTS_MAX);
    allocation_unref(made);
}

TEST(allocation_unsound__names_wrong_charges)
{
    const struct share shares[] = {share("a", 0, "GPU-a", 300), share("b", 1, "GPU-a", 300),
                                   share("c", 2, "GPU-b", 300)};
    const struct allocation_facts facts = facts_of(shares, 3);
    struct allocation *made = allocation_new(&facts);
    assert_null(allocation_unsound(made));
    struct charge *charge = (struct charge *)(uintptr_t)(made->facts.share + 3);
    charge[1].milli++;
    assert_string_equal(allocation_unsound(made), "its charges are not what its shares come to");
    made->facts.node = NULL;
    assert_string_equal(allocation_unsound(made), "an allocation on no node");
    made->facts.node = facts.node; /* of which it holds a reference */
    allocation_unref(made);
}

TEST(allocation__holds_its_names)
{
    struct names *names = names_new();
    struct share shares[] = {share("a", 0, "GPU-a", 300), share("b", 1, "GPU-b", 300)};
    shares[0].gpu = names_intern(names, TEXT("GPU-a"));
    shares[1].gpu = names_intern(names, TEXT("GPU-b"));
    struct allocation_facts facts = facts_of(shares, 2);
    facts.node = names_intern(names, TEXT("n1"));
    facts.node_uid = names_intern(names, TEXT("n1-uid"));
    const struct allocation *made = allocation_new(&facts);
    assert_ptr_equal(allocation_ref(made), made);
    allocation_unref(made);
    names_sweep(names, SIZE_MAX / 4);
    assert_int_equal(names_count(names), 4);
    allocation_unref(made);
    allocation_unref(NULL);
    names_sweep(names, SIZE_MAX / 4);
    assert_int_equal(names_count(names), 0);
    names_free(names);
}

static bool same(struct allocation_facts *a, struct allocation_facts *b)
{
    const struct allocation *made_a = allocation_new(a);
    const struct allocation *made_b = allocation_new(b);
    const bool answer = allocation_same_shares(made_a, made_b);
    assert_int_equal(allocation_same_shares(made_b, made_a), answer);
    allocation_unref(made_a);
    allocation_unref(made_b);
    return answer;
}

TEST(allocation_same_shares__compares_node_gpu_and_amounts)
{
    const struct share shares[] = {share("a", 0, "GPU-a", 300), share("a", 0, "GPU-b", 300)};
    const struct share turned[] = {share("a", 0, "GPU-b", 300), share("a", 0, "GPU-a", 300)};
    struct allocation_facts a = facts_of(shares, 2);
    struct allocation_facts b = facts_of(turned, 2);
    b.state = STATE_BOUND; /* neither the state nor the times are part of the place */
    b.bound_ms = 77;
    assert_true(same(&a, &b));

    b.node = atom("n2");
    assert_false(same(&a, &b));
    b = facts_of(shares, 1);
    assert_false(same(&a, &b));
    for (int i = 0; i < 12; i++) {
        struct share other[] = {shares[0], shares[1]};
        struct share *one = &other[i / 6];
        one->gpu = i % 6 == 0 ? atom("GPU-c") : one->gpu;
        one->milli += i % 6 == 1;
        one->mib += i % 6 == 2;
        one->kind = i % 6 == 3 ? CONTAINER_INIT : one->kind;
        one->container = i % 6 == 4 ? "b" : one->container;
        one->asked = i % 6 == 5 ? 299 : one->asked;
        b = facts_of(other, 2);
        assert_false(same(&a, &b));
    }
}

/* The bytes behind the last share look like the wanted one here, and do not count. */
TEST(allocation_same_shares__stops_at_the_last_share)
{
    const struct share shares[] = {share("a", 0, "GPU-b", 300), share("a", 0, "GPU-a", 300)};
    const struct allocation a = {.facts = facts_of(&shares[1], 1)};
    const struct allocation b = {.facts = facts_of(&shares[0], 1)};
    assert_false(allocation_same_shares(&a, &b));
}

TEST(state__has_a_word_like_origins_and_kinds)
{
    assert_string_equal(allocation_state_name(STATE_RESERVED), "reserved");
    assert_string_equal(allocation_state_name(STATE_BOUND), "bound");
    assert_string_equal(allocation_state_name(STATE_RELEASED), "released");
    assert_string_equal(allocation_origin_name(ORIGIN_GRANTED), "granted");
    assert_string_equal(allocation_origin_name(ORIGIN_ADOPTED), "observed");
    assert_string_equal(container_kind_name(CONTAINER_APP), "app");
    assert_string_equal(container_kind_name(CONTAINER_INIT), "init");
    assert_string_equal(container_kind_name(CONTAINER_SIDECAR), "sidecar");
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
