#include "core/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int32_t p2s_fault_set(struct p2s_fault *f, int32_t code, int os_error, const char *format, ...)
{
	va_list ap;

	if (f == NULL)
		return code;
	memset(f, 0, sizeof *f);
	f->code = code;
	f->os_error = os_error;
	va_start(ap, format);
	vsnprintf(f->text, sizeof f->text, format, ap);
	va_end(ap);
	for (char *p = f->text; *p != '\0'; p++)
		if ((unsigned char)*p < ' ')
			*p = ' ';
	return code;
}
