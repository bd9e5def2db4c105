/* Names, texts and classes of reasons. Called from any thread. */
#include "milligpu/core/facts/reason.h"

static_assert(REASON_NONE == 0, "a zeroed answer fits");

struct reason_row {
    const char *name;
    const char *help;
    enum reason_class class;
};

/* Word, sentence and class come from one table, so that none can be missing. */
static const struct reason_row *reason_row_of(enum reason reason)
{
    static const struct reason_row row[] = {[REASON_NONE] = {"fits", "it fits", REASON_CLASS_STATE},
#define X(code, word, group, text) [code] = {word, text, REASON_CLASS_##group},
                                            REASON_TABLE(X)
#undef X
    };
    static_assert(ARRAY_LEN(row) == REASONS, "a reason without a row");

    must((unsigned)reason < REASONS);
    must(row[reason].name != NULL);
    must(row[reason].help != NULL);
    must(row[reason].class <= REASON_CLASS_STATE);
    return &row[reason];
}

const char *reason_name(enum reason reason)
{
    return reason_row_of(reason)->name;
}

const char *reason_help(enum reason reason)
{
    return reason_row_of(reason)->help;
}

enum reason_class reason_class(enum reason reason)
{
    must(reason != REASON_NONE);
    must(reason < REASONS);
    return reason_row_of(reason)->class;
}
