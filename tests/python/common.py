"""What the Python tests share: where the library, the hosts and the golden program are, and a private cache for each test."""

import os
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings" / "python"
HOSTS = ROOT / "tests" / "hosts"
HEALTHY = HOSTS / "ok-2xh200-nvlink"
BROKEN = HOSTS / "s01-founding-host"

if str(PACKAGE) not in sys.path:
    sys.path.insert(0, str(PACKAGE))
sys.path.insert(0, str(ROOT / "tests" / "abi"))

import p2psafe  # noqa: E402

LIBRARY = os.environ.get("P2PSAFE_LIBRARY", "")


def quick(**more):
    """Options of a quick test that touches nothing outside the test's own folder."""
    options = {"level": "quick", "environment": False}
    options.update(more)
    return options


class LibraryTest(unittest.TestCase):
    """A test that calls the library. Without one it fails: a skipped test would prove nothing."""

    def setUp(self):
        if not LIBRARY or not os.path.isfile(LIBRARY):
            self.fail("P2PSAFE_LIBRARY does not name the library under test")
        folder = tempfile.TemporaryDirectory(prefix="p2psafe-python-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def cache(self):
        """A fresh private folder for records. Trusted only while nobody else may write it."""
        folder = tempfile.mkdtemp(prefix="cache-", dir=str(self.folder))
        os.chmod(folder, 0o700)
        return folder

    def decide(self, host, **more):
        return p2psafe.decide(host_dir=host, cache_dir=self.cache(), **quick(**more))


def apply_quietly(*args, **kwargs):
    """apply() and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        applied = p2psafe.apply(*args, **kwargs)
    return applied, [str(warning.message) for warning in caught]
