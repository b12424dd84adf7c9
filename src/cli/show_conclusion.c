/* The answer in one sentence. */
#include <string.h>

#include "show.h"

const char *cli_show_nothing_tested(const p2psafe_report *report)
{
	static const struct {
		const char *code;
		const char *sentence;
	} causes[] = {
#define P2S_CAUSE(code, sentence) {code, sentence},
#include "causes.def"
#undef P2S_CAUSE
	};
	int32_t findings = p2psafe_report_finding_count(report);
	for (size_t k = 0; k < sizeof(causes) / sizeof(causes[0]); k++) {
		for (int32_t i = 0; i < findings; i++) {
			struct p2psafe_finding f = {.size = sizeof(f)};
			if (p2psafe_report_finding(report, i, &f) == P2PSAFE_OK && strcmp(f.code, causes[k].code) == 0)
				return causes[k].sentence;
		}
	}
	return "no test gave an answer; see the findings";
}

static void list_consumers(char *out, size_t cap, const p2psafe_report *report, int32_t allowed)
{
	size_t len = 0;
	out[0] = '\0';
	for (int32_t c = P2PSAFE_CONSUMER_NCCL_P2P; c <= P2PSAFE_CONSUMER_MULTICAST; c++) {
		struct p2psafe_consumer_info info = {.size = sizeof(info)};
		if (p2psafe_report_consumer(report, c, &info) != P2PSAFE_OK || info.allowed != allowed || len >= cap)
			continue;
		len += (size_t)snprintf(out + len, cap - len, "%s%s", len > 0 ? ", " : "", p2psafe_consumer_name(c));
	}
}

static int all_untested(const p2psafe_report *report)
{
	int32_t pairs = p2psafe_report_pair_count(report);
	for (int32_t i = 0; i < pairs; i++) {
		struct p2psafe_pair pair = {.size = sizeof(pair)};
		if (p2psafe_report_pair(report, i, &pair) != P2PSAFE_OK || pair.verdict != P2PSAFE_VERDICT_UNTESTED)
			return 0;
	}
	return 1;
}

void cli_show_conclusion(const struct cli_style *style, const p2psafe_report *report)
{
	char line[512], list[160];
	int32_t code = p2psafe_report_exit_code(report);
	enum cli_colour colour = CLI_GOOD;
	const char *word = "SAFE";
	if (code == 3) {
		snprintf(line, sizeof(line), "%s. Everything is vetoed.", cli_show_nothing_tested(report));
		colour = CLI_UNSURE;
		word = "NOTHING TESTED";
	} else if (code != 0 && all_untested(report)) {
		snprintf(line, sizeof(line), "no pair was tested, so no peer-to-peer transfer is allowed; 'p2psafe test' tests them.");
		colour = CLI_UNSURE;
		word = "NOT PROVEN SAFE";
	} else if (code != 0) {
		list_consumers(list, sizeof(list), report, 0);
		snprintf(line, sizeof(line), "do not use peer-to-peer here (%s); the settings above keep programs off it.", list);
		colour = CLI_BAD;
		word = "NOT PROVEN SAFE";
	} else if (p2psafe_report_pair_count(report) == 0) {
		snprintf(line, sizeof(line), "one GPU: there is no pair to test and nothing to set.");
		word = "NOTHING TO TEST";
	} else {
		list_consumers(list, sizeof(list), report, 1);
		snprintf(line, sizeof(line), "every pair was proven for %s.", list);
	}
	fputc('\n', style->out);
	if (p2psafe_report_is_simulated(report))
		cli_style_cell(style, CLI_BAD, 0, "SIMULATED  ");
	cli_style_cell(style, colour, 0, word);
	fputs(": ", style->out);
	cli_style_wrap(style, (int)strlen(word) + 2 + (p2psafe_report_is_simulated(report) ? 11 : 0), 2, line);
}
