/* One mistake for each tool: analyse.py looks whether they still see. Never built. */
#include <fcntl.h>
#include <stdlib.h>

int freed_twice(void)
{
	char *p = malloc(8);

	free(p);
	free(p);
	return 0;
}

int inherited(void)
{
	return open("/dev/null", O_RDONLY);
}

int beyond(void)
{
	int few[2] = {1, 2};

	return few[2];
}
