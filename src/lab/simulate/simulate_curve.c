/*
 * The allocation as pods arrive: the lines of simulate --csv, and the SVG of --plot, without
 * scripts, fonts or references. Colors are legible on black and white; lines also differ in dashes
 * and marks. Only whole numbers are used, so that the bytes are the same on every machine. Lengths
 * are in tenths of a pixel, percentages in ten-thousandths of a percent unless a name says
 * otherwise.
 */
#include <inttypes.h>

#include "simulate.h"

void simulate_write_curve(FILE *out, const struct simulate_report *report)
{
    must(report->n_results > 0);
    (void)fputs("policy,load_percent,allocated_percent\n", out);
    for (size_t i = 0; i < report->n_results; i++)
        for (size_t l = 0; l < report->result[i].n_levels; l++) {
            const struct simulate_level *level = &report->result[i].level[l];
            char percent[SIMULATE_PERCENT_BYTES];
            simulate_percent(level->milli, level->count * report->world->gpu_milli, percent);
            (void)fprintf(out, "%s,%" PRIu64 ",%s\n", report->result[i].policy->word,
                          level->percent, percent);
        }
}

/* --- the picture --- */

enum {
    PLOT_WIDTH = 7600,
    PLOT_HEIGHT = 4200,
    PLOT_LEFT = 620, /* left edge of the area of the lines */
    PLOT_RIGHT = 5900,
    PLOT_TOP = 560,
    PLOT_BOTTOM = 3640,
    PLOT_LABEL = 6180,  /* left edge of the labels of the lines */
    PLOT_SPACING = 210, /* distance of labels */
    PLOT_MARKS = 800,   /* distance of marks on a line */
    PLOT_POINT = 10000, /* one percent */
    PLOT_TICKS = 8,
};

struct plot {
    FILE *out; /* stdio keeps errors, which are checked when the file is closed */
    const struct simulate_report *report;
    uint64_t x_low; /* in whole percent, as the next three */
    uint64_t x_high;
    uint64_t y_low;
    uint64_t y_high;
};

/* Styles by policy, so that a policy looks the same in every picture. */
static const struct plot_style {
    const char *color;
    const char *dashes;
    const char *mark;
} plot_style[] = {
    {"#2f81d8", "none", "m-3.5,0a3.5,3.5 0 1,0 7,0a3.5,3.5 0 1,0 -7,0z"},
    {"#c26a10", "8 4", "m-3.2,-3.2h6.4v6.4h-6.4z"},
    {"#767c85", "2 3", "m-3.2,-3.2l6.4,6.4m0,-6.4l-6.4,6.4"},
    {"#8a63d2", "10 3 2 3", "m0,-4.6l4.6,4.6l-4.6,4.6l-4.6,-4.6z"},
    {"#cf4a60", "none", "m0,-4.6l4.4,7.6h-8.8z"},
    {"#3a9a5b", "none", "m-3.2,-3.2h6.4v6.4h-6.4z"},
    {"#9a7d0a", "8 4", "m0,-4.6l4.6,4.6l-4.6,4.6l-4.6,-4.6z"},
    {"#12908e", "2 3", "m0,-4.6l4.4,7.6h-8.8z"},
};
static_assert(ARRAY_LEN(plot_style) > POLICIES, "one for each, and more for documents");

/* The style of a policy; documents use all styles in turn. */
static const struct plot_style *plot_style_of(const struct plot *plot,
                                              const struct simulate_result *result)
{
    size_t documents = 0;

    must(result->policy->book->policy < POLICIES);
    if (result->policy->bare)
        return &plot_style[result->policy->book->policy];
    for (const struct simulate_result *at = plot->report->result; at < result; at++)
        documents += !at->policy->bare;
    return &plot_style[POLICIES + documents % (ARRAY_LEN(plot_style) - POLICIES)];
}

