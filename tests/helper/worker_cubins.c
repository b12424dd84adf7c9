/* Ready-made code: which is in this build, that it is what it says, and which one a GPU gets. A build without an assembler has
 * none, and that is fine. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "helper/cubins.h"

#define EM_CUDA_NUMBER 190

static int has(int32_t arch, int32_t measure)
{
	for (const struct p2s_cubin *b = p2s_cubins; b->arch != 0; b++)
		if (b->arch == arch && b->measure == measure)
			return 1;
	return 0;
}

/* 1 if some section of the image is code of this kernel. */
static int has_kernel(const unsigned char *image, const char *kernel)
{
	Elf64_Ehdr head;
	Elf64_Shdr names;
	char want[64];

	memcpy(&head, image, sizeof head);
	memcpy(&names, image + head.e_shoff + (size_t)head.e_shstrndx * sizeof names, sizeof names);
	snprintf(want, sizeof want, ".text.p2s_%s", kernel);
	for (size_t i = 0; i < head.e_shnum; i++) {
		Elf64_Shdr s;

		memcpy(&s, image + head.e_shoff + i * sizeof s, sizeof s);
		if (s.sh_size > 0 && strcmp((const char *)image + names.sh_offset + s.sh_name, want) == 0)
			return 1;
	}
	return 0;
}

static void they_are_what_they_say(void **state)
{
	static const char *const kernels[2][8] = {{"fill", "check", "load", "mp", "tear", "atomic", "wide", "ll"},
	                                          {"gate", "pump", "chase", "issue", "pong"}};

	(void)state;
	for (const struct p2s_cubin *b = p2s_cubins; b->arch != 0; b++) {
		Elf64_Ehdr head;

		memcpy(&head, b->image, sizeof head);
		assert_memory_equal(head.e_ident, ELFMAG, SELFMAG);
		assert_int_equal(head.e_machine, EM_CUDA_NUMBER);
		assert_int_equal((uintptr_t)b->image % 8, 0);
		for (size_t i = 0; i < 8 && kernels[b->measure][i] != NULL; i++)
			if (!has_kernel(b->image, kernels[b->measure][i]))
				fail_msg("sm_%d lacks p2s_%s", b->arch, kernels[b->measure][i]);
		assert_true(has(b->arch, !b->measure));
		if (b->measure == 0)
			print_message("ready-made: sm_%d\n", b->arch);
	}
	if (p2s_cubins[0].arch == 0)
		print_message("no ready-made code in this build: the driver compiles the text\n");
}

/* Code of one major version runs on every later minor one, and nowhere else. */
static void a_gpu_gets_the_nearest_of_its_own_kind(void **state)
{
	(void)state;
	for (int32_t arch = 50; arch < 140; arch++) {
		for (int32_t measure = 0; measure < 2; measure++) {
			const struct p2s_cubin *got = p2s_cubin_for(arch, measure);
			int32_t best = arch;

			while (best / 10 == arch / 10 && !has(best, measure))
				best--;
			if (best / 10 != arch / 10) {
				assert_null(got);
				continue;
			}
			assert_non_null(got);
			assert_int_equal(got->arch, best);
			assert_int_equal(got->measure, measure);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(they_are_what_they_say),
	                                   cmocka_unit_test(a_gpu_gets_the_nearest_of_its_own_kind)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
