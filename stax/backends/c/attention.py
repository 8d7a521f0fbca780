"""A family of steps over scores as one C function: all of its stages on one block after another.

Input: an `Attention`, the dtypes of buffers and which of them are read outside it.  Output: the
function, and the working memory it needs.  Units of work, a batch or a piece of its rows, are dealt
to threads; each thread has blocks and packed operands of its own.  What a product adds up over rows
is added in the order of the rows and of the pieces, so the bits do not depend on the threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stax.backends.c.division import declared
from stax.backends.c.frame import PARALLEL_NANOSECONDS, KernelSource
from stax.backends.c.vecmath import with_calls
from stax.dtypes import DType
from stax.loops.scalar_ops import c_type, type_tag
from stax.schedule.attention import LINE, PARTS, Attention, Made, Used, View
from stax.schedule.kernel import Kernel
from stax.schedule.memory import aligned

Limits = dict[str, list[str]]  # of a buffer, statements that give the columns `upto` of a `row`
StageLines = Callable[[Kernel, Callable[[str], bool]], tuple[list[str], list[str], Limits]]
FLOPS_A_NANOSECOND = 100


class _Work:
    """Where the working memory of a kernel lies: that of each thread, and what units share."""

    def __init__(self, kernel: Attention, dtypes: Mapping[str, DType]) -> None:
        first = next(s for s in kernel.stages if isinstance(s, Made))
        self.dtype = dtypes[first.buffer]
        size = self.dtype.itemsize
        n = kernel.shape[2]
        self.own = self.shared = 0
        self.slots = [self._take(kernel.block * n * size) for _ in {*kernel.tiles.values()}]
        self.panels: dict[tuple[View, int], int] = {}  # of whole operands
        self.blocks: dict[int, int] = {}  # of rows of an operand, by stage
        self.results: dict[int, int] = {}  # what a stage adds up, or turns
        for k, stage in enumerate(kernel.stages):
            if isinstance(stage, Made):
                self._pack(stage.right, stage.inner, n, size)
            elif isinstance(stage, Used) and not stage.by_rows:
                self._pack(stage.other, n, stage.width, size)
                if stage.turned:
                    self.results[k] = self._take(kernel.block * stage.width * size)
            elif isinstance(stage, Used):
                self.blocks[k] = self._take(kernel.block * _padded(stage.width, size) * size)
                if kernel.pieces == 1 and stage.turned:
                    self.results[k] = self._take(n * stage.width * size)
        self.parts = min(PARTS, kernel.units)
        for k, stage in enumerate(kernel.stages):
            if isinstance(stage, Used) and stage.by_rows and kernel.pieces > 1:
                self.results[k] = self.own * self.parts + self.shared
                self.shared += aligned(kernel.units * n * stage.width * size)

    def _take(self, nbytes: int) -> int:
        offset = self.own
        self.own += aligned(nbytes)
        return offset

    def _pack(self, view: View, k: int, n: int, size: int) -> None:
        if (view, n) not in self.panels:
            self.panels[view, n] = self._take(k * _padded(n, size) * size)

    @property
    def nbytes(self) -> int:
        return self.own * self.parts + self.shared


def _padded(columns: int, size: int) -> int:
    """Columns with those that fill up the last panel."""
    lanes = LINE // size
    return -(-columns // lanes) * lanes


def workspace(kernel: Attention, dtypes: Mapping[str, DType]) -> int:
    """The bytes of working memory of the kernel's function."""
    return _Work(kernel, dtypes).nbytes


