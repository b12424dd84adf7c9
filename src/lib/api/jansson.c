/* Is jansson jansson? Other JSON libraries (json-c is one) have functions of the same names with another meaning. Where a
 * program brings one, the dynamic linker gives these to us, too, and our texts would be read and written by a mixture of both.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <jansson.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "api/internal.h"

/* Function pointers are no data pointers in C; POSIX makes them as large. */
union function {
	void (*call)(void);
	void *address;
};

struct used {
	const char *name;
	union function function;
};

/* The object (program or library) that holds the function. 0: a mere entry through which a program that is no PIE calls what
 * another object holds: its address tells nothing. */
static int32_t holder(const struct used *used, void **base, const char **file)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	*base = NULL;
	*file = "this program";
	if (dladdr1(used->function.address, &info, (void **)(uintptr_t)&symbol, RTLD_DL_SYMENT) == 0)
		return 1; /* a program without any shared library holds everything */
	if (symbol != NULL && symbol->st_shndx == SHN_UNDEF)
		return 0;
	*base = info.dli_fbase;
	if (info.dli_fname != NULL)
		*file = info.dli_fname;
	return 1;
}

int32_t p2s_jansson_check(struct p2s_fault *fault)
{
	static const struct used all[] = {
#define P2S_JANSSON(symbol) {#symbol, {(void (*)(void))(symbol)}},
#include "api/jansson.def"
#undef P2S_JANSSON
	};
	const char *first_file = NULL;
	void *first = NULL;

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		const char *file;
		void *base;

		if (!holder(&all[i], &base, &file))
			continue;
		if (first_file == NULL) {
			first = base;
			first_file = file;
		} else if (base != first) {
			return p2s_fault_set(fault, P2PSAFE_E_SYSTEM, 0, "%s comes from %.80s, %s from %.80s; expected libjansson for both",
			                     all[0].name, first_file, all[i].name, file);
		}
	}
	return P2PSAFE_OK;
}
