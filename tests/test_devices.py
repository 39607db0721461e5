"""What a run asks of the machine it is on."""

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, torch
from mdeq.engine.devices import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.zeros(16 << 20)  # 64 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults())
keep_freed_memory()
torch.zeros(16 << 20)
print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left alone")
def test_freed_memory_is_not_fetched_again_page_by_page() -> None:
    result = subprocess.run(
        [sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True
    )
    before, after = map(int, result.stdout.split())
    assert after < before / 10
