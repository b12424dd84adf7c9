#define _GNU_SOURCE
#include "helper/drop.h"

#include <linux/capability.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORDS _LINUX_CAPABILITY_U32S_3

/* One byte is no file, and, unlike none, also keeps the kernel from starting a program that takes dumps through a pipe (fs/coredump.c:
 * a limit of 1 is a special value there). Whose hard limit is none cannot have that one. */
void p2s_drop_core(void)
{
	struct rlimit one = {1, 1};
	struct rlimit none = {0, 0};

	if (setrlimit(RLIMIT_CORE, &one) != 0)
		(void)setrlimit(RLIMIT_CORE, &none);
}

/* Nothing here may fail the run: who has no rights has nothing to drop. */
void p2s_drop_host(void)
{
	static const int kept[] = {CAP_SYS_ADMIN, CAP_DAC_READ_SEARCH};
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct have[WORDS] = {{0}};
	struct __user_cap_data_struct keep[WORDS] = {{0}};

	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capget, &header, have) != 0)
		return;
	for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
		keep[CAP_TO_INDEX(kept[i])].permitted |= have[CAP_TO_INDEX(kept[i])].permitted & CAP_TO_MASK(kept[i]);
		keep[CAP_TO_INDEX(kept[i])].effective |= have[CAP_TO_INDEX(kept[i])].effective & CAP_TO_MASK(kept[i]);
	}
	(void)syscall(SYS_capset, &header, keep);
}
