"""Checkpointing under the names of `jax.ad_checkpoint`; see `stax.transforms.checkpoint`."""

from stax.transforms.checkpoint import checkpoint, checkpoint_name, checkpoint_policies, remat

__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies", "remat"]
