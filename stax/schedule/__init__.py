"""From loop-IR buffers to kernels: dependences, fusion, order and memory."""
