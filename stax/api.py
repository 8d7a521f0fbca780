"""The public names of stax, imported together the first time one of them is used.

SciPy's ufuncs on traced values are those of `stax.scipy.special`, which is imported by the first.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as _np

from stax import config, debug, dtypes, errors, lax, numpy, tree, typing
from stax.core import text as _text
from stax.core.graph import Graph
from stax.core.trace import UFUNC_FINDERS as _UFUNC_FINDERS
from stax.dtypes import float0
from stax.errors import *  # noqa: F403 - its __all__ is the list of names
from stax.explain.report import explain, memory_curve
from stax.lax.elementwise import stop_gradient
from stax.numpy.at import at
from stax.placement import (
    block_until_ready,
    default_backend,
    device_count,
    device_get,
    device_put,
    devices,
    effects_barrier,
    local_device_count,
    local_devices,
    process_count,
    process_index,
    typeof,
)
from stax.transforms.callbacks import pure_callback
from stax.transforms.chains import Binomial
from stax.transforms.checkpoint import (
    checkpoint,
    checkpoint_name,
    checkpoint_policies,
    checkpoint_sequential,
    remat,
)
from stax.transforms.compile_time import (
    debug_nans,
    disable_jit,
    ensure_compile_time_eval,
    named_call,
    named_scope,
)
from stax.transforms.custom import closure_convert, custom_gradient, custom_jvp, custom_vjp
from stax.transforms.grad import (
    grad,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linear_transpose,
    linearize,
    value_and_grad,
    vjp,
)
from stax.transforms.inspect import ShapeDtypeStruct, eval_shape, make_ir, make_jaxpr
from stax.transforms.jit import jit
from stax.transforms.joint import JointGraph, joint_graph
from stax.transforms.vmap import vmap
from stax.typing import Array

__all__ = [
    "Array",
    "Binomial",
    "Graph",
    "JointGraph",
    "ShapeDtypeStruct",
    "at",
    "block_until_ready",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "checkpoint_sequential",
    "closure_convert",
    "config",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "debug_nans",
    "default_backend",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "disable_jit",
    "dtypes",
    "effects_barrier",
    "ensure_compile_time_eval",
    "errors",
    "eval_shape",
    "explain",
    "float0",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "joint_graph",
    "jvp",
    "lax",
    "linear_transpose",
    "linearize",
    "local_device_count",
    "local_devices",
    "make_ir",
    "make_jaxpr",
    "memory_curve",
    "named_call",
    "named_scope",
    "numpy",
    "process_count",
    "process_index",
    "pure_callback",
    "remat",
    "stop_gradient",
    "tree",
    "typeof",
    "typing",
    "value_and_grad",
    "vjp",
    "vmap",
]
__all__ += errors.__all__
del _text


def _scipy_ufunc(ufunc: _np.ufunc) -> Callable[..., Any] | None:
    """The traced version of a ufunc of `scipy.special`, None when there is none."""
    name = ufunc.__name__
    if getattr(sys.modules.get("scipy.special"), name, None) is not ufunc:
        return None
    return getattr(import_module("stax.scipy.special"), name, None)


_UFUNC_FINDERS.append(_scipy_ufunc)
