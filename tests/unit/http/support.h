/*
 * support - a listener with a few paths, and clients that can misbehave.
 *
 *   /echo    the body, 200            /hello   "hello", takes no body
 *   /about   method, path, query a, header X-Test, host as lines
 *   /later   answered by another thread after a while
 *   /race    answered by another thread at once: before or after the handler returned
 *   /file    the bytes of site->file
 *   /hold    not answered before site_release()
 *   else     404
 */
#ifndef MILLIGPU_TESTS_UNIT_HTTP_SUPPORT_H
#define MILLIGPU_TESTS_UNIT_HTTP_SUPPORT_H

#include <pthread.h>
#include <stdatomic.h>

#include "milligpu/base/strbuf.h"
#include "milligpu/http/http.h"

enum { HELD_MAX = 64 };

struct site {
    struct http_server *http;
    struct http_rules rules;
    pthread_mutex_t lock; /* guards held */
    struct http_call *held[HELD_MAX];
    size_t held_count;
    atomic_int handled;
    atomic_int refused;
    atomic_int last_status;
    atomic_int dropped[HTTP_CAUSES];
    pthread_t racer;
    atomic_bool racer_ends;
    atomic_bool linger_ends; /* /linger answers once this is set */
    struct http_call *_Atomic race;
    atomic_int file; /* the answer of /file, once */
};

/* The usual rules; change site->rules, then site_start(). */
void site_init(struct site *site);
void site_start(struct site *site);
void site_stop(struct site *site);
size_t site_held(struct site *site);
void site_release(struct site *site); /* answers the calls of /hold */
/* Waits until this many calls are held. */
bool site_await_held(struct site *site, size_t count);

/* Waits until the count is this large. */
bool site_await(atomic_int *count, int least);

/* Blocking socket with a limit of PATIENCE_S. client_close_all() at the end of a test closes it. */
int client_open(const struct site *site);
int client_keep(int fd); /* closes this one likewise, and returns it */
void client_close(int fd);
void client_close_all(void);
void client_send(int fd, const char *text);
/* One whole answer, by its Content-Length; "" if the connection ended before any byte. */
void client_read(int fd, struct strbuf *out);
/* Reads everything until the other side ends the connection. */
void client_read_end(int fd, struct strbuf *out);
/* On a connection of its own: sends, then reads everything until the other side ends it. */
void client_ask_end(const struct site *site, const char *text, struct strbuf *out);
/* Sends, then reads one answer. */
void client_ask(int fd, const char *text, struct strbuf *out);
void sleep_ms(int64_t ms);

#endif
