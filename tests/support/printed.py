"""What tools print, as public logs of real boards have it, shortened; and tegrastats' lines of each JetPack."""

import textwrap


def _text(block: str) -> str:
    return textwrap.dedent(block).lstrip("\n")


# TensorRT 8.4 (from a README of yolov7 on Triton), and 7.x with an explicit batch, which counts as none.
TRTEXEC = _text("""
    &&&& RUNNING TensorRT.trtexec [TensorRT v8401] # ./tensorrt/bin/trtexec --loadEngine=yolov7-fp16.engine
    [09/11/2022-22:54:29] [I] Warmup completed 148 queries over 200 ms
    [09/11/2022-22:54:29] [I] Timing trace has 3015 queries over 3.0022 s
    [09/11/2022-22:54:32] [I] Average on 10 runs - GPU latency: 0.98 ms - Host latency: 1.2 ms (enqueue 0.33 ms)
    [09/11/2022-22:54:32] [I] === Performance summary ===
    [09/11/2022-22:54:32] [I] Throughput: 1004.27 qps
    [09/11/2022-22:54:32] [I] Latency: min = 1.17474 ms, max = 4.4541 ms, mean = 1.20348 ms, median = 1.1897 ms, @
    percentile(90%) = 1.25 ms, percentile(95%) = 1.3 ms, percentile(99%) = 1.50061 ms
    [09/11/2022-22:54:32] [I] Enqueue Time: min = 0.303711 ms, max = 4.79843 ms, mean = 0.336177 ms, @
    median = 0.337891 ms, percentile(99%) = 0.387817 ms
    [09/11/2022-22:54:32] [I] GPU Compute Time: min = 0.965637 ms, max = 4.24448 ms, mean = 0.993252 ms, @
    median = 0.97998 ms, percentile(99%) = 1.29016 ms
    [09/11/2022-22:54:32] [I] Total Host Walltime: 3.0022 s
    [09/11/2022-22:54:32] [W] * GPU compute time is unstable, with coefficient of variance = 12.3891%.
    &&&& PASSED TensorRT.trtexec [TensorRT v8401] # ./tensorrt/bin/trtexec --loadEngine=yolov7-fp16.engine
""").replace("@\n", "")
TRTEXEC_7 = _text("""
    [10/20/2020-19:56:25] [I] Warmup completed 0 queries over 200 ms
    [10/20/2020-19:56:29] [I] Timing trace has 0 queries over 3.00956 s
    [10/20/2020-19:56:29] [I] Host Latency
    [10/20/2020-19:56:29] [I] min: 4.34442 ms (end to end 4.35388 ms)
    [10/20/2020-19:56:29] [I] max: 7.12915 ms (end to end 7.14398 ms)
    [10/20/2020-19:56:29] [I] mean: 4.52398 ms (end to end 4.53851 ms)
    [10/20/2020-19:56:29] [I] median: 4.49951 ms (end to end 4.51025 ms)
    [10/20/2020-19:56:29] [I] percentile: 5.46606 ms at 99% (end to end 6.10291 ms at 99%)
    [10/20/2020-19:56:29] [I] throughput: 0 qps
    [10/20/2020-19:56:29] [I] walltime: 3.00956 s
    [10/20/2020-19:56:29] [I] Enqueue Time
    [10/20/2020-19:56:29] [I] min: 2.3894 ms
    [10/20/2020-19:56:29] [I] GPU Compute
    [10/20/2020-19:56:29] [I] mean: 4.41 ms
""")

BENCHMARK_MODEL = _text("""
    INFO: STARTING!
    INFO: Graph: [./models/tiny_muaalem_float32.tflite]
    VERBOSE: Replacing 2168 out of 2168 node(s) with delegate (TfLiteXNNPackDelegate) node, yielding 1 partitions.
    INFO: Initialized session in 119.515ms.
    INFO: Running benchmark for at least 5 iterations and at least 0.5 seconds but terminate if exceeding 150 seconds.
    INFO: count=9 first=87112 curr=51629 min=51629 max=87112 avg=58147.4 std=11478 p5=51629 median=51962 p95=87112

    INFO: Running benchmark for at least 1000 iterations and at least 1 seconds but terminate if exceeding 150 seconds.
    INFO: count=1000 first=52162 curr=49785 min=49088 max=686105 avg=63743.2 std=60716 p5=49620 median=51891 p95=68628

    INFO: Inference timings in us: Init: 119515, First inference: 87112, Warmup (avg): 58147.4, Inference (avg): 63743.2
    INFO: Memory footprint delta from the start of the tool (MB): init=55.4961 overall=55.4961
""")
BENCHMARK_MODEL_1 = _text("""
    Initialized session in 0.896ms
    Running benchmark for at least 1 iterations and at least 0.5 seconds but terminate if exceeding 150 seconds.
    count=215 first=12231 curr=2106 min=2065 max=12231 avg=2331.42 std=746

    Running benchmark for at least 100 iterations and at least 1 seconds but terminate if exceeding 150 seconds.
    count=459 first=2143 curr=2101 min=2056 max=2656 avg=2177.1 std=124

    Timings (microseconds): count=459 first=9449 curr=8350 min=7385 max=8213 avg=2177.1 std=1929
    Memory (bytes): count=0
    Average inference timings in us: Warmup: 2331.42, Init: 896, no stats: 2177.1
""")

