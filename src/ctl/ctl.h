/*
 * ctl - one run of milligpuctl: the options, the source of the answer, the format of the output.
 *
 * A command asks (ctl_get, ctl_list) and shows; showing is separate from asking, so that tests can
 * show recorded answers. A command returns the exit status.
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
    struct arena arena;    /* for the present output; --watch resets it */
    struct arena kept;     /* of the whole run */
    struct client *client; /* NULL until the first question */
    struct forward forward;
    const char *base;              /* admin listener; NULL until the first question */
    const char *context_namespace; /* of kubectl's context; NULL until kubectl was asked */
    bool plugin;                   /* started as kubectl-milligpu */
    const char *environment_server;
    void (*measure)(size_t *width, size_t *rows); /* of the environment */
    FILE *err;
};

/* The whole program except for its environment. */
struct ctl_environment {
    const struct ctl_commands *commands;
    const char *server; /* MILLIGPU_SERVER, or NULL */
    bool no_color;
    bool terminal;
    bool utf8;
    size_t width;
    size_t rows; /* of the terminal; 0: not known */
    /* Sets both to the present size, or leaves them; NULL: they do not change. */
    void (*measure)(size_t *width, size_t *rows);
};
int ctl_main(int argc, char *const *argv, const struct ctl_environment *environment, FILE *out,
             FILE *err);

/* "milligpuctl: text" on standard error; returns CTL_NO. */
int ctl_fail(struct ctl *ctl, const struct err *err);
/* The same with a hint at --help; returns CTL_USAGE. */
int ctl_misused(struct ctl *ctl, const struct err *err);

int ctl_get(struct ctl *ctl, const char *path, struct document **out, struct err *err) MUST_USE;
int ctl_list(struct ctl *ctl, const char *path, struct document **out, struct err *err) MUST_USE;
/*
 * The address of the admin listener, determined once: --server, --port-file, MILLIGPU_SERVER,
 * kubectl, the default.
 */
int ctl_base(struct ctl *ctl, const char **out, struct err *err) MUST_USE;
/* The line of that name in --port-file; NULL without that option. */
int ctl_port_file(struct ctl *ctl, const char *name, const char **out, struct err *err) MUST_USE;
struct client *ctl_client(struct ctl *ctl);

/* A word that --state of this command takes; NULL behind the last one. */
const char *ctl_state_word(const struct ctl_command *command, size_t at);
/*
 * Checks --namespace, --all-namespaces, --model, --state and --selector. Here, so that a typing
 * error is wrong usage and not a refusal of the server.
 */
int ctl_check_filters(struct ctl *ctl, struct err *err) MUST_USE;
/* What --selector chooses in a list: SELECT_PODS, if each item is about a pod. */
enum ctl_selects { SELECT_NOTHING, SELECT_NODES, SELECT_PODS };
int ctl_check_selector(struct ctl *ctl, struct err *err) MUST_USE;
/* Keeps the items that --selector chooses; without it, all. */
int ctl_select(struct ctl *ctl, enum ctl_selects what, struct document **list,
               struct err *err) MUST_USE;
/* Is any of --node, --namespace, --model, --state, --selector, --idle and --kind given? */
bool ctl_is_filtered(const struct ctl *ctl);
/* Adds --namespace, --model, --state, --node and --idle to the query of a list. */
void ctl_add_filters(const struct ctl *ctl, struct strbuf *path);

/* -o json and yaml: writes answer and returns true. */
bool ctl_document(struct ctl *ctl, const struct document *answer);

/*
 * NAMESPACE/NAME, or NAME in -n, else in the namespace of kubectl's context (as a plugin), else in
 * default. Borrowed from the arena.
 */
struct pod_name {
    const char *namespace;
    const char *name;
};
int ctl_pod_name(struct ctl *ctl, const char *argument, struct pod_name *out,
                 struct err *err) MUST_USE;

/* A list as a table: how an item becomes a row, and its name for -o name. */
struct list_view {
    const struct table_column *column;
    size_t columns;
    void (*row)(struct table *table, const struct document *item);
    void (*name)(struct strbuf *out, const struct document *item);
    const char *none; /* printed on standard error if the list is empty */
};
/* In the requested format. answer has items. Returns the exit status. */
int ctl_show_list(struct ctl *ctl, const struct document *answer, const struct list_view *view);
/* Only the table; items is an array, or NULL. */
int ctl_show_rows(struct ctl *ctl, const struct document *items, const struct list_view *view);

/* Why no share is placed here: the GPU's reason takes precedence over the node's. */
const char *top_state_of(const struct document *node, const struct document *gpu);
/* The remark about that state, and since when; "" if none. */
const char *gpu_why(const struct document *node, const struct document *gpu);
/* The sick GPUs of the node, and what its state means; nothing if there is nothing to say. */
void put_node_why(struct strbuf *out, const struct document *node);
/* The state of the node, or "unhealthy" or "cordoned" if that is ok. */
const char *node_word(const struct document *node);
bool gpu_is_sick(const struct document *gpu);

/* What each command prints for an answer; returns the exit status. */
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

/* 90s, 30m, 5h, 2d before now_ms, or RFC 3339; "" if neither. */
void at_format(const char *given, int64_t now_ms, char out[AGE_BYTES + 32]);
/* Says what this option takes, and returns negative. */
int at_refuse(const struct ctl *ctl, size_t option, struct err *err);
/* The time that an option names; *out_ms stays as it is if the option is not given. */
int at_read(const struct ctl *ctl, size_t option, int64_t *out_ms, struct err *err) MUST_USE;

/* "0:300,1:300": charges by the index of their GPU; an id without one, "?" without a place. */
void put_charges(struct strbuf *out, const struct document *allocation);

#endif
