from collections.abc import Iterator

import pytest
import torch

from mdeq.solvers import registry

torch.set_num_threads(1)  # two pytest workers share the machine


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> torch.device:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device on this machine")
    return torch.device(request.param)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _own_solvers() -> Iterator[None]:
    """What a test registers is gone after it."""
    before = dict(registry._solvers)
    yield
    registry._solvers.clear()
    registry._solvers.update(before)