class AttentionEmitter:
    """Prints one kernel."""

    def __init__(
        self, kernel: Attention, dtypes: Mapping[str, DType], stage_lines: StageLines
    ) -> None:
        self.kernel, self.dtypes, self.stage_lines = kernel, dtypes, stage_lines
        self.work = _Work(kernel, dtypes)
        self.names = list(dict.fromkeys((*kernel.takes, *kernel.makes)))
        self.pointers = {n: f"g{k}" for k, n in enumerate(self.names)}
        self.ct = c_type(self.work.dtype)

    def run(self) -> KernelSource:
        """The C function."""
        kernel, work = self.kernel, self.work
        written = {*kernel.makes}
        kinds = [f"{'' if x in written else 'const '}{c_type(self.dtypes[x])}" for x in self.names]
        nanoseconds = kernel.flops / FLOPS_A_NANOSECOND
        parallel = kernel.units > 1 and nanoseconds > PARALLEL_NANOSECONDS
        threads = f"threads < {work.parts} ? threads : {work.parts}" if parallel else "1"
        own = ["{", *("    " + s for s in self._unit()), "}"]
        lines = [
            f"int32_t (*pack)(int64_t, int64_t, const {self.ct} *, int64_t, int64_t, {self.ct} *)"
            " = packing;",
            f"void (*multiply)(int64_t, int64_t, int64_t, const {self.ct} *, int64_t, int64_t, "
            f"const {self.ct} *, int64_t, {self.ct} *, int64_t, int32_t) = multiplying;",
            f"int64_t (*reach)(int64_t, int64_t, const {self.ct} *, int64_t) = reaching;",
            *(f"{kind} *g{k} = p{k};" for k, kind in enumerate(kinds)),
            f"int64_t parts = {threads}, next = 0;",
        ]
        if parallel:
            lines.append(
                "#pragma omp parallel for num_threads(parts) if(parallel: parts > 1) "
                "schedule(static, 1)"
            )
        lines += [
            "for (int64_t part = 0; part < parts; part++) {",
            f"    char *own = work + part * {work.own};",
            "    for (;;) {",
            "        int64_t unit = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);",
            f"        if (unit >= {kernel.units}) break;",
            *("        " + s for s in own),
            "    }",
            "}",
            *self._merged(),
        ]
        text = "\n".join(["    int bad = 0;", *("    " + s for s in lines), "    return bad;"])
        arguments = [f"{kind} *restrict p{k}" for k, kind in enumerate(kinds)]
        arguments += ["char *restrict work", "int threads", "void *packing"]
        arguments += ["void *multiplying", "void *reaching"]
        tag = type_tag(work.dtype)
        return KernelSource(
            kernel.name,
            self.names,
            written,
            ", ".join(arguments),
            with_calls(text, loops=True),
            [],
            work.nbytes,
            parallel,
            routines=(f"panels_{tag}", f"tiles_{tag}", f"reach_{tag}"),
        )

    def _unit(self) -> list[str]:
        """The statements of a unit: operands are packed, then block after block is worked on."""
        kernel = self.kernel
        _, m, _ = kernel.shape
        lines = [f"int64_t batch = unit / {kernel.pieces};"]
        if kernel.pieces > 1:
            lines += [
                f"int64_t start = unit % {kernel.pieces} * {kernel.piece};",
                f"int64_t stop = start + {kernel.piece} < {m} ? start + {kernel.piece} : {m};",
            ]
        else:
            lines.append(f"int64_t start = 0, stop = {m};")
        lines += self._packed()
        blocks, after = [], []
        visible = {*kernel.tiles, *kernel.makes}.__contains__
        printed = {
            k: self.stage_lines(stage, visible)
            for k, stage in enumerate(kernel.stages)
            if not isinstance(stage, Made | Used)
        }
        for k, stage in enumerate(kernel.stages):
            if isinstance(stage, Made):
                blocks += self._made(stage, list(printed.values()))
            elif isinstance(stage, Used):
                blocks += self._used(k, stage)
                after += self._turned(k, stage)
            else:
                blocks += self._rows(*printed[k][:2])
        lines += [
            f"for (int64_t a = start; a < stop; a += {kernel.block}) {{",
            f"    int64_t rows = a + {kernel.block} < stop ? {kernel.block} : stop - a;",
            *("    " + s for s in blocks),
            "}",
            *after,
        ]
        return lines

    # ------------------------------------------------------------------------- products

    def _at(self, view: View, row: str = "") -> str:
        """The address of a view's matrix of the present batch, or of one of its rows."""
        terms = [self.pointers[view.buffer]]
        if view.offset:
            terms.append(str(view.offset))
        inner = self.kernel.shape[0]
        for extent, stride in view.batches:
            outer, inner = inner, inner // extent
            place = f"batch / {inner}" if inner > 1 else "batch"
            if outer < self.kernel.shape[0]:
                place = f"{place} % {extent}"
            terms.append(f"{place} * {stride}")
        if row:
            terms.append(f"{row} * {view.rows}")
        return " + ".join(terms)

    def _own(self, offset: int) -> str:
        return f"({self.ct} *)(own + {offset})"

    def _packed(self) -> list[str]:
        """The operands that all blocks share."""
        extents: dict[tuple[View, int], int] = {}
        for stage in self.kernel.stages:
            if isinstance(stage, Made):
                extents.setdefault((stage.right, self.kernel.shape[2]), stage.inner)
            elif isinstance(stage, Used) and not stage.by_rows:
                extents.setdefault((stage.other, stage.width), self.kernel.shape[2])
        return [
            f"int32_t finite{self.work.panels[view, n]} = pack({k}, {n}, {self._at(view)}, "
            f"{view.rows}, {view.columns}, {self._own(self.work.panels[view, n])});"
            for (view, n), k in extents.items()
        ]

    def _scores(self, name: str) -> str:
        """The address of the present rows of scores."""
        slot = self.kernel.tiles.get(name)
        if slot is not None:
            return self._own(self.work.slots[slot])
        _, m, n = self.kernel.shape
        return f"{self.pointers[name]} + (batch * {m} + a) * {n}"

    def _made(
        self, stage: Made, printed: Sequence[tuple[list[str], list[str], Limits]]
    ) -> list[str]:
        """The product, up to the last column that a step reads of the last row."""
        _, m, n = self.kernel.shape
        name, left = stage.buffer, stage.left
        limits = [limit.get(name, []) for names, _, limit in printed if name in names]
        contracted = any(isinstance(s, Used) and s.scores == name for s in self.kernel.stages)
        alike = bool(limits) and all(limit == limits[0] != [] for limit in limits)
        upto = alike and not contracted and name in self.kernel.tiles
        product = (
            f"multiply(rows, {'upto' if upto else n}, {stage.inner}, {self._at(left, 'a')}, "
            f"{left.rows}, {left.columns}, {self._own(self.work.panels[stage.right, n])}, "
            f"{stage.inner}, {self._scores(name)}, {n}, 0);"
        )
        if not upto:
            return [product]
        last = f"int64_t row = batch * {m} + a + rows - 1;"
        return ["{", *("    " + s for s in (last, *limits[0], product)), "}"]

    def _used(self, k: int, stage: Used) -> list[str]:
        _, m, n = self.kernel.shape
        width, scores = stage.width, self._scores(stage.scores)
        if stage.by_rows:
            block, other = self._own(self.work.blocks[k]), stage.other
            return [
                "{",
                f"    int64_t upto = {n};",
                f"    if (pack(rows, {width}, {self._at(other, 'a')}, {other.rows}, "
                f"{other.columns}, {block}))",
                f"        upto = reach(rows, {n}, {scores}, {n});",
                f"    {self.ct} *sum = {self._sum(k, stage)};",
                f"    multiply(upto, {width}, rows, {scores}, 1, {n}, {block}, rows, sum, {width}, "
                "a > start);",
                f"    if (a == start) for (int64_t j = upto * {width}; j < {n * width}; j++) "
                "sum[j] = 0;",
                "}",
            ]
        place = self.work.panels[stage.other, width]
        result = self.pointers[stage.buffer]
        to = f"{result} + (batch * {m} + a) * {width}"
        turned = self._own(self.work.results[k]) if stage.turned else ""
        lines = [
            f"multiply(rows, {width}, finite{place} ? reach(rows, {n}, {scores}, {n}) : {n}, "
            f"{scores}, {n}, 1, {self._own(place)}, {n}, {turned or to}, {width}, 0);"
        ]
        if not stage.turned:
            return lines
        return [
            *lines,
            *self._transposed(f"{result} + batch * {m * width} + a", m, turned, "rows", width),
        ]

    def _sum(self, k: int, stage: Used) -> str:
        """Where the present unit adds up a product over rows."""
        n = self.kernel.shape[2]
        if self.kernel.pieces > 1:
            return f"({self.ct} *)(work + {self.work.results[k]}) + unit * {n * stage.width}"
        if stage.turned:
            return self._own(self.work.results[k])
        return f"{self.pointers[stage.buffer]} + batch * {n * stage.width}"

    def _turned(self, k: int, stage: Used) -> list[str]:
        """A finished sum is turned."""
        if not (stage.by_rows and stage.turned and self.kernel.pieces == 1):
            return []
        n = self.kernel.shape[2]
        result = f"{self.pointers[stage.buffer]} + batch * {n * stage.width}"
        return self._transposed(result, n, self._own(self.work.results[k]), str(n), stage.width)

    def _transposed(self, to: str, step: int, source: str, rows: str, width: int) -> list[str]:
        return [
            "{",
            f"    {self.ct} *to = {to}, *from = {source};",
            f"    for (int64_t j = 0; j < {width}; j++)",
            f"        for (int64_t i = 0; i < {rows}; i++) to[j * {step} + i] = "
            f"from[i * {width} + j];",
            "}",
        ]

    def _merged(self) -> list[str]:
        """What pieces have added up is added, in order."""
        b, _, n = self.kernel.shape
        pieces, lines = self.kernel.pieces, []
        for k, stage in enumerate(self.kernel.stages):
            if not (isinstance(stage, Used) and stage.by_rows and pieces > 1):
                continue
            size = n * stage.width
            place = f"(j % {stage.width}) * {n} + j / {stage.width}" if stage.turned else "j"
            lines += [
                f"for (int64_t batch = 0; batch < {b}; batch++) {{",
                f"    {self.ct} *from = ({self.ct} *)(work + {self.work.results[k]}) "
                f"+ batch * {pieces * size};",
                f"    {self.ct} *to = {self.pointers[stage.buffer]} + batch * {size};",
                f"    for (int64_t j = 0; j < {size}; j++) {{",
                f"        {self.ct} sum = from[j];",
                f"        for (int64_t p = 1; p < {pieces}; p++) sum += from[p * {size} + j];",
                f"        to[{place}] = sum;",
                "    }",
                "}",
            ]
        return lines

    # ------------------------------------------------------------------------- rows

    def _rows(self, parameters: list[str], loops: list[str]) -> list[str]:
        """The loops of a stage over the rows of the block, with the pointers that it takes."""
        kernel = self.kernel
        _, m, n = kernel.shape
        lines = ["{", f"    int64_t first = batch * {m} + a, last = first + rows;"]
        lines += ["    " + s for s in declared(loops)]
        for k, name in enumerate(parameters):
            kind = c_type(self.dtypes[name])
            if name in kernel.tiles:
                tile = self._own(self.work.slots[kernel.tiles[name]])
                lines.append(f"    {kind} *restrict p{k} = {tile} - first * {n};")
            else:
                constant = "" if name in kernel.makes else "const "
                lines.append(f"    {constant}{kind} *restrict p{k} = {self.pointers[name]};")
        return [*lines, *("    " + s for s in loops), "}"]
