"""`shard_map` under its former name."""

from stax.transforms.sharding import shard_map

__all__ = ["shard_map"]