static uint64_t plot_height_of(const struct plot *plot, const struct simulate_level *level)
{
    must(level->count > 0);
    return simulate_ten_thousandths(level->milli, level->count * plot->report->world->gpu_milli);
}

static uint64_t plot_x(const struct plot *plot, uint64_t percent)
{
    must(percent >= plot->x_low && percent <= plot->x_high);
    return PLOT_LEFT +
           (percent - plot->x_low) * (PLOT_RIGHT - PLOT_LEFT) / (plot->x_high - plot->x_low);
}

static uint64_t plot_y(const struct plot *plot, uint64_t height)
{
    const uint64_t span = (plot->y_high - plot->y_low) * PLOT_POINT;

    must(height >= plot->y_low * PLOT_POINT && height <= plot->y_high * PLOT_POINT);
    return PLOT_BOTTOM - (height - plot->y_low * PLOT_POINT) * (PLOT_BOTTOM - PLOT_TOP) / span;
}

/* --- what part is drawn --- */

/* The distance of ticks: 1, 2, 5, 10, 20, 50 ..., so that there are few. */
static uint64_t plot_step(uint64_t span)
{
    static const uint64_t digit[] = {1, 2, 5};
    uint64_t ten = 1;

    for (;; ten *= 10)
        for (size_t i = 0; i < ARRAY_LEN(digit); i++)
            if (span / (digit[i] * ten) <= PLOT_TICKS)
                return digit[i] * ten;
}

/* The load at which the allocation is first half a percent below it; UINT64_MAX if never. */
static uint64_t plot_first_lag(const struct plot *plot, const struct simulate_result *result)
{
    const uint64_t begin =
        simulate_ten_thousandths(result->held_milli, plot->report->world->gpu_milli);

    must(result->n_levels > 0);
    for (size_t i = 0; i < result->n_levels; i++) {
        const uint64_t height = plot_height_of(plot, &result->level[i]);
        if (height + PLOT_POINT / 2 < begin + result->level[i].percent * PLOT_POINT)
            return height;
    }
    return UINT64_MAX;
}

/* Begins shortly before the first refusals, where the lines of all policies are still the same. */
static void plot_choose_range(struct plot *plot)
{
    const struct simulate_report *report = plot->report;
    uint64_t lag = UINT64_MAX;
    uint64_t highest = 0;

    for (size_t i = 0; i < report->n_results; i++) {
        const struct simulate_result *result = &report->result[i];
        const uint64_t own = plot_first_lag(plot, result);
        const struct simulate_level *last = &result->level[result->n_levels - 1];
        const uint64_t height = plot_height_of(plot, last);
        lag = own < lag ? own : lag;
        highest = height > highest ? height : highest;
        plot->x_high = last->percent > plot->x_high ? last->percent : plot->x_high;
    }
    must(highest <= (uint64_t)100 * PLOT_POINT);
    plot->y_low = lag == UINT64_MAX ? 0 : lag / PLOT_POINT;
    plot->y_low = plot->y_low > 25 ? (plot->y_low - 1) / 5 * 5 : 0;
    plot->y_high = (highest / PLOT_POINT + 5) / 5 * 5;
    if (plot->y_high > 100)
        plot->y_high = 100;
    must(plot->y_low < plot->y_high);
    plot->x_low = plot->x_high;
    for (size_t l = 0; l < report->result[0].n_levels && plot->y_low > 0; l++)
        if (plot_height_of(plot, &report->result[0].level[l]) >= plot->y_low * PLOT_POINT) {
            plot->x_low = report->result[0].level[l].percent;
            break;
        }
    plot->x_low = plot->y_low > 0 ? plot->x_low / 5 * 5 : 0;
    if (plot->x_high == plot->x_low)
        plot->x_high++;
}

/* --- drawing --- */

static void plot_number(const struct plot *plot, const char *before, uint64_t tenths)
{
    must(before[0] != '\0');
    (void)fprintf(plot->out, "%s%" PRIu64 ".%" PRIu64, before, tenths / 10, tenths % 10);
}

