"""The best plans known for the models of the tests, to compare those that stax finds with.

`python -m tests.budget.best MODEL --seconds 600` searches on by the integer program for half of the
time and by random changes for the rest, and writes what it finds into `best_plans.json`: for each
model the names of the values that may be kept, and plans as bits over those names.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path

import stax
from stax.compile import CompileOptions, simplified
from stax.core.primitive import Recompute
from stax.transforms.plan_front import pareto, thinned
from stax.transforms.plan_program import IntegerProgram
from stax.transforms.plans import Planner
from tests.budget.models import MODELS, chain

FILE = Path(__file__).with_name("best_plans.json")
ALL = {**MODELS, "chain": lambda: chain(depth=8, rows=32, width=16)}
PLANS = 40  # of one model that are written


def flat(f, args):
    """The graph of the gradient that plans are made for."""
    return simplified(stax.jit(stax.grad(f)).trace(*args).graph, CompileOptions.of(), {})


def planner_of(name):
    return Planner(flat(*ALL[name]()))


def free_values(planner):
    """The values a plan may keep or not."""
    return [
        v.var
        for v in planner.network
        if v.var not in planner.model.outputs | planner.fixed
        and v.eqn.prim.recompute is not Recompute.VIEW
    ]


def best_plans(name, planner):
    """The plans of the file, judged by the model of memory as it is now."""
    free = free_values(planner)
    known = json.loads(FILE.read_text())[name]
    place = {value: k for k, value in enumerate(known["values"].split())}
    assert {v.name for v in free} == set(place), f"run `python -m tests.budget.best {name}`"
    masks = [int(plan, 16) for plan in known["plans"]]
    kept = [{v for v in free if mask >> place[v.name] & 1} for mask in masks]
    return [planner.model.plan(planner.fixed | k) for k in kept]


def by_integer_program(planner, found, seconds):
    free = free_values(planner)
    never = [v.var for v in planner.values if v.var not in {*free, *planner.fixed}]
    program = IntegerProgram(planner.model, planner.fixed, never)
    peaks = [p.peak for p in found.values()]
    for plan in program.improved(max(peaks), min(peaks), seconds):
        found[plan.kept] = plan


def by_random_changes(planner, found, seconds, seed):
    rng, free = random.Random(seed), free_values(planner)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        front = pareto(found.values())
        for _ in range(1000):
            plan = rng.choice(front)
            kept = plan.kept
            for _ in range(20 if rng.random() < 0.2 else 1):
                count = min(1 + int(rng.expovariate(0.6)), len(free))
                kept = kept ^ frozenset(rng.sample(free, count))
                if kept not in found:
                    found[kept] = planner.model.plan(kept)
                if found[kept].peak > 1.1 * plan.peak:
                    break
        found = {p.kept: p for p in pareto(found.values())}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", choices=list(ALL))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name in given.models:
        planner = planner_of(name)
        free = free_values(planner)
        found = {p.kept: p for p in planner.plans()}
        known = json.loads(FILE.read_text()) if FILE.exists() else {}
        if known.get(name, {}).get("values", "").split() == [v.name for v in free]:
            found.update((p.kept, p) for p in best_plans(name, planner))
        by_integer_program(planner, found, given.seconds / 2)
        found = by_random_changes(planner, found, given.seconds / 2, given.seed)
        kept = [p.kept for p in thinned(pareto(found.values()), PLANS)]
        masks = [sum(1 << k for k, v in enumerate(free) if v in one) for one in kept]
        known = json.loads(FILE.read_text()) if FILE.exists() else {}  # others may have written
        known[name] = {"values": " ".join(v.name for v in free), "plans": [f"{m:x}" for m in masks]}
        FILE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
