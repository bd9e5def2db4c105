/*
 * pieces - the texts of a list such as "a b c", one by one.
 *
 *     for (struct pieces list = {.rest = text_of("a b c")}; pieces_next(&list, ' ');)
 *         check(list.text);
 */
#ifndef MILLIGPU_TESTS_PIECES_H
#define MILLIGPU_TESTS_PIECES_H

#include <string.h>

#include "milligpu/base/text.h"

struct pieces {
    struct text rest;
    char text[160]; /* the current piece, terminated */
};

/* An empty piece is a piece: "a||b" has three. Returns false at the end. */
static inline bool pieces_next(struct pieces *pieces, char separator)
{
    struct text piece;

    if (!text_cut(&pieces->rest, separator, &piece))
        return false;
    must(piece.len < sizeof pieces->text);
    memcpy(pieces->text, piece.at, piece.len);
    pieces->text[piece.len] = '\0';
    return true;
}

#endif
