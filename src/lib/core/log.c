#include "core/log.h"

#include <stdarg.h>
#include <stdio.h>

void p2s_log(const struct p2s_log *log, int32_t level, const char *format, ...)
{
	char line[500];
	va_list ap;

	if (log == NULL || log->fn == NULL)
		return;
	va_start(ap, format);
	vsnprintf(line, sizeof line, format, ap);
	va_end(ap);
	for (char *p = line; *p != '\0'; p++)
		if ((unsigned char)*p < ' ')
			*p = ' ';
	log->fn(log->user, level, line);
}
