/*
 * ctl - one run of milligpuctl: the options, the source of the answer, the format of the output.
 *
 * A command requests an answer (ctl_get, ctl_list) and shows it in a separate function, so that
 * tests can show recorded answers. A command returns the exit status.
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_CTL_H
#define MILLIGPU_CTL_CTL_H

#include "client.h"
#include "forward.h"
#include "options.h"
#include "table.h"

enum { CTL_FINE = 0, CTL_NO = 1, CTL_USAGE = 2 };

enum format { FORMAT_TABLE, FORMAT_WIDE, FORMAT_JSON, FORMAT_YAML, FORMAT_NAME };

struct ctl {
    struct ctl_options options;
    enum format format;
    struct screen screen;
    struct arena arena;    /* for one output; --watch resets it */
    struct arena kept;     /* for the whole run */
    struct client *client; /* NULL until the first request */
    struct forward forward;
    const char *base;              /* address of the admin listener; NULL until the first request */
    const char *context_namespace; /* of kubectl's context; NULL until read from kubectl */
    bool plugin;                   /* started as kubectl-milligpu */
    const char *environment_server;               /* MILLIGPU_SERVER; NULL if unset */
    void (*measure)(size_t *width, size_t *rows); /* as in ctl_environment */
    FILE *err;
};

/* The environment of the program, from main() or a test. */
struct ctl_environment {
    const struct ctl_commands *commands;
    const char *server; /* MILLIGPU_SERVER, or NULL */
    bool no_color;
    bool terminal;
    bool utf8;
    size_t width;
    size_t rows; /* of the terminal; 0 if unknown */
    /* Sets both to the present size, if known; NULL for a constant size. */
    void (*measure)(size_t *width, size_t *rows);
};
/* The whole program, except for its environment. */
int ctl_main(int argc, char *const *argv, const struct ctl_environment *environment, FILE *out,
             FILE *err);

/* Prints "milligpuctl: text" on standard error; returns CTL_NO. */
int ctl_fail(struct ctl *ctl, const struct err *err);
/* Like ctl_fail(), with a hint at --help; returns CTL_USAGE. */
int ctl_misused(struct ctl *ctl, const struct err *err);

int ctl_get(struct ctl *ctl, const char *path, struct document **out, struct err *err) MUST_USE;
int ctl_list(struct ctl *ctl, const char *path, struct document **out, struct err *err) MUST_USE;
/*
 * The address of the admin listener, determined once, from the first of: --server, --port-file,
 * MILLIGPU_SERVER, kubectl, the default.
 */
int ctl_base(struct ctl *ctl, const char **out, struct err *err) MUST_USE;
/* The value of the line with this name in --port-file; NULL without that option. */
int ctl_port_file(struct ctl *ctl, const char *name, const char **out, struct err *err) MUST_USE;
struct client *ctl_client(struct ctl *ctl);

/* The value of --state at this index for this command; NULL after the last. */
const char *ctl_state_word(const struct ctl_command *command, size_t at);
/*
 * Checks --namespace, --all-namespaces, --model, --state and --selector before any request, so that
 * a typing error is wrong usage and not a refusal of the server.
 */
int ctl_check_filters(struct ctl *ctl, struct err *err) MUST_USE;
/* The kind of object that --selector filters by in a list: the node or the pod of each item. */
enum ctl_selects { SELECT_NOTHING, SELECT_NODES, SELECT_PODS };
int ctl_check_selector(struct ctl *ctl, struct err *err) MUST_USE;
/* Keeps the items that match --selector; without it, all. */
int ctl_select(struct ctl *ctl, enum ctl_selects what, struct document **list,
               struct err *err) MUST_USE;
/* True if --node, --namespace, --model, --state, --selector, --idle or --kind is given. */
bool ctl_is_filtered(const struct ctl *ctl);
/* Adds --namespace, --model, --state, --node and --idle to the query of a list. */
void ctl_add_filters(const struct ctl *ctl, struct strbuf *path);

/* For -o json and yaml, writes the answer and returns true. */
bool ctl_document(struct ctl *ctl, const struct document *answer);

/*
 * A pod given as NAMESPACE/NAME or NAME; the namespace is then that of -n, of kubectl's context (as
 * a plugin), or default. Borrowed from the arena.
 */
struct pod_name {
    const char *namespace;
    const char *name;
};
int ctl_pod_name(struct ctl *ctl, const char *argument, struct pod_name *out,
                 struct err *err) MUST_USE;

/* A list as a table: functions for the row of an item, and for its name (-o name). */
struct list_view {
    const struct table_column *column;
    size_t n_columns;
    void (*row)(struct table *table, const struct document *item);
    void (*name)(struct strbuf *out, const struct document *item);
    const char *none; /* printed on standard error if the list is empty */
};
/* Shows the items of answer in the requested format. Returns the exit status. */
int ctl_show_list(struct ctl *ctl, const struct document *answer, const struct list_view *view);
/* Shows only the table; items is an array, or NULL. Returns the exit status. */
int ctl_show_rows(struct ctl *ctl, const struct document *items, const struct list_view *view);

/* The reason why the GPU takes no shares, or "ok"; the GPU's precedes the node's. */
const char *top_state_of(const struct document *node, const struct document *gpu);
/* The remark about that state, with its time; "" if none. */
const char *gpu_why(const struct document *node, const struct document *gpu);
/* Appends the sick GPUs of the node and the meaning of its state, if any. */
void put_node_why(struct strbuf *out, const struct document *node);
/* The state of the node; if that is ok, "unhealthy" or "cordoned" if its GPUs are. */
const char *node_word(const struct document *node);
bool gpu_is_sick(const struct document *gpu);

/* Each prints the output of one command for an answer and returns the exit status. */
int show_top(struct ctl *ctl, const struct document *nodes, const struct document *summary);
int show_nodes(struct ctl *ctl, const struct document *nodes);
int show_node(struct ctl *ctl, const struct document *node);
int show_allocations(struct ctl *ctl, const struct document *list);
int show_pod(struct ctl *ctl, const struct document *pod);
int show_waiting(struct ctl *ctl, const struct document *list);
int show_usage(struct ctl *ctl, const struct document *list);
int show_usage_past(struct ctl *ctl, const struct document *list);
int show_history(struct ctl *ctl, const struct document *list);
int show_summary(struct ctl *ctl, const struct document *summary);
int show_defrag(struct ctl *ctl, const struct document *plan);
int show_keys(struct ctl *ctl, const struct document *list);
int show_drift(struct ctl *ctl, const struct document *list);
int show_doctor(struct ctl *ctl, const struct document *doctor);
int show_policy(struct ctl *ctl, const struct document *policy);

/* Prints "NAME: text", aligned. */
void put_field(struct ctl *ctl, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Converts 90s, 30m, 5h or 2d (before now_ms), or RFC 3339, to RFC 3339; "" if it is neither. */
void at_format(const char *given, int64_t now_ms, char out[AGE_BYTES + 32]);
/* Sets an error with the valid values of this option; returns negative. */
int at_refuse(const struct ctl *ctl, size_t option, struct err *err);
/* Reads the time in an option; *out_ms is unchanged if the option is not given. */
int at_read(const struct ctl *ctl, size_t option, int64_t *out_ms, struct err *err) MUST_USE;

/* "0:300,1:300": charges by GPU index; the id if there is none, "?" if the GPU is not known. */
void put_charges(struct strbuf *out, const struct document *allocation);

#endif
