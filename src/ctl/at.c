/*
 * Times in options: 2026-01-02T14:05:00Z, or an age such as 5h. Called by commands with such an
 * option, and by the filters of lists.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/wire/kube/wire_kube.h"

#include "ctl.h"

static int64_t unit_ms(char unit)
{
    must(unit != '\0');
    switch (unit) {
    case 's':
        return 1000;
    case 'm':
        return 60000;
    case 'h':
        return 3600000;
    case 'd':
        return 86400000;
    default:
        return 0;
    }
}

/*
 * The server accepts RFC 3339 only; "5h" is converted with the clock of this machine. At most nine
 * digits, so that no product overflows.
 */
void at_format(const char *given, int64_t now_ms, char out[AGE_BYTES + 32])
{
    const size_t digits = strspn(given, "0123456789");
    int64_t at_ms;

    out[0] = '\0';
    if (time_parse(text_of(given), &at_ms)) {
        (void)snprintf(out, AGE_BYTES + 32, "%s", given);
        return;
    }
    if (digits == 0 || digits > 9 || given[digits] == '\0' || given[digits + 1] != '\0')
        return;
    const int64_t unit = unit_ms(given[digits]);
    if (unit > 0)
        time_format(now_ms - strtoll(given, NULL, 10) * unit, out);
}

int at_refuse(const struct ctl *ctl, size_t option, struct err *err)
{
    must(ctl->options.given[option] != NULL);
    return err_set(err, ERR_INVALID,
                   "--%s is %.60s: it is 2026-01-02T14:05:00Z, or an age: 90s, 30m, 5h, 2d",
                   option_info(option)->name, ctl->options.given[option]);
}

int at_read(const struct ctl *ctl, size_t option, int64_t *out_ms, struct err *err)
{
    char at[AGE_BYTES + 32];

    must(option < OPTIONS);
    if (ctl->options.given[option] == NULL)
        return 0;
    at_format(ctl->options.given[option], ctl->screen.now_ms, at);
    return time_parse(text_of(at), out_ms) ? 0 : at_refuse(ctl, option, err);
}
