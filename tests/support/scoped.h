/* scoped - declares a buffer or an arena that is empty, and released at the end of its block. */
#ifndef MILLIGPU_TESTS_SCOPED_H
#define MILLIGPU_TESTS_SCOPED_H

#include "milligpu/base/arena.h"
#include "milligpu/base/strbuf.h"

#define SCOPED_STRBUF(name)                                                                        \
    CLEANUP(strbuf_done) struct strbuf name;                                                       \
    strbuf_init(&name)

#define SCOPED_ARENA(name)                                                                         \
    CLEANUP(arena_done) struct arena name;                                                         \
    arena_init(&name)

#endif
