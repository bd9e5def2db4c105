/*
 * cdi_spec - what the files of the CDI share.
 */
#ifndef MILLIGPU_AGENT_CDI_SPEC_H
#define MILLIGPU_AGENT_CDI_SPEC_H

#include "milligpu/base/text.h"

/* Letters, digits, and in between also the others: how CDI writes the parts of a name. */
bool cdi_is_name(struct text name, const char *others);

#endif
