"""What a foreign process gets when NCCL loads the plugin: two symbols, libc, and nothing that can clash or be unloaded."""

import subprocess
import unittest

from common import PLUGIN, PluginTest

SANITIZERS = ("libasan", "libubsan", "libclang_rt")


def lines(*command):
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.splitlines()


class Symbols(PluginTest):
    def test_exports(self):
        exported = {line.split()[-1].split("@")[0] for line in lines("nm", "-D", "--defined-only", PLUGIN)}
        self.assertEqual(exported, {"ncclEnvPlugin_v1", "ncclEnvPlugin_v2"})

    def test_needs(self):
        dynamic = lines("readelf", "-d", PLUGIN)
        needed = [line.split("[")[1].rstrip("]") for line in dynamic if "(NEEDED)" in line]
        allowed = ("libc.so", "libpthread.so", "ld-linux", "libjansson.so.4")
        for name in needed:
            self.assertTrue(name.startswith(allowed + SANITIZERS), name)
        if not any("libjansson" in name for name in needed):
            undefined = [line.split()[-1] for line in lines("nm", "-D", "--undefined-only", PLUGIN)]
            self.assertEqual([name for name in undefined if name.startswith(("json", "p2psafe"))], [])
        self.assertFalse(any("TEXTREL" in line for line in dynamic))
        self.assertTrue(any("NODELETE" in line for line in dynamic))

    def test_no_thread_no_output(self):
        undefined = {line.split()[-1].split("@")[0] for line in lines("nm", "-D", "--undefined-only", PLUGIN)}
        forbidden = {"pthread_create", "printf", "puts", "perror", "exit", "abort", "signal", "sigaction", "atexit", "setenv",
                     "putenv", "unsetenv", "dlopen", "system", "popen"}
        sanitized = any(name.startswith("__asan") for name in undefined)
        self.assertEqual(set() if sanitized else undefined & forbidden, set())


if __name__ == "__main__":
    unittest.main()
