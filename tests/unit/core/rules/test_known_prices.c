/* The cached prices of a rulebook, which several threads fill at once. */
#include <pthread.h>
#include <stdio.h>

#include "milligpu/core/facts/names.h"
#include "milligpu/core/rules/rulebook.h"

#include "support/atoms.h"
#include "support/test.h"

enum { CALLERS = 4, ROUNDS = 200, MODELS = 2 * KNOWN_PRICES };

static const struct atom *model[MODELS];

static struct rulebook *priced(void)
{
    static const struct model_price said[] = {{"L40S", 7}, {"card-1*", 9}};
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "p");

    book->prices_by = PRICES_KNOWN;
    book->n_prices = ARRAY_LEN(said);
    book->price = said;
    return book;
}

/* card-0 .. card-127, of which the document names those that begin with 1. */
static void name_models(void)
{
    for (uint32_t i = 0; i < MODELS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "card-%u", i);
        model[i] = atom(name);
    }
}

static bool is_right(const struct rulebook *book, const struct atom *of)
{
    const struct named_price known = rulebook_known_price(book, of);
    const struct named_price named = rulebook_named_price(book, atom_text(of));

    return known.price == named.price && known.whole_mib == named.whole_mib &&
           known.part_mib == named.part_mib;
}

TEST(known_price__is_the_price_of_the_name)
{
    static const char *const names[] = {"NVIDIA-L40S", "NVIDIA-L40S-24Q", "NVIDIA-A100-SXM4-40GB",
                                        "card-1",      "card-2",          ""};
    struct rulebook *book = priced();

    for (size_t i = 0; i < 2 * ARRAY_LEN(names); i++)
        assert_true(is_right(book, atom(names[i % ARRAY_LEN(names)])));
    assert_int_equal(rulebook_known_price(book, atom("NVIDIA-L40S")).price, 7);
    assert_int_equal(rulebook_known_price(book, atom("card-1")).price, 9);
    assert_int_equal(rulebook_known_price(book, atom("card-2")).price, 0);
    rulebook_unref(book);
}

/* A cached price never changes, and keeps a reference to its name. */
TEST(known_price__is_remembered_with_the_name)
{
    struct rulebook *book = priced();
    const struct atom *first = atom("card-1");

    assert_int_equal(rulebook_known_price(book, first).price, 9);
    book->n_prices = 0; /* no rulebook does that: it shows that nothing is compared again */
    assert_int_equal(rulebook_known_price(book, first).price, 9);
    assert_int_equal(rulebook_known_price(book, atom("card-10")).price, 0);
    rulebook_unref(book);
}

/* Nodes outside the snapshot have atoms of their own for each question. */
TEST(known_price__of_one_model_takes_one_place)
{
    struct rulebook *book = priced();
    uint32_t places = 0;

    for (int i = 0; i < 2 * KNOWN_PRICES; i++) {
        struct names *own = names_new();
        assert_int_equal(rulebook_known_price(book, names_intern(own, TEXT("NVIDIA-L40S"))).price,
                         7);
        names_free(own);
    }
    assert_int_equal(rulebook_known_price(book, atom("NVIDIA-L40S")).price, 7);
    for (uint32_t i = 0; i < KNOWN_PRICES; i++)
        places += atomic_load(&book->known_price[i]) != NULL;
    assert_int_equal(places, 1);
    rulebook_unref(book);
}

TEST(known_price__of_more_models_than_it_remembers_is_right)
{
    struct rulebook *book = priced();

    name_models();
    for (uint32_t i = 0; i < 2 * MODELS; i++)
        assert_true(is_right(book, model[i % MODELS]));
    for (uint32_t i = 0; i < KNOWN_PRICES; i++)
        assert_non_null(atomic_load(&book->known_price[i]));
    rulebook_unref(book);
}

struct caller {
    pthread_t thread;
    const struct rulebook *book;
    uint32_t first;
    uint32_t wrong;
};

static void *ask_prices(void *user)
{
    struct caller *caller = user;

    for (uint32_t i = 0; i < ROUNDS; i++)
        caller->wrong += !is_right(caller->book, model[(caller->first + i) % MODELS]);
    return NULL;
}

TEST(known_price__is_right_for_threads_that_ask_at_once)
{
    name_models();
    for (int round = 0; round < 20; round++) {
        struct rulebook *book = priced();
        struct caller caller[CALLERS];
        for (uint32_t i = 0; i < CALLERS; i++) {
            caller[i] = (struct caller){.book = book, .first = i};
            assert_int_equal(pthread_create(&caller[i].thread, NULL, ask_prices, &caller[i]), 0);
        }
        for (uint32_t i = 0; i < CALLERS; i++) {
            assert_int_equal(pthread_join(caller[i].thread, NULL), 0);
            assert_int_equal(caller[i].wrong, 0);
        }
        rulebook_unref(book);
    }
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
