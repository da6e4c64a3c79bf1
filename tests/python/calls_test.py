# ufp4 - long calls: the GIL is released, Ctrl-C ends them, progress is reported; threads and instruction sets.
# SPDX-License-Identifier: Apache-2.0
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import normal, same_bits

import ufp4


@pytest.mark.parametrize("name", ["nvfp4", "mxfp4"])
@pytest.mark.parametrize("shape", [(3000, 2048), (5, 2_000_000)])
def test_progress_counts_rows_and_changes_no_bit(name, shape):
    x = np.resize(normal(64, 999), shape)
    policies = {"rht": 16, "rounding": ufp4.Stochastic(7)}
    seen = []
    q = ufp4.quantize(x, name, progress=lambda done, rows: seen.append((done, rows)), **policies)
    assert q == ufp4.quantize(x, name, **policies)
    rows = shape[0] * (1 + q.format.has_tensor_scale)
    assert len(seen) > 1 and seen == sorted(seen) and seen[-1] == (rows, rows) and {n for _, n in seen} == {rows}
    assert ufp4.measure(x, name, progress=lambda done, rows: None, **policies) == ufp4.measure(x, name, **policies)


def test_progress_may_end_the_call():
    class Enough(Exception):
        pass

    def stop(done, rows):
        raise Enough

    with pytest.raises(Enough):
        ufp4.quantize(np.zeros((64, 1024), np.float32), "nvfp4", progress=stop)
    with pytest.raises(Enough):
        ufp4.measure(np.zeros((64, 1024), np.float32), "nvfp4", progress=stop)
    with pytest.raises(TypeError):
        ufp4.quantize(np.zeros((64, 1024), np.float32), "nvfp4", progress=3)


def test_other_threads_run_during_a_call():
    q = ufp4.quantize(np.resize(normal(64, 1024), (1024, 1024)), "e1m2_f32")
    ended, seen = threading.Event(), []

    def watch():
        while not ended.is_set():
            seen.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=watch)
    thread.start()
    began = time.monotonic()
    ufp4.matmul(q, q, threads=1, isa="scalar")
    took = time.monotonic() - began
    ended.set()
    thread.join()
    assert any(began + took / 4 < t < began + took * 3 / 4 for t in seen)


def test_calls_of_several_threads_have_the_same_bits():
    x = normal(200, 512)
    want = ufp4.quantize(x, "nvfp4", rht=16)
    product = ufp4.matmul(want, want)
    wrong = []

    def work():
        for _ in range(20):
            q = ufp4.quantize(x, "nvfp4", rht=16)
            if q != want or not same_bits(ufp4.matmul(q, q), product):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_and_instruction_sets_change_no_bit():
    x = normal(100, 300)
    want = ufp4.quantize(x, "nvfp4", rht=16, rounding=ufp4.Stochastic(1))
    exact = ufp4.matmul(want, want, accumulate="exact_blocks")
    for options in ({"threads": 1}, {"threads": 3}, {"isa": "scalar"}):
        assert ufp4.quantize(x, "nvfp4", rht=16, rounding=ufp4.Stochastic(1), **options) == want
        assert same_bits(ufp4.matmul(want, want, accumulate="exact_blocks", **options), exact)
    assert "scalar" in ufp4.explain_matmul(want, want, isa="scalar")


def test_the_executor_of_long_products_changes_no_bit():
    q = ufp4.quantize(np.resize(normal(64, 999), (1100, 1024)), "e1m2_f32", rht=16)
    whole = ufp4.matmul(q, q, accumulate="exact_blocks")  # 1.2e9 products: interruptible
    part = ufp4.QuantizedMatrix.from_arrays(q.codes[:512], q.scales[:512], "e1m2_f32", transform=q.transform)
    assert same_bits(whole[:512, :512].copy(), ufp4.matmul(part, part, accumulate="exact_blocks"))


INTERRUPTED = """
import numpy as np, os, signal, sys, threading, time
import ufp4
q = ufp4.quantize(np.ones((512, 16384), np.float32), "e1m2_f32")
big = ufp4.QuantizedMatrix.from_arrays(np.resize(q.codes, (16384, 8192)), np.resize(q.scales, (16384, 1024)), "e1m2_f32")
right = ufp4.QuantizedMatrix.from_arrays(big.codes[:2048], big.scales[:2048], "e1m2_f32")
out = np.zeros((16384, 2048), np.float32)
try:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    ufp4.matmul(big, right, out=out, threads=int(sys.argv[1]), isa="scalar")
except KeyboardInterrupt:
    assert ufp4.quantize(np.ones((64, 64), np.float32), "e1m2_f32").shape == (64, 64)  # the library still works
    print("interrupted")
"""


@pytest.mark.parametrize("threads", ["0", "1"])
def test_control_c_ends_a_long_product(threads):
    """Uninterrupted, the product of 5e11 pairs would take minutes."""
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED, threads], capture_output=True, text=True, timeout=800)
    assert ended.stdout == "interrupted\n", ended.stderr


def test_a_signal_handler_without_exception_ends_nothing():
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        x = np.resize(normal(64, 1024), (4096, 4096))
        assert ufp4.quantize(x, "nvfp4", isa="scalar").shape == x.shape
        os.kill(os.getpid(), signal.SIGALRM)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen
