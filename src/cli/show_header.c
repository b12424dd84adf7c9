/* What was looked at: host, driver, IOMMU, level. */
#include <jansson.h>
#include <string.h>

#include "show.h"

json_t *cli_show_json(const p2psafe_report *report)
{
	char *text = NULL;
	if (p2psafe_report_json(report, &text, NULL) != P2PSAFE_OK)
		return NULL;
	json_t *json = json_loads(text, 0, NULL);
	p2psafe_string_free(text);
	return json;
}

static void label(const struct cli_style *style, const char *name)
{
	cli_style_cell(style, CLI_HEAD, -9, name);
}

/* What is known, or what stands for "not known". */
static const char *known(const char *text, const char *unknown)
{
	return text != NULL && text[0] != '\0' ? text : unknown;
}

static void show_host(const struct cli_style *style, const struct p2psafe_about *about)
{
	char line[512];
	const char *virtualization = known(about->virtualization, NULL);
	const char *container = known(about->container, NULL);
	const char *flavour = known(about->driver_flavour, NULL);
	label(style, "Host");
	size_t len = (size_t)snprintf(line, sizeof(line), "kernel %.95s, ", known(about->kernel, "unknown"));
	if (known(about->driver_version, NULL) == NULL)
		len += (size_t)snprintf(line + len, sizeof(line) - len, "no NVIDIA driver found");
	else
		len += (size_t)snprintf(line + len, sizeof(line) - len, "NVIDIA driver %.31s%s%.15s%s", about->driver_version,
		                        flavour != NULL ? " (" : "", flavour != NULL ? flavour : "",
		                        flavour != NULL ? " kernel modules)" : "");
	if (virtualization != NULL && strcmp(virtualization, "none") == 0)
		len += (size_t)snprintf(line + len, sizeof(line) - len, ", bare metal");
	else if (virtualization != NULL)
		len += (size_t)snprintf(line + len, sizeof(line) - len, ", virtual machine: %.31s", virtualization);
	if (container != NULL && strcmp(container, "none") != 0)
		snprintf(line + len, sizeof(line) - len, ", container: %.31s", container);
	cli_style_wrap(style, 9, 9, line);
}

static void show_iommu(const struct cli_style *style, const struct p2psafe_about *about)
{
	char line[1024];
	const char *state = p2psafe_iommu_name(about->iommu_state);
	label(style, "IOMMU");
	if (known(about->iommu_source, NULL) != NULL || known(about->iommu_text, NULL) != NULL)
		snprintf(line, sizeof(line), "%s (confidence %s; %s: %s)", state, p2psafe_confidence_name(about->iommu_confidence),
		         known(about->iommu_source, "?"), known(about->iommu_text, "?"));
	else
		snprintf(line, sizeof(line), "%s", state);
	cli_style_wrap(style, 9, 9, line);
}

static int get_about(const p2psafe_report *report, struct p2psafe_about *about)
{
	memset(about, 0, sizeof(*about));
	about->size = sizeof(*about);
	return p2psafe_report_about(report, about) == P2PSAFE_OK;
}

void cli_show_header(const struct cli_style *style, const p2psafe_report *report, const struct cli_args *args)
{
	char line[1024];
	struct p2psafe_about about;
	int got = get_about(report, &about);
	int looked = args->command == CLI_COMMAND_PROBE || (args->command == CLI_COMMAND_EXPLAIN && !p2psafe_report_is_kept(report));
	if (p2psafe_report_is_simulated(report)) {
		const char *host = args->value[CLI_OPTION_HOST];
		const char *library = args->value[CLI_OPTION_CUDA_LIBRARY];
		snprintf(line, sizeof(line), "*** SIMULATED: this is about %s, not about this machine ***",
		         host != NULL      ? host
		         : library != NULL ? library
		                           : "a simulated host");
		cli_style_cell(style, CLI_BAD, 0, line);
		fputs("\n\n", style->out);
	}
	snprintf(line, sizeof(line), "p2psafe %s: %s%s%s%s", p2psafe_version_string(), cli_commands[args->command].name,
	         looked ? " (nothing is transferred)" : ", level ",
	         looked ? "" : p2psafe_level_name(about.level), about.deadline_hit == 1 ? ", ENDED BY ITS DEADLINE" : "");
	cli_style_cell(style, CLI_HEAD, 0, line);
	fputs("\n", style->out);
	if (got) {
		show_host(style, &about);
		show_iommu(style, &about);
	}
}

void cli_show_level(const p2psafe_report *report, char *out, size_t cap)
{
	struct p2psafe_about about;
	(void)get_about(report, &about);
	snprintf(out, cap, "%s", p2psafe_level_name(about.level));
}

void cli_show_kept(const struct cli_style *style, const p2psafe_report *report)
{
	char line[1024];
	struct p2psafe_about about;
	if (!get_about(report, &about))
		return;
	const char *path = known(about.kept_path, NULL);
	const char *reason = known(about.kept_reason, NULL);
	fputc('\n', style->out);
	label(style, "Kept");
	snprintf(line, sizeof(line), "%s%s%s%s%s",
	         p2psafe_report_is_kept(report) ? "this is the kept answer" : "this is a fresh answer",
	         path != NULL ? "; record: " : "; no record", path != NULL ? path : "", reason != NULL ? "; " : "",
	         reason != NULL ? reason : "");
	cli_style_wrap(style, 9, 9, line);
}
