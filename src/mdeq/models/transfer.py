"""The backbone of one model as the beginning of another."""

from dataclasses import dataclass

from torch import nn

from mdeq.models.mdeq import MDEQ
from mdeq.models.weights import load_exactly


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """What went from one model to another.

    Attributes:
        loaded: Names of the parameters and buffers that were taken over: stem and f.
        left: Names of those of the other model that were not: its heads.
        fresh: Names of those that begin anew: the model's own heads.
    """

    loaded: list[str]
    left: list[str]
    fresh: list[str]

    def __str__(self) -> str:
        return (
            f"{len(self.loaded)} tensors of stem and f were loaded; {len(self.left)} of its heads "
            f"({_some(self.left)}) were left behind; {len(self.fresh)} of the new heads "
            f"({_some(self.fresh)}) begin anew"
        )


def transfer_backbone(source: nn.Module, target: nn.Module, name: str) -> Transfer:
    """Load stem and f of one model into another of the same architecture, or change nothing."""
    if not isinstance(source, MDEQ) or not isinstance(target, MDEQ):
        raise ValueError("only equilibrium models have a backbone to transfer; leave init out")
    theirs, own = source.config, target.config
    differences = [
        f'--model.{field} "{first}" in place of {second}'
        for field, first, second in (
            ("channels", list(theirs.channels), list(own.channels)),
            ("expansion", theirs.expansion, own.expansion),
            # No shape shows these.
            ("groups", theirs.groups, own.groups),
            ("post_groups", theirs.post_groups or theirs.groups, own.post_groups or own.groups),
            ("upsampling", theirs.upsampling, own.upsampling),
            ("downsamplings", theirs.downsamplings, own.downsamplings),
        )
        if first != second
    ]
    if differences:
        raise ValueError(
            f"the backbone of {name} is of another architecture; expected the same: say "
            + ", ".join(differences)
        )
    backbone = nn.ModuleDict({"stem": target.stem, "f": target.f})
    state = source.state_dict()
    loaded = [key for key in state if not key.startswith("heads.")]
    load_exactly(backbone, {key: state[key] for key in loaded}, f"the backbone of {name}")
    return Transfer(
        loaded=loaded,
        left=[key for key in state if key.startswith("heads.")],
        fresh=[key for key in target.state_dict() if key.startswith("heads.")],
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:2]) + (", ..." if len(names) > 2 else "")
