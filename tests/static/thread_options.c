/* In a build with ThreadSanitizer: the helper and its workers inherit no environment and nobody sees their stderr, so
 * where their reports go is compiled in. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	/* The simulator is not instrumented, its memory is racy by design. A thread of the conductor holds two channels from a
	 * request to its answer, in no fixed order: no other thread ever holds more than one. */
	return "log_path=" THREAD_REPORTS ":exitcode=66:history_size=4:ignore_noninstrumented_modules=1:detect_deadlocks=0";
}
