"""One output of each tool that edgetop imports, for tests that must hold for all of them."""

import json
from pathlib import Path

from tests.support import printed, trtexec

CAPTURED = Path(__file__).parent / "captured"

PROFILER = """Profiling script: test_perf.py

NAME  AVG CPU %  AVG MEM USAGE / LIMIT  NET I/O  BLOCK I/O  TIMESTAMP
test_container  91.25%  37.5MiB / 156MiB  2.33kB / 0B  3.79MB / 0B      1600000000000
test_container  98.75%  39.5MiB / 156MiB  2.33kB / 0B  3.79MB / 8.19kB  1600000002200
test_container  0.00%   0B / 0B           0B / 0B      0B / 0B          1600000004400
FINISHED
*********************************************************

Usage Stats:
NAME            AVG CPU %    PEAK CPU  AVG MEM USAGE / LIMIT    PEAK MEM    NET I/O         BLOCK I/O    TOTAL TIME (ms)
--------------  ---------  ----------  -----------------------  ----------  --------------  --------------  ------------
test_container  95.0%           98.75  38.5 MiB / 156.0 MiB     39.5 MiB    2.3 kB / 0.0 B  3.6 MiB / 4 kB          2200
Refer to the documentation on how to interpret the results.
"""
PROFILER_TABLE = PROFILER.partition("Usage Stats:")[2]
STATS = {"BlockIO": "1.5MB / 8.19kB", "CPUPerc": "50.00%", "Container": "ab", "MemUsage": "30MiB / 100MiB",
         "Name": "cam", "NetIO": "1.2kB / 10B"}  # fmt: skip
TIME = """\tCommand being timed: "python3 train.py --n 3"
\tUser time (seconds): 1.50
\tSystem time (seconds): 0.50
\tPercent of CPU this job got: 80%
\tElapsed (wall clock) time (h:mm:ss or m:ss): 1:02.50
\tMaximum resident set size (kbytes): 20480
\tMajor (requiring I/O) page faults: 0
\tVoluntary context switches: 1
\tFile system inputs: 8
\tFile system outputs: 16
\tPage size (bytes): 4096
\tExit status: 0
"""
PIDSTAT = """Linux 6.1.0 (vm) \t11/28/26 \t_x86_64_\t(2 CPU)

11:59:58 PM   UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command
11:59:59 PM     0      1234   50.00    1.00    0.00    0.00   51.00     0  python3
11:59:59 PM     0      1235   10.00    0.00    0.00    0.00   10.00     1  python3

11:59:58 PM   UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  Command
11:59:59 PM     0      1234      1.00      0.00   99999   10240   0.10  python3

11:59:59 PM   UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command
12:00:00 AM     0      1234   52.00    1.00    0.00    0.00   53.00     0  python3

11:59:59 PM   UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  Command
12:00:00 AM     0      1234      1.00      0.00   99999   20480   0.10  python3
Average:        0      1234      1.00      0.00   99999   15360   0.10  python3
"""
# sysstat 12.6.1, run for this test: `pidstat -h -r -u -d -H -p PID 1 2`, shortened
PIDSTAT_H = """Linux 6.18.44 (vm) \t11/28/26 \t_x86_64_\t(2 CPU)

# Time        UID       PID    %usr %system  %guest   %wait    %CPU   CPU     VSZ     RSS   %MEM   kB_rd/s  Command
1795843017      0     20563   17.00    2.00    0.00   58.00   19.00     1   16580   13396   0.05      0.00  python3

# Time        UID       PID    %usr %system  %guest   %wait    %CPU   CPU     VSZ     RSS   %MEM   kB_rd/s  Command
1795843018      0     20563   36.00    0.00    0.00   65.00   36.00     0   16580   13396   0.05      0.00  python3
"""
# sysstat 12.6.1, run for this test: `pidstat -t -p PID 1 2`
PIDSTAT_T = """Linux 6.18.44 (vm) \t11/28/26 \t_x86_64_\t(2 CPU)

05:16:56      UID      TGID       TID    %usr %system  %guest   %wait    %CPU   CPU  Command
05:16:57        0     20563         -   18.00    1.00    0.00   60.00   19.00     1  python3
05:16:57        0         -     20563   18.00    1.00    0.00   60.00   19.00     1  |__python3
05:16:58        0     20563         -   39.00    0.00    0.00   63.00   39.00     0  python3
05:16:58        0         -     20563   39.00    0.00    0.00   63.00   39.00     0  |__python3
Average:        0     20563         -   28.50    0.50    0.00   61.50   29.00     -  python3
"""


