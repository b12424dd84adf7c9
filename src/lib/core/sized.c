#include "core/sized.h"

#include <string.h>

#include "p2psafe/p2psafe.h"

int32_t p2s_sized_in(void *own, size_t own_size, const void *theirs)
{
	size_t n;

	if (theirs == NULL)
		return 0;
	memcpy(&n, theirs, sizeof n);
	if (n < sizeof n || n > P2S_SIZED_MAX)
		return P2PSAFE_E_SIZE;
	for (size_t i = own_size; i < n; i++)
		if (((const unsigned char *)theirs)[i] != 0)
			return P2PSAFE_E_NEWER;
	memcpy(own, theirs, n < own_size ? n : own_size);
	memcpy(own, &own_size, sizeof own_size);
	return 0;
}

int32_t p2s_sized_out(void *theirs, const void *own, size_t own_size)
{
	size_t n;
	size_t both;

	if (theirs == NULL)
		return P2PSAFE_E_INVALID;
	memcpy(&n, theirs, sizeof n);
	if (n < sizeof n || n > P2S_SIZED_MAX)
		return P2PSAFE_E_SIZE;
	both = n < own_size ? n : own_size;
	memcpy((unsigned char *)theirs + sizeof n, (const unsigned char *)own + sizeof n, both - sizeof n);
	memset((unsigned char *)theirs + both, 0, n - both);
	return 0;
}
