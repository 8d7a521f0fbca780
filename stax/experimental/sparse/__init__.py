"""Sparse arrays, under the names of `jax.experimental.sparse`; the account is in `bcoo`."""

from stax.experimental.sparse.bcoo import (
    BCOO,
    bcoo_dot_general,
    bcoo_extract,
    bcoo_fromdense,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_sort_indices,
    bcoo_sum_duplicates,
    bcoo_todense,
    bcoo_transpose,
    todense,
)
from stax.experimental.sparse.derivatives import grad, value_and_grad
from stax.experimental.sparse.makers import empty, eye, random_bcoo

__all__ = [
    "BCOO",
    "bcoo_dot_general",
    "bcoo_extract",
    "bcoo_fromdense",
    "bcoo_multiply_dense",
    "bcoo_multiply_sparse",
    "bcoo_reduce_sum",
    "bcoo_reshape",
    "bcoo_sort_indices",
    "bcoo_sum_duplicates",
    "bcoo_todense",
    "bcoo_transpose",
    "empty",
    "eye",
    "grad",
    "random_bcoo",
    "todense",
    "value_and_grad",
]
