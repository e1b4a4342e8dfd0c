"""What other processes take of a GPU: the mean load of each process but the engine and edgetop, as NVML samples it."""

import os
from pathlib import Path

import pynvml
import pytest

from edgetop.sensors.gpu_competitors import IN_CONTAINER, NAME, OF_HOST, discover_engine, discover_on_gpus
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Notifying, Reader, Values
from edgetop.session.event_kinds import GpuCompeting
from tests.support.fake_nvml import FakeGpu, FakeNvml, discrete
from tests.support.trees import plant

ENGINE, OTHER, THIRD = 4711, 4712, 4713
FIRST = [Gap("the first reading")]


def sample(pid: int, at_us: int, percent: int) -> pynvml.c_nvmlProcessUtilizationSample_t:
    return pynvml.c_nvmlProcessUtilizationSample_t(pid=pid, timeStamp=at_us, smUtil=percent)


def found(*gpus: FakeGpu) -> Found:
    return discover_on_gpus(ENGINE, lambda _: FakeNvml(*gpus), OF_HOST)


def reads(gpu: FakeGpu, *rounds: list[pynvml.c_nvmlProcessUtilizationSample_t]) -> list[Values]:
    (source,) = found(gpu).sources
    values = []
    for samples in rounds:
        gpu.answers["nvmlDeviceGetProcessUtilization"] = samples
        values.append(source.read())
    return values


def test_the_means_of_other_processes_are_added_up_and_old_samples_do_not_count_again() -> None:
    old = [sample(OTHER, 5, 90)]
    fresh = [sample(OTHER, 10, 20), sample(OTHER, 11, 40), sample(THIRD, 11, 5), sample(ENGINE, 11, 60)]
    assert reads(discrete(), old, [*old, *fresh], [*old, *fresh]) == [FIRST, [35.0], [0.0]]


def test_edgetop_itself_is_no_other_and_a_sum_of_samples_is_at_most_all_of_the_gpu() -> None:
    busy = [sample(os.getpid(), 10, 90), sample(OTHER, 10, 80), sample(THIRD, 10, 70)]
    assert reads(discrete(), [sample(OTHER, 5, 1)], busy) == [FIRST, [100.0]]


def test_impossible_samples_are_left_out() -> None:
    strange = [sample(OTHER, 10, 4_000_000_000), sample(0, 11, 50), sample(THIRD, 12, 7)]
    assert reads(discrete(), [sample(OTHER, 5, 1)], strange) == [FIRST, [7.0]]


def test_of_several_gpus_the_one_that_others_use_most_counts() -> None:
    one, two = discrete(), discrete()
    (source,) = found(one, two).sources
    for at_us, (first, second) in ((1, (1, 1)), (2, (10, 30))):
        one.answers["nvmlDeviceGetProcessUtilization"] = [sample(OTHER, at_us, first)]
        two.answers["nvmlDeviceGetProcessUtilization"] = [sample(OTHER, at_us, second)]
        read = source.read()
    assert read == [30.0]


def test_a_gpu_that_is_lost_is_a_gap() -> None:
    gpu = discrete()
    (source,) = found(gpu).sources
    gpu.fails["nvmlDeviceGetProcessUtilization"] = pynvml.NVML_ERROR_GPU_IS_LOST
    (value,) = source.read()
    assert isinstance(value, Gap)
    assert value.reason.startswith("NVML: ")


@pytest.mark.parametrize("error", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION])
def test_what_cannot_be_read_is_missing_in_one_line(error: int) -> None:
    gpu = discrete()
    gpu.fails["nvmlDeviceGetProcessUtilization"] = error
    assert [one.what for one in found(gpu).missing] == [NAME]


def test_in_a_container_the_engine_cannot_be_told_from_others() -> None:
    of = discover_on_gpus(ENGINE, lambda _: FakeNvml(discrete()), "pid:[4026532290]")
    assert of == Found(missing=(Missing(NAME, IN_CONTAINER),))


def test_without_the_driver_or_bindings_nothing_is_said(tmp_path: Path) -> None:
    def load(name: str) -> object:
        raise ImportError(name)

    assert discover_engine(ENGINE, Root(tmp_path), load) == Found()
    assert discover_on_gpus(ENGINE, load, OF_HOST) == Found()


def test_the_largest_other_process_is_named_as_for_the_cpu(tmp_path: Path) -> None:
    root = plant(tmp_path, {f"proc/{OTHER}/comm": "blender\n"})
    gpu, idle, clock = discrete(), discrete(), [0.0]
    of = discover_on_gpus(ENGINE, lambda _: FakeNvml(idle, gpu), OF_HOST, root, lambda: clock[0])
    (source,) = of.sources
    assert isinstance(source, Notifying)

    def told(at_s: float, *samples: tuple[int, int]) -> list[object]:
        clock[0] = at_s
        stamp = int(at_s * 1e6) + 1
        gpu.answers["nvmlDeviceGetProcessUtilization"] = [sample(pid, stamp, percent) for pid, percent in samples]
        idle.answers["nvmlDeviceGetProcessUtilization"] = [sample(ENGINE, stamp, 9)]
        source.read()
        return [(event.body, event.message) for event in source.take_events()]

    assert told(0, (OTHER, 90)) == []  # of the time before the session
    blender = GpuCompeting("blender", 61.0), "other processes took the GPU: blender 61 %"
    assert told(2, (OTHER, 61), (THIRD, 20), (ENGINE, 80)) == [blender]
    assert told(4, (OTHER, 61)) == []
    assert told(6, (OTHER, 5), (THIRD, 4)) == []
    name = f"process {THIRD}"
    assert told(8, (THIRD, 50)) == [(GpuCompeting(name, 50.0), f"other processes took the GPU: {name} 50 %")]
    assert told(31, (THIRD, 50)) == []
    assert [body.kind for body, _ in told(39, (THIRD, 50))] == ["gpu-competing"]  # type: ignore[attr-defined, misc]
    assert isinstance(source, Reader)
