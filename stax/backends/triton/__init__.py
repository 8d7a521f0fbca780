"""The Triton back end: kernels as Triton text, compiled ahead of time and run by the CUDA driver.

Neither triton nor a device is needed to print a program; triton alone is needed to compile one,
and the driver alone to run what was compiled before.
"""
