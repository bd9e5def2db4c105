/*
 * client - requests to milligpud, with answers as documents.
 *
 * One connection, which is kept. Every call is bounded in time and size. A refusal of the server
 * (problem+json) becomes an err with that one sentence.
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_CLIENT_H
#define MILLIGPU_CTL_CLIENT_H

#include <stdio.h>

#include "milligpu/document/document.h"

struct client;

struct client *client_new(void) MUST_USE;
void client_free(struct client *client);

/* base: "127.0.0.1:8911", "http://127.0.0.1:8911" or "unix:/PATH"; path begins with '/'. */
struct client_request {
    const char *base;
    const char *method; /* "GET", "POST" */
    const char *path;
    struct text body; /* JSON; at NULL: none */
};

/* The answer as JSON. */
int client_call(struct client *client, const struct client_request *call, struct arena *arena,
                struct document **out, struct err *err) MUST_USE;
/* All pages of a list in one: {"items":[...]}.  path may have a query. */
int client_list(struct client *client, const char *base, const char *path, struct arena *arena,
                struct document **out, struct err *err) MUST_USE;
/*
 * Calls each for every item of a list. A page is read and forgotten at a time, so an item is valid
 * during its call only. The first failure of each ends it.
 */
struct client_each {
    const char *path;
    void *user;
    int (*each)(void *user, const struct document *item, struct err *err);
};
int client_each(struct client *client, const char *base, const struct client_each *list,
                struct err *err) MUST_USE;
/* Writes the body of the answer into file. */
int client_download(struct client *client, const char *base, const char *path, FILE *file,
                    struct err *err) MUST_USE;

/*
 * A stream of events on a connection of its own, of which only matters that there are any. Nothing
 * is read until client_stream_wait().
 */
struct client_stream;
enum client_news {
    CLIENT_QUIET, /* for as long as one wanted to wait */
    CLIENT_NEWS,  /* events have come since the last time */
    CLIENT_OVER,  /* it has ended, or never began: *out_status says why; 0: no answer */
};
struct client_stream *client_stream_new(const struct client_request *call) MUST_USE;
void client_stream_free(struct client_stream *stream); /* NULL is fine */
enum client_news client_stream_wait(struct client_stream *stream, int wait_ms, long *out_status);

/* Escapes text as one segment of a path, or one value of a query. */
void url_escape(struct strbuf *out, const char *text);
/* Appends "?key=value" or "&key=value"; nothing for value NULL. */
void url_query(struct strbuf *path, const char *key, const char *value);

/* Converts the HTTP status and body of a failed call to an err. */
int client_problem(long status, struct text body, struct err *err);

#endif