def bench(n_prompt: int, n_gen: int, *samples: int) -> dict[str, object]:
    return {"build_commit": "8cf427ff", "build_number": 5163, "model_filename": "models/q.gguf", "n_threads": 8,
            "n_prompt": n_prompt, "n_gen": n_gen, "n_depth": 0, "avg_ts": 1.0, "samples_ns": list(samples)}  # fmt: skip


def request(number: int) -> dict[str, object]:
    return {
        "metadata": {"request_start_ns": 10**18 + number * 10**9, "benchmark_phase": "profiling"},
        "metrics": {"request_latency": {"value": 500 + number, "unit": "ms"},
                    "output_sequence_length": {"value": 31, "unit": "tokens"}},
    }  # fmt: skip


def event(name: str, ts: int, dur: int, cat: str = "Node", **args: str) -> dict[str, object]:
    return {"cat": cat, "pid": 1, "tid": 1, "dur": dur, "ts": ts, "ph": "X", "name": name, "args": args}


def _run(ts: int) -> list[dict[str, object]]:
    conv = event("conv_kernel_time", ts + 1, 90, op_name="Conv", provider="CPUExecutionProvider")
    return [conv, event("model_run", ts, 99, "Session")]


def _lines(*entries: object) -> str:
    return "".join(f"{json.dumps(entry)}\n" for entry in entries)


BENCHES = [bench(512, 0, 74_601_900, 71_632_900), bench(0, 128, 1_075_361_300, 1_065_089_400)]
SUMMARY = {
    "aiperf_version": "0.10.0", "request_count": {"unit": "requests", "avg": 10.0},
    "request_latency": {"unit": "ms", "avg": 2413.5, "p50": 2431.75, "p99": 2439.45, "min": 2358.58, "max": 2439.55},
    "time_to_first_token": {"unit": "ms", "p50": 175.05},
}  # fmt: skip

# Texts with a line for each thing that they say.
TEXTS: dict[str, str] = {
    **{path.name: path.read_text() for path in sorted(CAPTURED.glob("*.txt"))},
    "trtexec 8": printed.TRTEXEC, "trtexec 7": printed.TRTEXEC_7,
    "benchmark_model": printed.BENCHMARK_MODEL, "benchmark_model of 2018": printed.BENCHMARK_MODEL_1,
    "onnxruntime_perf_test": printed.PERF_TEST,
    "onnxruntime_perf_test -v": "".join(f"iteration:{n + 1},time_cost:0.00{n + 1}\n" for n in range(3))
    + printed.PERF_TEST.replace("requests: 100", "requests: 3"),
    "onnxruntime_perf_test's result": printed.perf_result([0.0019, 0.0021, 0.002]),
    "tegrastats": f"{printed.NANO}\n{printed.NANO}\n{printed.NANO}\n",
    "Auptimizer": PROFILER, "Auptimizer's table": PROFILER_TABLE, "time": TIME,
    "pidstat": PIDSTAT, "pidstat -h": PIDSTAT_H, "pidstat -t": PIDSTAT_T,
    "docker stats": _lines(STATS, {**STATS, "CPUPerc": "70.00%"}),
    "llama-bench -o jsonl": _lines(*BENCHES), "AIPerf": _lines(*map(request, range(3))),
    "a table": "frame,t_s,latency_ms,note\n1,0.0,1.5,a\n2,0.1,2.5,b\n3,0.2,1.75,c\n",
    "a table with semicolons": "n;Latency (ms)\n1;1,5\n2;2,5\n3;3,25\n",
    "a table with dates": "timestamp\tinference_us\n2026-11-27T12:00:00.250Z\t3000\n2026-11-27T12:00:01.750Z\t3100\n",
}  # fmt: skip
# JSON documents, printed as the tools print them.
DOCUMENTS: dict[str, str] = {
    "litert-benchmark --result_json": (CAPTURED / "litert-benchmark-2.3.0.json").read_text(),
    "trtexec --exportTimes": trtexec.times(4), "trtexec --exportProfile": trtexec.profile(),
    "llama-bench -o json": json.dumps(BENCHES, indent=2), "AIPerf's summary": json.dumps(SUMMARY, indent=2),
    "ONNX Runtime": json.dumps([event("session_initialization", 0, 9, "Session"), *_run(100), *_run(300)], indent=1),
}  # fmt: skip
