"""Peak GEMM GFLOP/s.  gemm.py {numpy|torch} THREADS"""

import importlib.util
import sys
import time

import numpy as np

lib, th = sys.argv[1], int(sys.argv[2])
clock = time.process_time if th == 1 else time.perf_counter  # CPU time: immune to preemption

if lib == "torch" and importlib.util.find_spec("torch") is None:
    sys.exit("torch is not installed: its products are left out")
if lib == "torch":
    import torch

    torch.set_num_threads(th)
    note = "mkl" if torch.backends.mkl.is_available() else "?"
elif importlib.util.find_spec("threadpoolctl") is None:
    note = "?"  # which BLAS, only this library says
else:
    from threadpoolctl import threadpool_info

    np.ones((4, 4)) @ np.ones((4, 4))
    note = [
        (i.get("architecture"), i["version"], i["num_threads"])
        for i in threadpool_info()
        if i["user_api"] == "blas"
    ]
res = []
for n in (256, 1024, 2048):
    for dt in ("float32", "float64"):
        a, b = (np.random.default_rng(k).standard_normal((n, n)).astype(dt) for k in (0, 1))
        if lib == "torch":
            a, b = torch.from_numpy(a), torch.from_numpy(b)
        best, end, reps = 9e9, time.perf_counter() + 1.0, 0
        while time.perf_counter() < end or reps < 3:
            t = clock()
            a @ b
            best = min(best, clock() - t)
            reps += 1
        res.append(f"{dt}@{n} {2 * n**3 / best / 1e9:.0f}")
print(f"{lib} {th}T {note}: " + "  ".join(res) + " GFLOP/s")
