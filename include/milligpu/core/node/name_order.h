/*
 * name_order - recognises the names of nodes in lists that resemble each other.
 *
 *   list    ... "node-7", "node-9", ...        read the next name as a guess says it is written
 *                   |         ^
 *                 slot --next--> slot --snapshot--> node: its name is the guess
 *
 * kube-scheduler sends the nodes in one order, each time from another one on, so of each name it is
 * remembered which one came next. A guess is the name of a node in the list's own snapshot, and the
 * reader compares it with what was sent: a wrong guess costs a look-up, and never changes what is
 * read. So nothing here becomes wrong when nodes come, go or change their slots.
 *
 * Belongs to one list at a time; other threads have their own. 6 bytes for each slot of the ledger,
 * at most NAME_ORDER_BYTES_MAX. Pure.
 */
#ifndef MILLIGPU_NAME_ORDER_H
#define MILLIGPU_NAME_ORDER_H

#include "milligpu/core/node/snapshot.h"

/* A slot for each of NODES_MAX nodes, rounded up to books (snapshot.h). */
enum { NAME_ORDER_BYTES_MAX = (NODES_MAX + BOOK_NODES) * 6 + 1024, NAME_GUESSES = 32 };

struct name_order;
struct name_order *name_order_new(void) MUST_USE;
void name_order_free(struct name_order *order); /* NULL is fine */
size_t name_order_bytes(const struct name_order *order);

/* Begins a list. snapshot: borrowed until the next list begins. */
void name_order_begin(struct name_order *order, const struct snapshot *snapshot);

/* The number of names of the list before. */
uint32_t name_order_former(const struct name_order *order);

/*
 * Guesses the next names; returns how many, 0 .. NAME_GUESSES. The more guesses were right lately,
 * the more are made at once, because the memory of their nodes is fetched together.
 */
uint32_t name_order_guess(struct name_order *order, struct known_node guess[NAME_GUESSES]);

/* The first names of the last guess came. Returns false if one came in this list before. */
bool name_order_came(struct name_order *order, const struct known_node *guess, uint32_t count);

/*
 * Another name came: looks it up. *out has no node if the snapshot has none. Returns false if the
 * name may have come in this list before.
 */
bool name_order_other(struct name_order *order, struct text name, uint32_t hash,
                      struct known_node *out);

#endif