static void plot_line(const struct plot *plot, const uint64_t from[2], const uint64_t to[2])
{
    must(to[0] <= PLOT_WIDTH && to[1] <= PLOT_HEIGHT);
    plot_number(plot, "<path d=\"M", from[0]);
    plot_number(plot, ",", from[1]);
    plot_number(plot, "L", to[0]);
    plot_number(plot, ",", to[1]);
    (void)fputs("\"/>\n", plot->out);
}

/* Opens a text; anchor: start, middle or end. The caller writes the text and </text>. */
static void plot_text(const struct plot *plot, const uint64_t at[2], const char *anchor)
{
    must(at[0] <= PLOT_WIDTH && at[1] <= PLOT_HEIGHT);
    plot_number(plot, "<text x=\"", at[0]);
    plot_number(plot, "\" y=\"", at[1]);
    (void)fprintf(plot->out, "\" text-anchor=\"%s\">", anchor);
}

/* "rollout 96.24 %" */
static void plot_final(const struct plot *plot, const struct simulate_result *result)
{
    const uint64_t final =
        simulate_ten_thousandths(result->allocated_milli, plot->report->world->gpu_milli);
    const uint64_t shown = (final + 50) / 100;

    must(final <= (uint64_t)100 * PLOT_POINT);
    (void)fprintf(plot->out, "%s %" PRIu64 ".%02" PRIu64 " %%", result->policy->word, shown / 100,
                  shown % 100);
}

static void plot_head(const struct plot *plot)
{
    const struct world *world = plot->report->world;
    static const uint64_t title[] = {PLOT_LEFT, 240};
    static const uint64_t about[] = {PLOT_LEFT, 430};

    must(world->n_pods > 0);
    (void)fprintf(plot->out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                  "height=\"%d\" role=\"img\" font-family=\"system-ui,sans-serif\" "
                  "font-size=\"13\" fill=\"#767c85\" stroke-linejoin=\"round\">\n"
                  "<title>GPU allocation while pods arrive</title>\n<desc>",
                  PLOT_WIDTH / 10, PLOT_HEIGHT / 10, PLOT_WIDTH / 10, PLOT_HEIGHT / 10);
    for (size_t i = 0; i < plot->report->n_results; i++) {
        (void)fputs(i > 0 ? ", " : "Allocated at the end: ", plot->out);
        plot_final(plot, &plot->report->result[i]);
    }
    (void)fputs("</desc>\n", plot->out);
    (void)fputs("<g font-size=\"16\" font-weight=\"600\">\n", plot->out);
    plot_text(plot, title, "start");
    (void)fputs("GPU allocation while pods arrive</text>\n</g>\n", plot->out);
    plot_text(plot, about, "start");
    (void)fprintf(plot->out, "%" PRIu32 " nodes with %" PRIu64 " GPUs, %" PRIu32 " pods</text>\n",
                  world->n_nodes, world->n_gpus, world->n_pods);
}

