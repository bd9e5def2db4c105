/*
 * Enters safe mode: records the reason, creates the folder for the diagnostics, and wakes the
 * verifier's thread, which fills it. Called on any thread.
 */
#include "milligpu/spine/safe_mode.h"

#include <stdio.h>

#include "milligpu/run/log.h"
#include "milligpu/run/wakeup.h"
#include "milligpu/spine/app.h"

static const struct {
    const char *word;
    const char *text;
} reasons[] = {
#define X(id, word, text) [id] = {word, text},
    SAFE_TABLE(X)
#undef X
};

void safe_mode_enter(struct app *app, enum safe_mode_reason reason, const char *text)
{
    struct safe_mode *safe = &app->health.safe;
    struct err err;

    must(reason < SAFE_REASONS);
    /* Only the first caller fills struct safe_mode; health.safe_mode, set last, publishes it. */
    if (atomic_exchange(&safe->entered, true))
        return;
    atomic_store(&safe->reason, reason);
    safe->since_ms = app->clock.wall_ms(app->clock.ctx);
    text_clip(text_of(text), safe->text, sizeof safe->text);
    if (safe_mode_folder(app, safe->folder, sizeof safe->folder, &err) < 0) {
        safe->folder[0] = '\0';
        text_clip(text_of(err.text), safe->why_none, sizeof safe->why_none);
    }
    atomic_store(&app->health.safe_mode, true);
    wakeup_signal(app->verifier_wakeup);
    log_write(LOG_ERROR,
              "safe mode: nothing is granted or written until a restart; keep the diagnostics for "
              "the bug report",
              log_str("reason", reasons[reason].word), log_str("error", safe->text),
              log_str("diagnostics", safe->folder[0] != '\0' ? safe->folder : safe->why_none));
}

const char *safe_mode_why(const struct app *app)
{
    const enum safe_mode_reason reason = atomic_load(&app->health.safe.reason);

    must(reason < SAFE_REASONS);
    return reasons[reason].text;
}

const char *safe_mode_word(const struct app *app)
{
    const enum safe_mode_reason reason = atomic_load(&app->health.safe.reason);

    must(reason < SAFE_REASONS);
    return reasons[reason].word;
}
