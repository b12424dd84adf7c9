/* A data race: races.py looks whether the report arrives where it looks for reports. */
#include <pthread.h>
#include <stddef.h>

static int shared;

static void *count(void *unused)
{
	(void)unused;
	for (int i = 0; i < 1000; i++)
		shared++;
	return NULL;
}

int main(void)
{
	pthread_t other;

	if (pthread_create(&other, NULL, count, NULL) != 0)
		return 1;
	count(NULL);
	pthread_join(other, NULL);
	return 0;
}