static void plot_axes(const struct plot *plot)
{
    const uint64_t x_step = plot_step(plot->x_high - plot->x_low);
    const uint64_t y_step = plot_step(plot->y_high - plot->y_low);
    static const uint64_t below[] = {(PLOT_LEFT + PLOT_RIGHT) / 2, PLOT_HEIGHT - 120};

    must(x_step > 0 && y_step > 0);
    (void)fputs("<g stroke=\"#767c85\" fill=\"none\" stroke-opacity=\"0.35\">\n", plot->out);
    for (uint64_t y = (plot->y_low + y_step - 1) / y_step * y_step; y <= plot->y_high; y += y_step)
        plot_line(plot, (uint64_t[]){PLOT_LEFT, plot_y(plot, y * PLOT_POINT)},
                  (uint64_t[]){PLOT_RIGHT, plot_y(plot, y * PLOT_POINT)});
    for (uint64_t x = (plot->x_low + x_step - 1) / x_step * x_step; x <= plot->x_high; x += x_step)
        plot_line(plot, (uint64_t[]){plot_x(plot, x), PLOT_BOTTOM},
                  (uint64_t[]){plot_x(plot, x), PLOT_BOTTOM + 50});
    (void)fputs("</g>\n<g stroke=\"#767c85\" fill=\"none\">\n", plot->out);
    plot_line(plot, (uint64_t[]){PLOT_LEFT, PLOT_TOP}, (uint64_t[]){PLOT_LEFT, PLOT_BOTTOM});
    plot_line(plot, (uint64_t[]){PLOT_LEFT, PLOT_BOTTOM}, (uint64_t[]){PLOT_RIGHT, PLOT_BOTTOM});
    (void)fputs("</g>\n", plot->out);
    for (uint64_t y = (plot->y_low + y_step - 1) / y_step * y_step; y <= plot->y_high;
         y += y_step) {
        plot_text(plot, (uint64_t[]){PLOT_LEFT - 80, plot_y(plot, y * PLOT_POINT) + 45}, "end");
        (void)fprintf(plot->out, "%" PRIu64 "</text>\n", y);
    }
    for (uint64_t x = (plot->x_low + x_step - 1) / x_step * x_step; x <= plot->x_high;
         x += x_step) {
        plot_text(plot, (uint64_t[]){plot_x(plot, x), PLOT_BOTTOM + 200}, "middle");
        (void)fprintf(plot->out, "%" PRIu64 "</text>\n", x);
    }
    plot_text(plot, below, "middle");
    (void)fputs("arrived, % of all GPU milli</text>\n", plot->out);
    (void)fprintf(plot->out,
                  "<text transform=\"translate(18,%d)rotate(-90)\" text-anchor=\"middle\">"
                  "allocated, %% of all GPU milli</text>\n",
                  (PLOT_TOP + PLOT_BOTTOM) / 20);
}

/* The index of the next point with a different place in the picture; `levels` if none. */
static size_t plot_next(const struct plot *plot, const struct simulate_result *result, size_t from,
                        uint64_t drawn)
{
    size_t at = from;

    must(from <= result->n_levels);
    while (at < result->n_levels &&
           (result->level[at].percent < plot->x_low ||
            plot_height_of(plot, &result->level[at]) < plot->y_low * PLOT_POINT ||
            (plot_x(plot, result->level[at].percent) < drawn + 10 && at + 1 < result->n_levels)))
        at++;
    return at;
}

static void plot_points(const struct plot *plot, const struct simulate_result *result)
{
    const struct plot_style *style = plot_style_of(plot, result);
    uint64_t drawn = 0;

    must(result->n_levels > 0);
    (void)fprintf(plot->out, "<polyline stroke=\"%s\" stroke-dasharray=\"%s\" points=\"",
                  style->color, style->dashes);
    for (size_t at = plot_next(plot, result, 0, drawn); at < result->n_levels;
         at = plot_next(plot, result, at + 1, drawn)) {
        const bool first = drawn == 0;
        drawn = plot_x(plot, result->level[at].percent);
        plot_number(plot, first ? "\n" : " ", drawn);
        plot_number(plot, ",", plot_y(plot, plot_height_of(plot, &result->level[at])));
    }
    (void)fputs("\"/>\n", plot->out);
}

