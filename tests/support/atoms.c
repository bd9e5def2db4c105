#include "support/atoms.h"

struct names *atoms;

int atoms_set_up(void **state)
{
    (void)state;
    atoms = names_new();
    return 0;
}

int atoms_tear_down(void **state)
{
    (void)state;
    names_free(atoms);
    return 0;
}

const struct atom *atom(const char *text)
{
    return names_intern(atoms, text_of(text));
}
