"""Kernels over tiles of scores: attention forward and backward.

Input: a `Scores` step.  Output: its function.  A program keeps some rows of the scores and walks
over the columns, or the other way round; each tile is made by products of operands, the family's
own point by point members are printed on it, and it is reduced along its rows or multiplied at
once.  A value of a row that a later one needs takes a walk of its own, except for the softmax: its
maximum, its sum and the products of its weights are found in one walk, in which what was added up
is rescaled whenever the maximum grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stax.backends.triton.emit import NestEmitter
from stax.backends.triton.handler import NO_AXES, Axis, Scope, TValue, literal
from stax.backends.triton.kernel import NARROW, KernelSource, Operand
from stax.backends.triton.merging import Merge
from stax.backends.triton.scores import Consumed, Family, Pointwise, Produced, RowValue, Scores
from stax.backends.triton.templates import LEAST, TUNED_FLOPS
from stax.backends.triton.tiling import Tiling, power
from stax.dtypes import DType
from stax.loops.monoids import MONOIDS
from stax.loops.scalar_ops import compute_dtype, is_half
from stax.loops.symbolic import Expr
from stax.schedule.kernel import Kernel, Member, Role

Output = Consumed | RowValue


@dataclass(frozen=True)
class Tile:
    """Rows and columns of a tile, warps and stages."""

    rows: int
    columns: int
    warps: int
    stages: int


# By bytes of an element; the first row whose width holds the longest contraction or result.
TILES: dict[int, tuple[tuple[int, tuple[Tile, ...]], ...]] = {
    2: (
        (64, (Tile(128, 64, 4, 3), Tile(64, 64, 4, 3), Tile(128, 128, 8, 2))),
        (128, (Tile(64, 64, 4, 2), Tile(128, 64, 8, 2), Tile(64, 32, 4, 2))),
        (256, (Tile(64, 32, 8, 2), Tile(32, 32, 4, 2))),
    ),
    4: (
        (64, (Tile(64, 32, 8, 2), Tile(32, 32, 8, 2), Tile(32, 16, 4, 2))),
        (128, (Tile(32, 32, 8, 2), Tile(32, 16, 8, 2), Tile(16, 16, 4, 2))),
        (256, (Tile(16, 16, 8, 2), Tile(16, 16, 4, 2))),
    ),
    8: ((64, (Tile(32, 16, 8, 2),)), (256, (Tile(16, 16, 8, 2),))),
}


def tiles_for(itemsize: int, width: int) -> tuple[Tile, ...]:
    """The choices for elements of a size and the longest contraction or result."""
    return next(found for most, found in TILES[itemsize] if width <= most)


@dataclass(eq=False)
class Softmax:
    """A maximum of rows, the sum of exponentials that goes with it, and products of the weights."""

    largest: RowValue
    total: RowValue
    products: list[Consumed] = field(default_factory=list)


class Terms:
    """What members compute, as numbers that are equal for equal expressions.

    Tiles are followed to their makers; roundings to the half types are looked through.
    """

    def __init__(self, family: Family) -> None:
        self.family = family
        self.numbers: dict[Any, int] = {}
        self.keys: list[Any] = []
        self.stored: dict[str, int] = {}
        for op in family.ops:
            if isinstance(op, Pointwise):
                for name, value in self.of(op.member).items():
                    self.stored[name] = value
            elif isinstance(op, Produced):
                self.stored[op.buffer] = self.number(("product", op.buffer))

    def number(self, key: Any) -> int:
        """The number of an expression."""
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.keys)
            self.keys.append(key)
        return found

    def of(self, member: Member) -> dict[str, int]:
        """What a member stores, by buffer; the number of what it reduces under "reduction"."""
        known: list[int] = []
        found: dict[str, int] = {}
        for op, args, dtype, attrs in member.body.instrs:
            given = tuple(known[a] for a in args)
            if op == "load" and attrs[0] in self.stored:
                known.append(self.stored[attrs[0]])
            elif op in ("load", "index_expr"):
                place = member.indexes[attrs[0 if op == "index_expr" else 1]]
                known.append(self.number((op, attrs[0] if op == "load" else dtype, place, given)))
            elif op == "cast" and dtype.kind == "f":
                known.append(given[0])
            elif op == "constant":
                known.append(self.number((op, repr(attrs[0]), dtype)))
            elif op == "store":
                found[attrs[0]] = given[0]
                known.append(given[0])
            else:
                if op == "reduction":
                    found["reduction"] = given[0]
                known.append(self.number((op, given, attrs)))
        return found

    def reads_value(self, number: int, value: RowValue) -> bool:
        """Whether an expression is the value of a row, as it is stored."""
        key = self.keys[number]
        return bool(key[0] == "load" and key[1] in value.member.writes)

    def is_exponential(self, number: int, scores: int, largest: RowValue) -> bool:
        """Whether an expression is exp(scores - largest)."""
        key = self.keys[number]
        if key[0] != "exp":
            return False
        inner = self.keys[key[1][0]]
        return bool(
            inner[0] == "sub" and inner[1][0] == scores and self.reads_value(inner[1][1], largest)
        )


def softmaxes(step: Scores) -> list[Softmax]:
    """The softmaxes whose maximum and sum are both outputs of a step."""
    terms = Terms(step.family)
    values = [o for o in step.outputs if isinstance(o, RowValue) and o.member.role is Role.ROW]
    found: list[Softmax] = []
    for largest in values:
        if _monoid(largest) != "max":
            continue
        scores = terms.of(largest.member)["reduction"]
        for total in values:
            if _monoid(total) != "sum":
                continue
            summed = terms.of(total.member)["reduction"]
            if not terms.is_exponential(summed, scores, largest):
                continue
            made = Softmax(largest, total)
            for out in step.outputs:
                if isinstance(out, Consumed):
                    key = terms.keys[terms.stored[out.tiles]]
                    if key[0] == "div" and key[1][0] == summed:
                        if terms.reads_value(key[1][1], total):
                            made.products.append(out)
            found.append(made)
            break
    return found


def _monoid(value: RowValue) -> str:
    body = value.member.body
    name: str = body.instrs[body.split_point].attrs[0]
    return name


class ScoresEmitter(NestEmitter):
    """Prints one kernel over tiles of scores."""

    def __init__(
        self,
        step: Scores,
        dtypes: Mapping[str, DType],
        escapes: Callable[[str], bool],
        shrink: int = 0,
        use: Tile | None = None,
        precision: str = "ieee",
    ) -> None:
        self.step, self.family, self.precision = step, step.family, precision
        self.given = escapes
        self.ops = step.ops
        self.softmax = softmaxes(step) if step.by_rows else []
        self.rescale: dict[int, str] = {}  # the factor each maximum asks for, by identity
        kernel = Kernel(step.name, self.family.space, self.family.cuts[1])
        for op in self.ops:
            if isinstance(op, Pointwise | RowValue):
                kernel.add(op.member)
        widths = [o.inner for o in self.ops if isinstance(o, Produced)]
        widths += [o.width for o in self.ops if isinstance(o, Consumed)]
        operands = [o.left.buffer for o in self.ops if isinstance(o, Produced)]
        self.choices = tiles_for(max(dtypes[n].itemsize for n in operands), max(widths))
        chosen = use or self.choices[0]
        _, m, n = self.family.shape
        self.tile = Tile(
            max(LEAST, min(chosen.rows, power(m)) >> shrink),
            max(LEAST, min(chosen.columns, power(n)) >> shrink),
            chosen.warps,
            chosen.stages,
        )
        super().__init__(kernel, dtypes, self._leaves, shrink)
        for s in self.symbols[: self.family.cuts[0]]:
            self.emitter.axes_of[s] = NO_AXES

    def _leaves(self, name: str) -> bool:
        return name not in self.family.tiles and self.given(name)

    def divided(self, kernel: Kernel) -> tuple[tuple[int, ...], int | None, list[tuple[Expr, ...]]]:
        return kernel.space, kernel.split, [m.indexes for m in kernel.members]

    def _parameters(self) -> tuple[tuple[str, ...], frozenset[str]]:
        written = [n for n in self.step.writes if self.escapes(n)]
        written += [o.buffer for o in self.step.outputs if isinstance(o, Consumed)]
        return tuple(dict.fromkeys((*self.step.reads, *written))), frozenset(written)

    def choose(self) -> Tiling:
        _, m, n = self.family.shape
        batch, rows = self.family.cuts
        by_rows = self.step.by_rows
        axes = (
            Axis("y", m, self.tile.rows, not by_rows),
            Axis("x", n, self.tile.columns, by_rows),
        )
        groups = (tuple(range(batch, rows)), tuple(range(rows, len(self.family.space))))
        return Tiling(axes, groups, self.tile.warps)

    def _is_wide(self) -> bool:
        b, m, n = self.family.shape
        reach = 0
        for op in self.ops:
            views: list[tuple[Operand, tuple[int, int, int]]] = []
            if isinstance(op, Produced):
                views = [(op.left, (b, m, op.inner)), (op.right, (b, op.inner, n))]
            elif isinstance(op, Consumed):
                sides = (n, m) if op.over_columns else (m, n)
                views = [
                    (op.other, (b, sides[0], op.width)),
                    (op.result, (b, sides[1], op.width)),
                ]
            reach = max([reach, *(view.reach(shape) for view, shape in views)])
        for member in self.kernel.members:
            for i in member.body.instrs:
                if i.op in ("load", "store") and i.attrs[0] not in self.family.tiles:
                    e = self.at(member)[i.attrs[1]]
                    reach = max(reach, int(e.hi), -int(e.lo))
        return reach >= NARROW

    @property
    def grid(self) -> int:
        """The number of programs."""
        axis = self.tiling.axes[0 if self.step.by_rows else 1]
        return self.family.shape[0] * -(-axis.extent // axis.block)

    @property
    def reduced(self) -> int:
        """The axis that reductions run over: the columns."""
        return 1

    # ------------------------------------------------------------------ the order of walks

    def walks(self) -> list[list[Output]]:
        """The outputs found in each walk over the tiles, in order."""
        made: dict[str, RowValue] = {}
        for out in self.step.outputs:
            if isinstance(out, RowValue):
                made.update(dict.fromkeys(out.member.writes, out))
        together = {id(o): s for s in self.softmax for o in (s.total, *s.products)}
        known: dict[int, int] = {}  # the walk after which an output is known

        def walk_of(out: Output) -> int:
            found = known.get(id(out))
            if found is None:
                softmax = together.get(id(out))
                if softmax is not None:
                    found = walk_of(softmax.largest)
                else:
                    reads = {
                        a.buffer
                        for op in self.family.needed(out)
                        if isinstance(op, Pointwise | RowValue)
                        for a in op.member.body.reads
                    }
                    before = [walk_of(made[n]) for n in reads if n in made and made[n] is not out]
                    found = max(before, default=-1)
                    if isinstance(out, Consumed) or out.member.role is Role.ROW:
                        found += 1
                known[id(out)] = found
            return found

        outputs = [o for o in self.ops if isinstance(o, Consumed | RowValue)]
        outputs = [o for o in outputs if any(o is out for out in self.step.outputs)]
        last = max(map(walk_of, outputs))
        return [[o for o in outputs if walk_of(o) == k] for k in range(-1, last + 1)]

    # ------------------------------------------------------------------ printing

    def run(self) -> list[KernelSource]:
        for outputs in self.walks():
            self._walk(outputs)
        lines = self.emitter.outer.lines
        head = self._head("\n".join(lines))
        variants = self._variants if self._work() >= TUNED_FLOPS else None
        made = self.source(self.step.name, head, lines, again=self._shrunk, variants=variants)
        return [replace(made, stages=self.tile.stages)]

    def _work(self) -> int:
        """Floating-point operations of the products."""
        widths = [o.inner for o in self.ops if isinstance(o, Produced)]
        widths += [o.width for o in self.ops if isinstance(o, Consumed)]
        return 2 * math.prod(self.family.shape) * sum(widths)

    def _copy(self, **changes: Any) -> KernelSource:
        given = {"precision": self.precision, **changes}
        return ScoresEmitter(self.step, self.dtypes, self.given, **given).run()[0]

    def _shrunk(self, shrink: int) -> KernelSource:
        return self._copy(shrink=shrink)

    def _variants(self) -> list[KernelSource]:
        return [self._copy(use=tile) for tile in self.choices[1:]]

    def _head(self, text: str) -> list[str]:
        """The program's batch and its kept rows or columns."""
        k = 0 if self.step.by_rows else 1
        axis = self.tiling.axes[k]
        count = -(-axis.extent // axis.block)
        lines = [
            "pid = tl.program_id(0)",
            f"batch = (pid // {count}){'.to(tl.int64)' if self.wide else ''}",
        ]
        stride = self.family.shape[0]
        for s, n in zip(self.symbols[: self.family.cuts[0]], self.family.space, strict=False):
            stride //= n
            lines.append(f"{self.name_of(s)} = batch // {stride} % {n}")
        return lines + self._axis(k, f"pid % {count} * {axis.block} + ", text)

    def _axis(self, k: int, start: str, text: str) -> list[str]:
        axis = self.tiling.axes[k]
        lines = self.axis_lines(k, start, text)
        if k == 1:
            wide = ".to(tl.int64)" if self.wide else ""
            lines.append(f"down = ({start}tl.arange(0, {axis.block}){wide})[:, None]")
        return lines

    def _walk(self, outputs: Sequence[Output]) -> None:
        """One walk over the tiles, and what is known after it."""
        emitter = self.emitter
        emitter.inner = Scope()
        for name in self.family.tiles:
            emitter.forwarded.pop(name, None)
        wanted = {id(o) for out in outputs for o in self.family.needed(out)}
        declared: list[str] = []
        finish: list[Callable[[], None]] = []
        walked = False
        for op in self.ops:
            if id(op) not in wanted:
                continue
            if isinstance(op, Produced):
                self._produce(op)
            elif isinstance(op, Pointwise):
                self._emit(op.member)
            elif isinstance(op, Consumed):
                finish.append(self._consume(op, declared))
            elif op.member.role is Role.ROW:
                finish.append(self._reduce(op, declared))
            else:
                finish.append(lambda op=op: self._emit(op.member))  # type: ignore[misc]  # bound
                continue
            walked = True
        if walked:
            looped = 1 if self.step.by_rows else 0
            axis = self.tiling.axes[looped]
            inner = emitter.inner.lines
            head = self._axis(looped, f"{axis.name}start + ", "\n".join(inner))
            emitter.outer.lines += [
                *declared,
                f"for {axis.name}start in range(0, {axis.extent}, {axis.block}):",
                *("    " + line for line in (*head, *inner)),
            ]
        for done in finish:
            done()

    def _view(self, operand: Operand, axis: int, width: int, down: bool) -> str:
        """A block of an operand: `axis` of the tile along its rows, `width` across."""
        own = self.tiling.axes[axis]
        pointer = f"p{self.parameters.index(operand.buffer)}"
        _, along, across = operand.strides
        block = max(LEAST, power(width))
        other = f"tl.arange(0, {block})[{'None, :' if down else ':, None'}]"
        place = ("down" if axis else "y") if down else "x"
        text = f"{pointer} + ({operand.start('batch')} + {place} * {along}"
        text += f" + {other} * {across})"
        masks = [f"({place} < {own.extent})"] if own.ragged else []
        masks += [f"({other} < {width})"] if block != width else []
        return text + (f", mask={' & '.join(masks)}" if masks else "")

    def _block(self, operand: Operand, axis: int, width: int, down: bool) -> str:
        text = self._view(operand, axis, width, down)
        text = f"tl.load({text}{', other=0' if 'mask=' in text else ''})"
        dtype = self.dtypes[operand.buffer]
        return self.emitter.define(("block", text), text, dtype, frozenset((axis,))).text

    def _dot(self, left: str, right: str, dtype: DType) -> str:
        kind = "tl.float64" if dtype.itemsize == 8 else "tl.float32"
        return f'tl.dot({left}, {right}, input_precision="{self.precision}", out_dtype={kind})'

    def _produce(self, op: Produced) -> None:
        """A tile of a product."""
        emitter, dtype = self.emitter, self.dtypes[op.buffer]
        left = self._block(op.left, 0, op.inner, True)
        right = self._block(op.right.turned, 1, op.inner, False)
        text = self._dot(left, right, dtype)
        if is_half(dtype):
            text += f".to(tl.{dtype.name}).to(tl.float32)"
        every = frozenset((0, 1))
        value = emitter.define(("product", op.buffer), text, compute_dtype(dtype), every)
        emitter.forwarded[op.buffer] = value

    def _consume(self, op: Consumed, declared: list[str]) -> Callable[[], None]:
        """Add the product of a tile to what was found before; what stores it in the end."""
        emitter = self.emitter
        softmax = next((s for s in self.softmax if any(op is p for p in s.products)), None)
        kept, contracted = (0, 1) if op.over_columns else (1, 0)
        tile, dtype = emitter.forwarded[op.tiles], self.dtypes[op.tiles]
        text = emitter.whole(tile)
        if self.tiling.axes[contracted].ragged:
            text = f"tl.where({self.tiling.axes[contracted].mask}, {text}, 0.0)"
        if is_half(dtype):
            text = f"({text}).to(tl.{dtype.name})"
        text = text if op.over_columns else f"tl.trans({text})"
        other = self._block(op.other, contracted, op.width, True)
        acc = emitter.fresh("acc")
        rows, block = self.tiling.axes[kept].block, max(LEAST, power(op.width))
        wide = "tl.float64" if self.dtypes[op.other.buffer].itemsize == 8 else "tl.float32"
        declared.append(f"{acc} = tl.full(({rows}, {block}), 0, {wide})")
        before = acc if softmax is None else f"{acc} * {self.rescale[id(softmax)]}"
        product = self._dot(text, other, self.dtypes[op.other.buffer])
        emitter.inner.lines.append(f"{acc} = {before} + {product}")

        def finish() -> None:
            """Store the result."""
            total = acc
            if softmax is not None:
                total = f"({acc} / {emitter.forwarded[softmax.total.member.writes[0]].text})"
            view = self._view(op.result, kept, op.width, True)
            place, _, mask = view.partition(", mask=")
            tail = f", mask={mask}" if mask else ""
            out = f"{total}.to(tl.{self.dtypes[op.buffer].name})"
            emitter.outer.lines.append(f"tl.store({place}, {out}{tail})")

        return finish

    def _reduce(self, op: RowValue, declared: list[str]) -> Callable[[], None]:
        """Merge the rows of a tile into what was found before; what is done with it in the end."""
        emitter, member = self.emitter, op.member
        instrs, position = member.body.instrs, member.body.split_point
        merge = self.merge(Merge(MONOIDS[instrs[position].attrs[0]], instrs[position].dtype))
        emitter.bound = {}
        values: dict[int, TValue] = {}
        emitter.emit(instrs, self.at(member), values, 0, position)
        mask = emitter.masks((1,))
        elements = []
        for n, argument in enumerate(instrs[position].args):
            value = values[argument]
            text = emitter.whole(TValue(merge.enter(value.text, n), value.dtype, value.axes))
            if mask:
                text = f"tl.where({mask}, {text}, {merge.identity(n)})"
            elements.append(emitter.fresh("e"))
            emitter.inner.lines.append(f"{elements[-1]} = {text}")
        names = [emitter.fresh("a") for _ in elements]
        parts = [emitter.fresh("t") for _ in elements]
        rows = self.tiling.axes[0].block
        for n, name in enumerate(names):
            kind = f"tl.{merge.held[n].name}"
            declared.append(f"{name} = tl.full(({rows}, 1), {merge.identity(n)}, {kind})")
        given = elements[0] if len(elements) == 1 else f"({', '.join(elements)})"
        lines = emitter.inner.lines
        lines.append(f"{', '.join(parts)} = tl.reduce({given}, 1, {merge.name})")
        lines += [f"{p} = tl.expand_dims({p}, 1)" for p in parts]
        softmax = next((s for s in self.softmax if op in (s.largest, s.total)), None)
        every, rows_only = frozenset((0, 1)), frozenset((0,))
        dtype = merge.dtypes[0]
        if softmax is not None and op is softmax.largest:
            # A tile without any score has -inf, from which nothing may be taken.
            top, shift, scale = (emitter.fresh("v") for _ in range(3))
            lines += [
                f"{top} = {merge.call(names, parts)}",
                f'{shift} = tl.where({top} == float("-inf"), 0.0, {top})',
                f"{scale} = tl.exp({names[0]} - {shift})",
                f"{names[0]} = {top}",
            ]
            self.rescale[id(softmax)] = scale
            emitter.forwarded[member.writes[0]] = TValue(shift, dtype, every)
        elif softmax is not None:
            lines.append(f"{names[0]} = {names[0]} * {self.rescale[id(softmax)]} + {parts[0]}")
            # Weights are divided by the sum when it is known.
            one = emitter.define(("constant", "1.0", dtype), literal(1.0, dtype), dtype, NO_AXES)
            emitter.forwarded[member.writes[0]] = one
        else:
            lines.append(f"{', '.join(names)} = {merge.call(names, parts)}")

        def finish() -> None:
            """The instructions behind the reduction."""
            emitter.forwarded.pop(member.writes[0], None)
            emitter.bound = {}
            found: dict[int, TValue] = {}
            for n in range(position, len(instrs)):
                if instrs[n].op == "project":
                    k = instrs[n].attrs[0]
                    text = merge.leave(names[k], k)
                    name = emitter.fresh()
                    emitter.outer.lines.append(f"{name} = {text}")
                    found[n] = TValue(name, merge.dtypes[k], rows_only)
                elif instrs[n].op != "reduction":
                    emitter.emit(instrs, self.at(member), found, n, n + 1)

        return finish