/* Marks of different lines begin at different places, so that they do not cover each other. */
static void plot_marks(const struct plot *plot, size_t number)
{
    const struct simulate_result *result = &plot->report->result[number];
    const struct plot_style *style = plot_style_of(plot, result);
    uint64_t next = PLOT_LEFT + PLOT_MARKS * (2 * number + 1) / (2 * plot->report->n_results);

    must(number < plot->report->n_results);
    (void)fprintf(plot->out, "<path stroke=\"%s\" fill=\"%s\" d=\"", style->color, style->color);
    for (size_t at = plot_next(plot, result, 0, 0); at < result->n_levels;
         at = plot_next(plot, result, at + 1, 0)) {
        const uint64_t x = plot_x(plot, result->level[at].percent);
        if (x < next)
            continue;
        plot_number(plot, "\nM", x);
        plot_number(plot, ",", plot_y(plot, plot_height_of(plot, &result->level[at])));
        (void)fputs(style->mark, plot->out);
        while (next <= x)
            next += PLOT_MARKS;
    }
    (void)fputs("\"/>\n", plot->out);
}

/* --- labels --- */

struct plot_label {
    const struct simulate_result *result;
    uint64_t end; /* y of the end of the line */
    uint64_t y;   /* y of the label, at a distance from others */
};

/* Sorts labels from the top; equal ones stay in the order of the policies. */
static size_t plot_sort_labels(const struct plot *plot, struct plot_label label[POLICY_CHOICES_MAX])
{
    const struct simulate_report *report = plot->report;
    size_t labels = 0;

    must(report->n_results <= POLICY_CHOICES_MAX);
    for (size_t i = 0; i < report->n_results; i++) {
        const struct simulate_result *result = &report->result[i];
        const struct simulate_level *last = &result->level[result->n_levels - 1];
        const uint64_t end = plot_y(plot, plot_height_of(plot, last));
        size_t at = labels++;
        for (; at > 0 && label[at - 1].end > end; at--)
            label[at] = label[at - 1];
        label[at] = (struct plot_label){result, end, end};
    }
    return labels;
}

static void plot_spread_labels(struct plot_label *label, size_t labels)
{
    uint64_t lowest = PLOT_BOTTOM;

    must(labels * PLOT_SPACING < PLOT_BOTTOM - PLOT_TOP);
    for (size_t i = 1; i < labels; i++)
        if (label[i].y < label[i - 1].y + PLOT_SPACING)
            label[i].y = label[i - 1].y + PLOT_SPACING;
    for (size_t i = labels; i-- > 0; lowest = label[i].y - PLOT_SPACING)
        if (label[i].y > lowest)
            label[i].y = lowest;
}

static void plot_labels(const struct plot *plot)
{
    struct plot_label label[POLICY_CHOICES_MAX];
    const size_t labels = plot_sort_labels(plot, label);

    must(labels == plot->report->n_results);
    plot_spread_labels(label, labels);
    for (size_t i = 0; i < labels; i++) {
        const struct plot_style *style = plot_style_of(plot, label[i].result);
        (void)fprintf(plot->out, "<g stroke=\"%s\" stroke-opacity=\"0.6\">\n", style->color);
        plot_line(plot, (uint64_t[]){PLOT_RIGHT + 60, label[i].end},
                  (uint64_t[]){PLOT_LABEL - 50, label[i].y});
        (void)fprintf(plot->out, "</g>\n<g fill=\"%s\" font-weight=\"600\">\n", style->color);
        plot_text(plot, (uint64_t[]){PLOT_LABEL, label[i].y + 45}, "start");
        plot_final(plot, label[i].result);
        (void)fputs("</text>\n</g>\n", plot->out);
    }
}

void simulate_write_plot(FILE *out, const struct simulate_report *report)
{
    struct plot plot = {.out = out, .report = report};

    must(report->n_results > 0 && report->result[0].n_levels > 0);
    plot_choose_range(&plot);
    plot_head(&plot);
    plot_axes(&plot);
    (void)fputs("<g fill=\"none\" stroke-width=\"2\">\n", out);
    for (size_t i = 0; i < report->n_results; i++)
        plot_points(&plot, &report->result[i]);
    (void)fputs("</g>\n", out);
    for (size_t i = 0; i < report->n_results; i++)
        plot_marks(&plot, i);
    plot_labels(&plot);
    (void)fputs("</svg>\n", out);
}
