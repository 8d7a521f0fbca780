"""Maximum flow and minimum cut with integer capacities: Dinic's algorithm on plain lists.

Input: a network of numbered vertices with directed edges.  Output: the flow's value, and the side
of the minimum cut that is reachable from the source in the residual network.  Everything is
iterative and the order of edges decides every tie, so the same network gives the same cut.
"""

from __future__ import annotations

from typing import Final

INFINITE: Final = 1 << 80  # above any sum of finite capacities


class FlowNetwork:
    """A directed network.  Edge `e` has its reverse at `e ^ 1`; flow is kept as residuals."""

    __slots__ = ("_edges_of", "_head", "_residual")

    def __init__(self, vertices: int) -> None:
        self._edges_of: list[list[int]] = [[] for _ in range(vertices)]
        self._head: list[int] = []
        self._residual: list[int] = []

    def add_edge(self, tail: int, head: int, capacity: int) -> int:
        """Add an edge and return its number."""
        edge = len(self._head)
        self._head += (head, tail)
        self._residual += (capacity, 0)
        self._edges_of[tail].append(edge)
        self._edges_of[head].append(edge + 1)
        return edge

    def max_flow(self, source: int, sink: int) -> int:
        """The value of a maximum flow; `INFINITE` when a path of infinite edges joins the two.

        Call it once: it leaves the flow in the residual capacities.
        """
        total = 0
        while True:
            level = self._levels(source, sink)
            if level[sink] < 0:
                return total
            total += self._blocking_flow(source, sink, level)
            if total >= INFINITE:
                return INFINITE

    def reachable(self, source: int) -> list[bool]:
        """For each vertex, whether the residual network leads there from `source`."""
        head, residual, edges_of = self._head, self._residual, self._edges_of
        seen = [False] * len(edges_of)
        seen[source] = True
        pending = [source]
        while pending:
            for edge in edges_of[pending.pop()]:
                there = head[edge]
                if residual[edge] and not seen[there]:
                    seen[there] = True
                    pending.append(there)
        return seen

    def _levels(self, source: int, sink: int) -> list[int]:
        """Breadth-first distances from `source` (-1: not reached), as far as the sink's."""
        head, residual, edges_of = self._head, self._residual, self._edges_of
        level = [-1] * len(edges_of)
        level[source] = 0
        frontier = [source]
        depth = 0
        while frontier and level[sink] < 0:
            depth += 1
            following = []
            for vertex in frontier:
                for edge in edges_of[vertex]:
                    there = head[edge]
                    if level[there] < 0 and residual[edge]:
                        level[there] = depth
                        following.append(there)
            frontier = following
        return level

    def _blocking_flow(self, source: int, sink: int, level: list[int]) -> int:
        """Saturate every shortest path: depth-first with a pointer to each vertex's next edge."""
        head, residual, edges_of = self._head, self._residual, self._edges_of
        following = [0] * len(edges_of)
        path: list[int] = []
        vertex = source
        pushed = 0
        while True:
            if vertex == sink:
                amount = min([residual[edge] for edge in path])
                pushed += amount
                if pushed >= INFINITE:
                    return pushed
                first = len(path)
                for k in range(len(path) - 1, -1, -1):
                    edge = path[k]
                    residual[edge] -= amount
                    residual[edge ^ 1] += amount
                    if not residual[edge]:
                        first = k
                vertex = head[path[first] ^ 1]
                del path[first:]
                continue
            edges = edges_of[vertex]
            at = following[vertex]
            wanted = level[vertex] + 1
            while at < len(edges):
                edge = edges[at]
                if residual[edge] and level[head[edge]] == wanted:
                    break
                at += 1
            following[vertex] = at
            if at < len(edges):
                path.append(edges[at])
                vertex = head[edges[at]]
            elif path:
                level[vertex] = -1
                vertex = head[path.pop() ^ 1]
            else:
                return pushed
