"""A stack of kernels as one C function: all stages on one tile of rows after another.

Input: a stack, the dtypes of buffers and which of them are read outside it.  Output: the function,
with the tiles between the stages in its workspace.  Tiles are dealt out in parts that the shape
alone decides; each part has tiles of its own, so parts can run on different threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stax.backends.c.division import declared
from stax.backends.c.frame import KernelSource
from stax.backends.c.vecmath import with_calls
from stax.dtypes import DType
from stax.loops.scalar_ops import c_type
from stax.schedule.kernel import Kernel
from stax.schedule.stack import PARTS, Stack, Stage

StageLines = Callable[[Kernel], tuple[list[str], list[str]]]


def emit_stack(
    stack: Stack,
    dtypes: Mapping[str, DType],
    stage_lines: StageLines,
) -> KernelSource:
    """The C function of `stack`; `stage_lines(kernel)` are a stage's parameters and statements."""
    names: dict[str, None] = {}
    written = {n for n in stack.writers if n not in stack.between}
    blocks = []
    for stage in stack.stages:
        parameters, lines = stage_lines(stage.kernel)
        names.update((n, None) for n in parameters if n not in stack.between)
        blocks.append((stage, parameters, lines))
    place = {n: k for k, n in enumerate(names)}
    rows, tile = stack.stages[-1].rows, stack.tile
    tiles = -(-rows // tile)
    parts = min(PARTS, tiles)
    own = -(-stack.slot_bytes // 64) * 64
    body = [
        *(
            f"{'' if n in written else 'const '}{c_type(dtypes[n])} *g{k} = p{k};"
            for n, k in place.items()
        ),
        "#pragma omp parallel for num_threads(threads) if(parallel: threads > 1) schedule(static)",
        f"for (int64_t part = 0; part < {parts}; part++) {{",
        f"    char *tiles = work + part * {own * stack.slots};",
        f"    for (int64_t a = {tiles} * part / {parts} * {tile}; "
        f"a < {tiles} * (part + 1) / {parts} * {tile} && a < {rows}; a += {tile}) {{",
        f"        int64_t b = a + {tile} < {rows} ? a + {tile} : {rows};",
    ]
    for stage, parameters, lines in blocks:
        body.append("        {")
        body += ["            " + s for s in _range(stage)]
        for k, name in enumerate(parameters):
            ct = c_type(dtypes[name])
            if name not in stack.between:
                constant = "" if name in written else "const "
                body.append(f"            {constant}{ct} *restrict p{k} = g{place[name]};")
                continue
            b = stack.between[name]
            maker = next(s for s in stack.stages if name in s.kernel.writers)
            first = f"a + {maker.before}" if maker.before >= 0 else f"a - {-maker.before}"
            lowest = f"({first} < 0 ? 0 : {first})"
            body.append(
                f"            {ct} *restrict p{k} = ({ct} *)(tiles + {own * b.slot})"
                f" - ({b.stride} * {lowest} + {b.first});"
            )
        body += ["            " + s for s in (*declared(lines), *lines)]
        body.append("        }")
    body += ["    }", "}"]
    text = "\n".join(["    int bad = 0;", *("    " + s for s in body), "    return bad;"])
    arguments = [
        f"{'' if n in written else 'const '}{c_type(dtypes[n])} *restrict p{k}"
        for n, k in place.items()
    ]
    return KernelSource(
        stack.name,
        list(names),
        written,
        ", ".join([*arguments, "char *restrict work", "int threads"]),
        with_calls(text, loops=True),
        [],
        own * stack.slots * parts,
        True,
    )


def _range(stage: Stage) -> list[str]:
    """The first and the last row that the present tile needs of a stage."""
    return [
        f"int64_t first = a + ({stage.before}), last = b + ({stage.after});",
        "if (first < 0) first = 0;",
        f"if (last > {stage.rows}) last = {stage.rows};",
    ]


def over_rows(lines: list[str], rows: int) -> list[str]:
    """A loop nest whose first loop runs over [first, last) in place of all rows."""
    header = f"for (int64_t x0 = 0; x0 < {rows}; x0++)"
    kept = [s for s in lines if not s.startswith("#pragma omp parallel")]
    assert kept[0].startswith(header), kept[0]
    return [kept[0].replace(header, "for (int64_t x0 = first; x0 < last; x0++)"), *kept[1:]]
