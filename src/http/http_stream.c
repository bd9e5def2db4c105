/*
 * Sends endless answers (event streams). The feeder (http_stream_put(), any thread) appends to a
 * buffer; libmicrohttpd's thread takes from it in stream_take(). If the buffer is empty, the
 * connection is suspended, without a thread or polling, until the feeder resumes it. A suspended
 * connection does not detect a shutdown, so http_stream_waits() checks for it and resumes.
 *
 * A stream has two references, the feeder's and the response's. If the connection ends first, over
 * is set under the stream's lock, and the feeder does not use call any more.
 */
#include <errno.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/clock.h"

#include "http_internal.h"

enum { STREAM_BLOCK = 8192 };

struct http_stream {
    struct mutex lock;      /* guards everything below */
    struct http_call *call; /* valid until over */
    struct strbuf buffer;
    unsigned holders;
    bool suspended;
    bool ended; /* the feeder has ended it: send the rest of the buffer, then end */
    bool cut;   /* the socket is shut down */
    bool over;  /* the connection serves another request, or is closed */
};

static void stream_let_go(struct http_stream *stream)
{
    mutex_lock(&stream->lock);
    must(stream->holders > 0);
    const bool last = --stream->holders == 0;
    mutex_unlock(&stream->lock);
    if (!last)
        return;
    strbuf_done(&stream->buffer);
    mutex_done(&stream->lock);
    xfree(stream);
}

static void stream_resume(struct http_stream *stream) REQUIRES(stream->lock)
{
    must(!stream->over || !stream->suspended);
    if (!stream->suspended)
        return;
    stream->suspended = false;
    MHD_resume_connection(stream->call->peer);
}

/* True if the peer closed the connection, or the watch or the admission shut it down. */
static bool stream_is_cut(const struct http_stream *stream) REQUIRES(stream->lock)
{
    char byte;

    must(!stream->over);
    const ssize_t got =
        recv(connection_of(stream->call)->fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/*
 * Runs in the connection's thread, when the socket has room. since_ns becomes the time of the last
 * bytes taken, so that the watch cuts a peer that reads nothing, but not one without pending data.
 */
static ssize_t stream_take(void *user, uint64_t position, char *out, size_t most)
{
    struct http_stream *stream = user;
    ssize_t took = 0;

    (void)position;
    mutex_lock(&stream->lock);
    must(!stream->suspended && most > 0);
    if (stream->over || stream->cut) {
        took = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (stream->buffer.len > 0) {
        const size_t bytes = stream->buffer.len < most ? stream->buffer.len : most;
        memcpy(out, stream->buffer.data, bytes);
        strbuf_cut(&stream->buffer, 0, bytes);
        atomic_store(&stream->call->since_ns, clock_ns());
        took = (ssize_t)bytes;
    } else if (stream->ended) {
        took = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        stream->suspended = true;
        MHD_suspend_connection(stream->call->peer);
    }
    mutex_unlock(&stream->lock);
    return took;
}

static void stream_freed(void *user)
{
    stream_let_go(user);
}

void stream_over(struct http_stream *stream)
{
    mutex_lock(&stream->lock);
    must(!stream->suspended); /* libmicrohttpd ends no suspended connection */
    stream->over = true;
    mutex_unlock(&stream->lock);
}

struct http_stream *stream_new(struct http_call *call, struct MHD_Response **out)
{
    struct http_stream *stream = xcalloc(1, sizeof *stream);

    must(call->stream == NULL);
    mutex_init(&stream->lock);
    strbuf_init(&stream->buffer);
    stream->call = call;
    stream->holders = 2;
    *out = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, stream_take, stream,
                                             stream_freed);
    must(*out != NULL);
    return stream;
}

void http_stream_put(struct http_stream *stream, struct text text)
{
    mutex_lock(&stream->lock);
    must(!stream->ended);
    if (!stream->over) {
        strbuf_text(&stream->buffer, text);
        stream_resume(stream);
    }
    mutex_unlock(&stream->lock);
}

bool http_stream_waits(struct http_stream *stream, size_t *out_bytes)
{
    mutex_lock(&stream->lock);
    must(!stream->ended);
    if (!stream->over && !stream->cut && stream_is_cut(stream)) {
        stream->cut = true;
        stream_resume(stream);
    }
    const bool there = !stream->over && !stream->cut;
    *out_bytes = stream->buffer.len;
    mutex_unlock(&stream->lock);
    return there;
}

void http_stream_end(struct http_stream *stream)
{
    mutex_lock(&stream->lock);
    must(!stream->ended);
    stream->ended = true;
    if (!stream->over)
        stream_resume(stream);
    mutex_unlock(&stream->lock);
    stream_let_go(stream);
}
