#!/usr/bin/env bash
# Physical limits of this machine on stdout. Argument: the Python to measure GEMM with.
set -eu
python=${1:-python3}
cd "$(dirname "$0")"
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
program=$(mktemp)
trap 'rm -f "$program"' EXIT
gcc -O3 -march=native -ffast-math -fopenmp stream.c -o "$program" -lm
for t in 1 2; do
  OMP_NUM_THREADS=$t taskset -c 0-$((t - 1)) "$program"
done
for t in 1 2; do
  for library in numpy torch; do
    OMP_NUM_THREADS=$t OPENBLAS_NUM_THREADS=$t MKL_NUM_THREADS=$t \
      taskset -c 0-$((t - 1)) "$python" gemm.py $library $t || true
  done
done