PERF_TEST = _text("""
    Disabling intra-op thread spinning between runs
    Session creation time cost: 0.0102016 s
    First inference time cost: 2 ms
    Total inference time cost: 0.185739 s
    Total inference requests: 100
    Average inference time cost: 1.85739 ms
    Total inference run time: 0.18581 s
    Number of inferences per second: 538.184 
    Avg CPU usage: 96 %
    Peak working set size: 36696064 bytes
    Min Latency: 0.00183404 s
    Max Latency: 0.00190312 s
    P50 Latency: 0.00185674 s
    P90 Latency: 0.00187215 s
    P95 Latency: 0.00187393 s
    P99 Latency: 0.00190312 s
    P999 Latency: 0.00190312 s
""")  # noqa: W291  a space stands before that end of line in the tool, too


def perf_result(seconds: list[float], name: str = "squeezenet") -> str:
    """The result file of `onnxruntime_perf_test`, with its statistics (-s)."""
    rows = [f"{name},{each:.6g},36696064,96,{run}" for run, each in enumerate(seconds)]
    return "\n".join([*rows, "", f"Min Latency: {min(seconds):.6g} s", f"P999 Latency is {max(seconds):.6g}sec", ""])


NANO = (
    "RAM 1923/3964MB (lfb 2x2MB) SWAP 191/1982MB (cached 6MB) IRAM 0/252kB(lfb 252kB) "
    "CPU [5%@1224,4%@1224,3%@1224,off] EMC_FREQ 2%@1600 GR3D_FREQ 37%@76 "
    "APE 25 PLL@37C CPU@40C PMIC@50C GPU@40.5C AO@45C thermal@40C "
    "POM_5V_IN 1750/1628 POM_5V_GPU 0/0 POM_5V_CPU 366/406"
)
XAVIER_NX = (
    "RAM 2690/6854MB (lfb 6x1MB) SWAP 479/3427MB (cached 3MB) CPU [3%@1904,7%@1906,off,off] EMC_FREQ 0%@1600 "
    "GR3D_FREQ 0%@[510] VIC_FREQ 601 APE 150 MTS fg 0% bg 3% AUX@39C CPU@39.5C PMIC@100C "
    "VDD_IN 5079mW/5079mW VDD_CPU_GPU_CV 696mW/696mW VDD_SOC 1104mW/1104mW"
)
ORIN_NANO = (
    "05-15-2025 18:30:28 RAM 6982/7620MB (lfb 5x1MB) SWAP 2640/16384MB (cached 202MB) CPU [97%@1984,95%@1984,93%@247] "
    "EMC_FREQ 18%@3199 GR3D_FREQ 84%@[713] NVENC 1%@115 NVJPG off VIC 31%@115 PVA0_FREQ off APE 174 cv0@63.031C "
    "cpu@65.562C gpu@63.5C tj@65.562C VDD_IN 17946mW/15710mW VDD_CPU_GPU_CV 8896mW/7585mW VDD_SOC 3923mW/3515mW"
)
AGX_ORIN = (
    "04-11-2025 10:36:27 RAM 4321/62801MB (lfb 1759x4MB) SWAP 19/31400MB (cached 0MB) CPU [0%@729,0%@729] "
    "EMC_FREQ 0%@2133 GR3D_FREQ 0%@[0,0] VIC_FREQ 729 APE 174 CV0@-256C CPU@44.562C Tboard@32C GPU@-256C tj@44.343C "
    "VDD_GPU_SOC 2340mW/2340mW VDD_CPU_CV 390mW/390mW VIN_SYS_5V0 4025mW/4025mW NC 0mW/0mW "
    "VDDQ_VDD2_1V8AO 301mW/301mW NC 0mW/0mW"
)
THOR = (
    "10-05-2026 21:03:35 RAM 5137/125772MB (lfb 2x4MB) SWAP 0/0MB (cached 0MB) CPU [1%@972,25%@972] "
    "GR3D_FREQ @[1000,1575,1000] NVENC0_FREQ @1556 cpu@52.875C tj@52.875C VDD_GPU 3178mW/3178mW VIN 24543mW/24543mW"
)
TX1 = (
    "RAM 3468/3983MB (lfb 48x4MB) SWAP 873/8192MB (cached 295MB) cpu [17%,13%,29%,5%]@408 EMC 1%@408 APE 25 GR3D 3%@76"
)
PLAIN_USER = "RAM 1689/3825MB (lfb 339x4MB) CPU [3%@345,off] EMC_FREQ 0% GR3D_FREQ 12% PLL@50.5C GPU@50C thermal@50.3C"
