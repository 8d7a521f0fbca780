"""Every benchmark workload lowers for a device, in as many kernels as recorded here at most."""

from __future__ import annotations

import pytest

import stax
from benchmarks.peers.stax_peer import Peer
from benchmarks.workloads import WORKLOADS

# Generated kernels and products of the whole program.
MOST_KERNELS = {
    "a": 1, "b32": 1, "b64": 1, "c": 1, "d": 1, "e_fwd": 1, "e_grad": 3, "f": 1, "g": 1, "h": 1,
    "i": 1, "j": 1, "k_gather": 1, "k_scatter": 3, "l": 3, "m": 1, "n": 5, "o_sgd": 16,
    "o_adam": 16, "p": 7, "q": 83, "r": 27, "s": 24, "t": 2, "u": 7, "v": 17, "w": 5, "x": 1,
    "x_grad": 1, "y16": 49,
}  # fmt: skip


class Lowered(Exception):
    """Carries what was lowered out of the workload."""


class DevicePeer(Peer):
    """stax, but `jit` only lowers for a device."""

    def __init__(self):
        super().__init__(1)
        self.jit = self.lowering

    def lowering(self, f, **options):
        def run(*args):
            raise Lowered(stax.jit(f, **options).lower(*args, device="cuda:sm_90"))

        return run


@pytest.mark.parametrize("name", MOST_KERNELS)
def test_workload_lowers(name):
    peer = DevicePeer()
    with pytest.raises(Lowered) as info:
        peer.build(name)(*WORKLOADS[name].make())
    lowered = info.value.args[0]
    assert lowered.fallbacks == []
    assert "@triton.jit" in lowered.as_text("source")
    launches = len(lowered.source.kernels)
    assert launches <= MOST_KERNELS[name], launches
