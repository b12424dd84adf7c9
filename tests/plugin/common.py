"""What the tests of the plugin share: the loader, simulated hosts, private folders."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

HOSTS = Path(__file__).resolve().parents[1] / "hosts"
HEALTHY = HOSTS / "ok-2xh200-nvlink"
BROKEN = HOSTS / "s01-founding-host"

PLUGIN = os.environ.get("P2PSAFE_PLUGIN_UNDER_TEST", "")
PROGRAM = os.environ.get("P2PSAFE_PLUGIN_PROGRAM", "")
SANITIZED = bool(os.environ.get("P2PSAFE_PLUGIN_SANITIZED"))
LOADER = os.environ.get("P2PSAFE_PLUGIN_LOADER", "")

ASKED = ("NCCL_P2P_DISABLE", "NCCL_WIN_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_P2P_LEVEL", "NCCL_DEBUG", "NCCL_PROTO")
VETO = {"NCCL_P2P_DISABLE": "1", "NCCL_WIN_ENABLE": "0", "NCCL_NVLS_ENABLE": "0"}

# A command that hangs fails its test instead of holding up everything; the library's own deadline is 20 s plus 2 s per GPU.
LIMIT_S = 200
RANKS = 8  # processes of one start


class Seen:
    """What one loader printed."""

    def __init__(self, out, err, code):
        self.out, self.err, self.code = out, err, code
        self.log = [line.split(" ", 2)[1:] for line in out.splitlines() if line.startswith("LOG ")]
        self.values = {}
        for line in out.splitlines():
            if line.startswith("NCCL_"):
                name, equal, value = line.partition("=")
                self.values[name] = value if equal else None

    def set(self):
        return {name: value for name, value in self.values.items() if value is not None}


class PluginTest(unittest.TestCase):
    def setUp(self):
        for path in (PLUGIN, LOADER):
            if not os.path.isfile(path):
                self.fail("%r is no file: the plugin or its loader is not built" % path)
        folder = tempfile.TemporaryDirectory(prefix="p2psafe-plugin-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def conf(self, host=None, text=None, name="test.conf"):
        path = self.folder / name
        path.write_text(text if text is not None else "host_dir=%s\n" % host, encoding="utf-8")
        path.chmod(0o644)
        return path

    def environment(self, conf, cache="cache", **more):
        """Nothing of this process's environment but what sanitizers and the loader need."""
        keep = ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "TMPDIR")
        environment = {name: os.environ[name] for name in keep if name in os.environ}
        environment["HOME"] = str(self.folder)
        if conf is not None:
            environment["P2PSAFE_TEST_CONF"] = str(conf)
        if cache is not None:
            environment["P2PSAFE_CACHE"] = str(self.folder / cache)
        environment.update(more)
        return environment

    def start(self, environment, command="get", interface="v2", plugin=PLUGIN, names=ASKED, prefix=(), pass_fds=()):
        return subprocess.Popen([*prefix, LOADER, str(plugin), interface, command, *names], env=environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                                errors="replace", pass_fds=pass_fds)

    def finish(self, process):
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail("the loader did not come back within %d s: %s" % (LIMIT_S, process.communicate()))
        return Seen(out, err, process.returncode)

    def run_loader(self, environment, *args, **kwargs):
        seen = self.finish(self.start(environment, *args, **kwargs))
        self.assertEqual(seen.code, 0, seen.out + seen.err)
        return seen

    def all(self, environments, **kwargs):
        """Loaders that run at once, one for each environment."""
        processes = [self.start(environment, **kwargs) for environment in environments]
        seen = [self.finish(process) for process in processes]
        for one in seen:
            self.assertEqual(one.code, 0, one.out + one.err)
        return seen
