/* Writes a finding of doctor. Called by api_doctor.c and doctor_dates.c. */
#include <stdarg.h>
#include <stdio.h>

#include "api_doctor.h"

/*
 * A finding that is not ok always has a fix: an operator who reads "failed" needs a remedy.
 */
void api_doctor_say(struct doctor *doctor, const char *name, enum health health, const char *fix,
                    const char *fmt, ...)
{
    static const char *const words[] = {"ok", "warning", "failed"};
    char text[1024];
    va_list args;

    must((health == HEALTH_OK) == (fix[0] == '\0'));
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args); /* truncated if too long */
    va_end(args);
    json_write_object(&doctor->json);
    json_write_key(&doctor->json, "name");
    json_write_str(&doctor->json, name);
    json_write_key(&doctor->json, "status");
    json_write_str(&doctor->json, words[health]);
    json_write_key(&doctor->json, "text");
    json_write_str(&doctor->json, text);
    json_write_key(&doctor->json, "fix");
    json_write_str(&doctor->json, fix);
    json_write_object_end(&doctor->json);
}
