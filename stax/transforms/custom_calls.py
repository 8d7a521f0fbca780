"""How calls of custom_jvp and custom_vjp functions are differentiated and batched, and their rows.

Input: a flat function with its flat rule.  Output: `Call`s for every trace.  The tangents of a
custom_vjp call are one equation, `custom_vjp_pullback`, whose transpose is the user's `bwd`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stax.core.aval import Aval, aval_of
from stax.core.primitive import COMPOSED, Primitive, Recompute, Zero
from stax.core.staging import lift_constants, stage
from stax.core.trace import bind, use_trace
from stax.dtypes import float0
from stax.errors import CustomDerivativeError, NonDifferentiableError
from stax.primitives.views import reduce_sum
from stax.transforms.calls import Call, call_rules, is_zero
from stax.transforms.jvp import instantiate, jvp_flat
from stax.transforms.linearize import LinearizeTrace, PartialTrace, note_foreign
from stax.transforms.transpose import backward_pass
from stax.transforms.vmap import batch_flat, to_axis

Flat = Sequence[Any]


class CustomJVPCall(Call):
    """A call differentiated by `rule(primals, tangents) -> (results, tangents)`, all flat.

    Tangents that are zero by structure arrive, and may be returned, as `Zero`.
    """

    __slots__ = ("rule",)

    def __init__(
        self, fun: Callable[..., Flat], rule: Callable[[Flat, Flat], tuple[Flat, Flat]]
    ) -> None:
        super().__init__(fun)
        self.rule = rule

    def rule_params(self) -> dict[str, Any]:
        """The rule, as parameters of an equation."""
        return {"rule": self.rule}

    def jvp(self, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
        """Results and tangents by the rule."""
        return self.rule(primals, tangents)

    def linearize(self, trace: LinearizeTrace, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
        """Run the rule once: what depends on the tangents is recorded, the rest is computed."""
        with use_trace(PartialTrace(trace)):
            outs, out_tangents = self.rule(primals, tangents)
        # While a recomputation is recorded, its primal values are in the tangent graph too.
        apart = trace.parent is not trace.tangents
        if apart and any(trace.tangents.owns(v) for v in outs):
            raise CustomDerivativeError(
                "the primal result of a custom_jvp rule depends on the tangents",
                hint="the rule must return (f(primals), tangent), the first free of tangents",
            )
        return outs, out_tangents

    def batched(
        self, dims: Sequence[int | None], size: int, axis_name: Any, origin: Any = None
    ) -> Call:
        """The call for a whole batch, with the rule batched alike."""

        def fun(*values: Any) -> list[Any]:
            outs, places = batch_flat(self.fun, values, dims, size, axis_name, origin)
            return [to_axis(v, d, 0, size) for v, d in zip(outs, places, strict=True)]

        def rule(primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
            n = len(primals)
            given = [t for t in tangents if not is_zero(t)]
            places = [d for d, t in zip(dims, tangents, strict=True) if not is_zero(t)]

            def both(*values: Any) -> list[Any]:
                rest = iter(values[n:])
                inner = [
                    Zero(aval_of(v).tangent()) if is_zero(t) else next(rest)
                    for v, t in zip(values, tangents, strict=False)
                ]
                outs, out_tangents = self.rule(values[:n], inner)
                return [*outs, *map(_dense, out_tangents)]

            found, places = batch_flat(
                both, [*primals, *given], [*dims, *places], size, axis_name, origin
            )
            found = [to_axis(v, d, 0, size) for v, d in zip(found, places, strict=True)]
            return found[: len(found) // 2], found[len(found) // 2 :]

        return CustomJVPCall(fun, rule)


CustomJVPCall.prim = Primitive(
    "custom_jvp", lower=COMPOSED, recompute=Recompute.EXPENSIVE, **call_rules(CustomJVPCall)
)


class CustomVJPCall(Call):
    """A call differentiated by `fwd(primals, perturbed) -> (results, residuals)` and
    `bwd(residuals, cotangents) -> cotangents`, all flat; a cotangent may be a `Zero`."""

    __slots__ = ("fwd", "bwd")

    def __init__(
        self,
        fun: Callable[..., Flat],
        fwd: Callable[[Flat, Sequence[bool]], tuple[Flat, Flat]],
        bwd: Callable[[Flat, Flat], Flat],
    ) -> None:
        super().__init__(fun)
        self.fwd = fwd
        self.bwd = bwd

    def rule_params(self) -> dict[str, Any]:
        """The rule, as parameters of an equation."""
        return {"fwd": self.fwd, "bwd": self.bwd}

    def jvp(self, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
        """Forward mode by transposing `bwd`, which is linear in the cotangents."""
        outs, residuals, active, params = self._forward(primals, tangents)
        return outs, bind(pullback_p, *residuals, *active, **params)

    def linearize(self, trace: LinearizeTrace, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
        """Run `fwd`; the tangents are an equation whose transpose is `bwd`."""
        with use_trace(PartialTrace(trace) if trace.again else trace.parent):
            outs, residuals, active, params = self._forward(primals, tangents)
        # `fwd` may hand out arrays that it will write into again.
        note_foreign(trace.tangents, [*outs, *residuals])
        with use_trace(trace.tangents):
            return outs, bind(pullback_p, *residuals, *active, **params)

    def _forward(self, primals: Flat, tangents: Flat) -> tuple[Flat, Flat, Flat, dict[str, Any]]:
        mask = tuple(not is_zero(t) for t in tangents)
        outs, residuals = self.fwd(primals, mask)
        params = {
            "bwd": self.bwd,
            "residuals": len(residuals),
            "mask": mask,
            "in_avals": tuple(aval_of(p) for p in primals),
            "out_avals": tuple(aval_of(v) for v in outs),
        }
        return outs, residuals, [t for t in tangents if not is_zero(t)], params

    def batched(
        self, dims: Sequence[int | None], size: int, axis_name: Any, origin: Any = None
    ) -> Call:
        """The call for a whole batch, with both parts of the rule batched alike."""
        places: list[int | None] = []

        def fun(*values: Any) -> list[Any]:
            outs, found = batch_flat(self.fun, values, dims, size, axis_name, origin)
            return [to_axis(v, d, 0, size) for v, d in zip(outs, found, strict=True)]

        def fwd(values: Flat, perturbed: Sequence[bool]) -> tuple[Flat, Flat]:
            count = 0

            def both(*inner: Any) -> list[Any]:
                nonlocal count
                outs, residuals = self.fwd(inner, perturbed)
                count = len(outs)
                return [*outs, *residuals]

            found, where = batch_flat(both, values, dims, size, axis_name, origin)
            places[:] = where[count:]
            outs = [to_axis(v, d, 0, size) for v, d in zip(found[:count], where, strict=False)]
            return outs, found[count:]

        def bwd(residuals: Flat, cotangents: Flat) -> Flat:
            n = len(residuals)
            given = [c for c in cotangents if not isinstance(c, Zero)]

            def one(*values: Any) -> list[Any]:
                rest = iter(values[n:])
                cts = [_one_zero(c) if isinstance(c, Zero) else next(rest) for c in cotangents]
                return [_dense(c) for c in self.bwd(values[:n], cts)]

            inner = [*places, *([0] * len(given))]
            found, where = batch_flat(one, [*residuals, *given], inner, size, axis_name, origin)
            return [
                _gathered(c, d, want, size) for c, d, want in zip(found, where, dims, strict=True)
            ]

        return CustomVJPCall(fun, fwd, bwd)


def _one_zero(ct: Zero) -> Zero:
    """The zero of one example; results have their batch axis in front."""
    return Zero(ct.aval.update(shape=ct.aval.shape[1:]))


def _dense(ct: Any) -> Any:
    return instantiate(ct) if isinstance(ct, Zero) else ct


def _gathered(ct: Any, have: int | None, want: int | None, size: int) -> Any:
    """The cotangent of an argument batched at `want`; summed when the argument is not batched."""
    if want is not None:
        return to_axis(ct, have, want, size)
    if aval_of(ct).dtype == float0:
        return Zero(Aval(aval_of(ct).shape[(have is not None) :], float0))
    return reduce_sum(to_axis(ct, have, 0, size), [0])


CustomVJPCall.prim = Primitive(
    "custom_vjp", lower=COMPOSED, recompute=Recompute.EXPENSIVE, **call_rules(CustomVJPCall)
)


# The derivative of a custom_vjp call: (residuals, tangents) -> tangents, known by its transpose.


def _pullback_impl(
    *args: Any, bwd: Any, residuals: int, mask: Any, in_avals: Any, out_avals: Any
) -> Any:
    """Apply the derivative forwards, by transposing `bwd`."""
    kept = args[:residuals]
    ct_avals = [a.tangent() for a in out_avals]

    def pull(*cts: Any) -> list[Any]:
        found = bwd(kept, cts)
        return [instantiate(c) for c, m in zip(found, mask, strict=True) if m]

    graph, consts = lift_constants(stage(pull, ct_avals, name="bwd"))
    linear = [False] * len(consts) + [True] * len(ct_avals)
    try:
        tangents = backward_pass(
            graph, linear, [*consts, *([None] * len(ct_avals))], args[residuals:]
        )
    except NonDifferentiableError as error:
        raise NonDifferentiableError(
            "forward-mode differentiation of a custom_vjp function transposes its bwd rule, "
            f"which must be linear in the cotangent: {error}",
            hint="define the function with stax.custom_jvp, which serves both modes",
        ) from None
    return [instantiate(t) for t in tangents]


def _pullback_jvp(primals: Any, outs: Any, tangents: Any, **params: Any) -> Any:
    results, found = jvp_flat(lambda *a: _pullback_impl(*a, **params), primals, tangents)
    return results, found


def _pullback_linearize(trace: LinearizeTrace, primals: Any, tangents: Any, params: Any) -> Any:
    with use_trace(trace):
        results = _pullback_impl(*trace.wrap(primals, tangents), **params)
    return [trace.primal_of(v) for v in results], [trace.tangent_of(v) for v in results]


def _pullback_batch(args: Any, dims: Any, /, *, size: int, axis_name: Any, **params: Any) -> Any:
    return batch_flat(lambda *a: _pullback_impl(*a, **params), args, dims, size, axis_name)


def _pullback_transpose(
    cts: Any, *args: Any, bwd: Any, residuals: int, mask: Any, in_avals: Any, out_avals: Any
) -> Any:
    found = bwd(args[:residuals], cts)
    return [*([None] * residuals), *(c for c, m in zip(found, mask, strict=True) if m)]


pullback_p = Primitive(
    "custom_vjp_pullback",
    family="call",
    abstract_eval=lambda *avals, out_avals, **params: tuple(a.tangent() for a in out_avals),
    impl=_pullback_impl,
    jvp=_pullback_jvp,
    transpose=_pullback_transpose,
    batch=_pullback_batch,
    lower=COMPOSED,
    cost=lambda in_avals, out_avals, params: sum(a.size for a in in_avals),
    recompute=Recompute.EXPENSIVE,
    multi=True,
    linearize=_pullback_linearize,
    decompose=_pullback_impl,
)
