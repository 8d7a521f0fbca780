"""The loop-level representation: tensors as functions from an index to a value over ``ops``.

Input: what a graph computes, operation by operation. Output: a table of buffers with flat loop
bodies. See :mod:`stax.loops.tensors` for the values that lowering rules combine,
:mod:`stax.loops.ops` for what a body may say, and :mod:`stax.loops.body` for what later stages
read.
"""
