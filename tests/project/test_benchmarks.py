"""The benchmark suite holds together: every workload is defined, tables come out of records."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as entry
from benchmarks import calls, plot, report, shares
from benchmarks.definitions import DEFS
from benchmarks.worker import PEERS, check
from benchmarks.workloads import WORKLOADS


def test_every_workload_has_its_definition() -> None:
    assert set(DEFS) == set(WORKLOADS)
    assert {name.split(".")[-1] for name, _ in PEERS.values()} <= {
        path.stem for path in (Path(report.__file__).parent / "peers").glob("*_peer.py")
    }


def record(peer: str, seconds: float, **more: object) -> dict[str, object]:
    times = {"median_s": seconds, "min_s": seconds, "cpu_min_s": seconds, "first_cpu_s": 0.5}
    return {"workload": "x", "peer": peer, "threads": 1, "tag": "cold1", **times, **more}


def test_tables_from_records(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    rows = [
        record("stax", 1e-6, err=1e-8),
        record("jax", 2e-6),
        {**record("numpy", 1), "error": "no"},
    ]
    results.write_text("".join(json.dumps(row) + "\n" for row in rows))
    records = report.load([results])
    text = report.report(records)
    assert "| x tiny: 3 ops on size 8 |  | **1us (1.00)** | 2us (2.00) |" in text
    assert "- x numpy 1T: no" in text
    assert "- stax: 1.0e-08 (x)" in text
    assert report.compare(records, 1).endswith("ratio 0.50")
    assert plot.ratios(records, 1)["x"]["jax"] == 2.0
    image = xml.etree.ElementTree.fromstring(plot.drawing(plot.ratios(records, 1), 1))
    assert "x: jax 2.00" in {node.text for node in image.iter()}
    assert plot.place(0.01) == plot.place(0.5) < plot.place(1) < plot.place(100) == plot.place(1e9)


def test_a_table_of_calls() -> None:
    mine, others = dict.fromkeys(calls.CASES, 0.123), dict.fromkeys(calls.CASES, 4.5)
    text = calls.table({"stax": mine, "jax": others})
    assert text.startswith("| us a call | stax | jax |\n|---|---|---|\n| an array | 0.12 | 4.50 |")
    assert text.count("\n") == len(calls.CASES) + 1
    assert 0 < calls.least(lambda x, k: x, (1,), {"k": 2}, 0.001) < 1e-4


def test_a_wrong_result_is_not_timed() -> None:
    ones = np.ones((2, 2))
    assert check([ones], [ones], 1e-6) == 0.0
    assert "output 0" in str(check([ones * 2], [ones], 1e-6))
    assert "outputs" in str(check([], [ones], 1e-6))


RATES = {"read": 2e9, "write": 1e9, "single": 1e9, "double": 5e8, "lookups": 1e9, "roots": 1e9}


def test_the_limits_of_a_workload_follow_from_what_it_does() -> None:
    def of(name: str, out_bytes: int) -> dict[str, float]:
        args = (np.zeros((64, 8), np.float32), [np.zeros(2)])
        found: dict[str, float] = shares.limits(name, args, out_bytes, RATES, 0.01)
        return found

    w = WORKLOADS["i"]
    assert of("i", 16) == {"memory": w.bytes / 2e9}
    assert of("i", w.bytes) == {"memory": w.bytes / 1e9}
    assert of("o_sgd", 0) == {"products": WORKLOADS["o_sgd"].flops / 1e9}
    assert of("w", 0) == {"roots": 512 * 512 / 1e9}
    assert set(of("k_gather", 0)) == {"memory", "lookups"}
    assert of("x", 0) == {}


def test_pieces_stay_in_cache_and_say_how_much_work_is_left() -> None:
    x, g = np.zeros((4096, 1024), np.float32), np.zeros(1024, np.float32)
    (cut, same), part = shares.piece("e_fwd", (x, g))
    assert cut.nbytes <= shares.CACHED
    assert same is g
    assert part == len(cut) / 4096
    (square,), part = shares.piece("n", (np.zeros((2048, 2048), np.float32),))
    assert square.shape[0] == square.shape[1]
    assert square.nbytes <= shares.CACHED
    assert 0 < part < square.size / 2048**2
    assert shares.piece("c", (np.zeros((8, 8)),)) == (None, 1.0)


def test_the_least_time_is_of_the_process() -> None:
    assert 0 < shares.least(np.sort, (np.arange(100),), 0.01) < 0.01


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["run", "--peers", "stax,nobody"], "no peer is called 'nobody'; there are jax, "),
        (["run", "--workloads", "zz"], "no workload is called 'zz'; there are a, "),
        (["shares", "--workloads", "a,zz"], "no workload is called 'zz'; there are a, "),
        (["compare", "stax", "nobody"], "'nobody' has not been timed; there are results of stax"),
        (["nonsense"], "unknown command 'nonsense'"),
    ],
)
def test_a_name_that_is_not_there_ends_the_program_with_those_that_are(
    command: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "results.jsonl").write_text(json.dumps(record("stax", 1e-6)) + "\n")
    monkeypatch.setattr(entry, "WORK", str(tmp_path))
    with pytest.raises(SystemExit, match=re.escape(message)):
        entry.main(command)
