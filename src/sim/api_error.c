/* Driver API: names of results. */
#include "sim/api.h"
#include "sim/fault.h"

struct error_word {
	CUresult number;
	const char *name;
	const char *text;
};

static const struct error_word words[] = {
#define SIM_ERROR_WORD(number, name, text) { number, name, text },
#include "sim/errors.def"
#undef SIM_ERROR_WORD
};

static const struct error_word *find(CUresult error)
{
	unsigned i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (words[i].number == error)
			return &words[i];
	return NULL;
}

P2S_EXPORT CUresult cuGetErrorName(CUresult error, const char **out)
{
	SIM_ENTER();
	const struct error_word *w = find(error);

	if (!out)
		return CU_INVALID_VALUE;
	*out = w ? w->name : NULL;
	return w ? CU_OK : CU_INVALID_VALUE;
}

P2S_EXPORT CUresult cuGetErrorString(CUresult error, const char **out)
{
	SIM_ENTER();
	const struct error_word *w = find(error);

	if (!out)
		return CU_INVALID_VALUE;
	*out = w ? w->text : NULL;
	return w ? CU_OK : CU_INVALID_VALUE;
}
