"""What happens around a step: a record cut off in the middle of a write, another process that takes the lock and is stopped."""

import os
import signal
import subprocess
import time

LOCK = "lock"  # src/lib/kept/lock.c
FOUND_SECONDS = 20


def cut_records(cache):
    """Cuts every file of the kept records in half, as a crash in the middle of a write would. Returns how many there were."""
    count = 0
    for path in sorted(cache.rglob("*.json")):
        with open(path, "r+b") as f:
            f.truncate(path.stat().st_size // 2)
        count += 1
    return count


class StoppedHolder:
    """A second run of the program, stopped as soon as it holds the lock."""

    def __init__(self, command, env, cache):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=env)
        self.stopped = self.wait_for_lock(cache)

    def wait_for_lock(self, cache):
        """True once the lock names the process and the process has stopped."""
        end = time.monotonic() + FOUND_SECONDS
        mark = f" {self.process.pid} "
        while time.monotonic() < end and self.process.poll() is None:
            for path in cache.rglob(LOCK):
                try:
                    held = mark in path.read_text(encoding="ascii", errors="replace")
                except OSError:
                    continue
                if held:
                    os.kill(self.process.pid, signal.SIGSTOP)
                    _, status = os.waitpid(self.process.pid, os.WUNTRACED)
                    return os.WIFSTOPPED(status)
            time.sleep(0.001)
        return False

    def go_on(self, seconds):
        """Lets it run to its end: exit code, standard output."""
        os.kill(self.process.pid, signal.SIGCONT)
        try:
            out, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.end()
            return None, ""
        return self.process.returncode, out.decode("utf-8", "replace")

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
