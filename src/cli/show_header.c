/* What was looked at: host, driver, IOMMU, level. */
#include <jansson.h>
#include <string.h>

#include "show.h"

/* A string below a path of keys, or what stands for "not known". */
static const char *text_at(const json_t *object, const char *key, const char *unknown)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text != NULL && text[0] != '\0' ? text : unknown;
}

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

static void show_host(const struct cli_style *style, const json_t *host)
{
	char line[512];
	const json_t *driver = json_object_get(host, "driver");
	const char *version = text_at(driver, "version", NULL);
	const char *virtualization = text_at(host, "virtualization", NULL);
	const char *container = text_at(host, "container", NULL);
	const char *flavour = text_at(driver, "flavour", NULL);
	label(style, "Host");
	size_t len = (size_t)snprintf(line, sizeof(line), "kernel %.95s, ", text_at(host, "kernel", "unknown"));
	if (version == NULL)
		len += (size_t)snprintf(line + len, sizeof(line) - len, "no NVIDIA driver found");
	else
		len += (size_t)snprintf(line + len, sizeof(line) - len, "NVIDIA driver %.31s%s%.15s%s", version,
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

static void show_iommu(const struct cli_style *style, const json_t *iommu)
{
	char line[1024];
	const json_t *first = json_array_get(json_object_get(iommu, "evidence"), 0);
	const char *state = text_at(iommu, "state", "unknown");
	label(style, "IOMMU");
	if (first != NULL)
		snprintf(line, sizeof(line), "%s (confidence %s; %s: %s)", state, text_at(iommu, "confidence", "unknown"),
		         text_at(first, "source", "?"), text_at(first, "text", "?"));
	else
		snprintf(line, sizeof(line), "%s", state);
	cli_style_wrap(style, 9, 9, line);
}

void cli_show_header(const struct cli_style *style, const p2psafe_report *report, const struct cli_args *args)
{
	char line[1024];
	json_t *json = cli_show_json(report);
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
	         looked ? "" : text_at(json, "level", "unknown"),
	         json_is_true(json_object_get(json, "deadline_hit")) ? ", ENDED BY ITS DEADLINE" : "");
	cli_style_cell(style, CLI_HEAD, 0, line);
	fputs("\n", style->out);
	if (json != NULL) {
		show_host(style, json_object_get(json, "host"));
		show_iommu(style, json_object_get(json, "iommu"));
	}
	json_decref(json);
}

void cli_show_level(const p2psafe_report *report, char *out, size_t cap)
{
	json_t *json = cli_show_json(report);
	snprintf(out, cap, "%s", text_at(json, "level", "unknown"));
	json_decref(json);
}

void cli_show_kept(const struct cli_style *style, const p2psafe_report *report)
{
	char line[1024];
	json_t *json = cli_show_json(report);
	const json_t *kept = json_object_get(json, "kept");
	const char *path = text_at(kept, "path", NULL);
	const char *reason = text_at(kept, "reason", NULL);
	if (kept != NULL) {
		fputc('\n', style->out);
		label(style, "Kept");
		snprintf(line, sizeof(line), "%s%s%s%s",
		         p2psafe_report_is_kept(report) ? "this is the kept answer" : "this is a fresh answer",
		         path != NULL ? "; record: " : "; no record", path != NULL ? path : "", reason != NULL ? "; " : "");
		size_t len = strlen(line);
		if (reason != NULL && len < sizeof(line))
			snprintf(line + len, sizeof(line) - len, "%s", reason);
		cli_style_wrap(style, 9, 9, line);
	}
	json_decref(json);
}
