// A server in C++17: the C interface with owners that free, and a decision that chooses the code path.
//
// usage: server [HOST_DIR]        HOST_DIR: a simulated host, for the server's own tests
// exit: 0 started; 1 no report could be made (everything is vetoed then, and the server starts all the same in a real program)
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include <p2psafe/p2psafe.h>

namespace {

struct Free {
	void operator()(p2psafe_context *context) const noexcept { p2psafe_context_free(context); }
	void operator()(p2psafe_report *report) const noexcept { p2psafe_report_free(report); }
	void operator()(char *text) const noexcept { p2psafe_string_free(text); }
};
template <typename T> using Owned = std::unique_ptr<T, Free>;

// The decision, or nothing. Every question to a missing report is answered with "no".
Owned<p2psafe_report> decide(const char *host_dir)
{
	p2psafe_error error{};
	error.size = sizeof error;
	p2psafe_options options;
	p2psafe_options_init(&options, sizeof options);
	options.flags = P2PSAFE_FLAG_ENVIRONMENT; // without it nobody but root has a place for the record, and every start tests again
	options.host_dir = host_dir;

	p2psafe_context *context = nullptr;
	if (p2psafe_context_new(&context, nullptr, nullptr, &error) != P2PSAFE_OK) {
		std::fprintf(stderr, "p2psafe: %s\n", error.text);
		return nullptr;
	}
	const Owned<p2psafe_context> owner(context);
	p2psafe_report *report = nullptr;
	if (p2psafe_decide(context, &options, &report, &error) != P2PSAFE_OK)
		std::fprintf(stderr, "p2psafe: %s\n", error.text);
	return Owned<p2psafe_report>(report);
}

// The settings as text. Without a report this is the full veto.
std::string settings(const p2psafe_report *report)
{
	char *text = nullptr;
	if (p2psafe_report_env(report, P2PSAFE_FORMAT_DOCKER, &text, nullptr) != P2PSAFE_OK)
		throw std::bad_alloc(); // no worker may start without them
	const Owned<char> owner(text);
	return text;
}

} // namespace

int main(int argc, char **argv)
{
	const Owned<p2psafe_report> report = decide(argc > 1 ? argv[1] : nullptr);
	const bool fused = p2psafe_report_allows(report.get(), P2PSAFE_CONSUMER_CUSTOM_ALL_REDUCE) == 1;

	std::printf("all-reduce: %s\n", fused ? "own kernels over peer memory" : "NCCL");
	std::printf("environment of the workers:\n%s", settings(report.get()).c_str());
	return report ? 0 : 1;
}
