"""Which return of a function belongs to which begin."""

import struct

from edgetop.taps.pairing import CallLayout, Pairing, Watch
from edgetop.taps.perf import Executed, Forked, Hit
from edgetop.taps.runtimes import Function

TOP = 0x7FFF0000
FUNCTION = Watch(Function("onnxruntime", "1.2", "Run", "/lib.so", 1))
INVOKE = Watch(Function("litert", "", "Invoke", "/lite.so", 1))
DECODE = Watch(Function("llama.cpp", "", "llama_decode", "/libllama.so", 1))
METHOD = Watch(Function("onnxruntime", "1.2", "run", "/module.so", 2, returns_at=1), CallLayout(16, 8))


def pairing(*watches):
    made = Pairing(8, {7})
    for number, watch in enumerate(watches):
        made.begins[2 * number], made.ends[2 * number + 1] = watch, [watch]
    return made


def hit(at, probe, depth=0, *, pid=7, tid=7, argument=0, result=0, session=0):
    """`depth`: of the stack where the function begins. Where it returns, the stack pointer is 8 higher."""
    pointer = TOP - depth + 8 * (probe % 2)
    return Hit(at, probe, pid, tid, argument, result, pointer, bytes(24) + struct.pack("<Q", session))


def spans(calls):
    return [(call.start_ns, call.end_ns, call.session, call.ok) for call in calls]


def test_threads_do_not_meet():
    events = [hit(1, 0, tid=1, argument=5), hit(2, 0, tid=2, argument=6), hit(3, 1, tid=1), hit(4, 1, tid=2)]
    assert spans(pairing(FUNCTION).calls(events)) == [(1, 3, 5, True), (2, 4, 6, True)]


def test_what_a_call_calls_is_a_part_of_it():
    events = [hit(1, 0, argument=5), hit(2, 0, 64, argument=6), hit(3, 1, 64), hit(4, 1)]
    assert spans(pairing(INVOKE).calls(events)) == [(1, 4, 5, True)]


def test_a_status_says_whether_it_went_well():
    events = [hit(1, 0), hit(2, 1, result=0x7F00_0000_0000), hit(3, 0), hit(4, 1)]
    assert [call.ok for call in pairing(FUNCTION).calls(events)] == [False, True]
    events = [hit(1, 0), hit(2, 1, result=0x7F00_0000_0000), hit(3, 0), hit(4, 1, result=1)]
    assert [call.ok for call in pairing(INVOKE).calls(events)] == [True, False]  # the upper half means nothing


def test_a_batch_for_which_there_was_no_room_is_no_inference():
    events = [hit(1, 0), hit(2, 1, result=1), hit(3, 0), hit(4, 1, result=2**32 - 1), hit(5, 0), hit(6, 1)]
    assert [(call.start_ns, call.ok) for call in pairing(DECODE).calls(events)] == [(3, False), (5, True)]


def test_a_method_ends_where_what_called_it_returns():
    made = pairing(METHOD)
    inner = hit(2, 1, 128, result=1)  # of another method, which the call calls
    assert not made.calls([hit(1, 0, 64, session=9), inner, hit(3, 1, 96, result=1)])
    assert spans(made.calls([hit(4, 1, result=1)])) == [(1, 4, 9, True)]
    assert not made.calls([hit(5, 1, result=1)])  # of another method
    assert METHOD.others == 3


def test_a_method_that_raised_returns_nothing():
    made = pairing(METHOD)
    calls = made.calls([hit(1, 0, 64, session=9), hit(4, 1), hit(5, 0, 64, session=8), hit(6, 1, result=1)])
    assert spans(calls) == [(1, 4, 9, False), (5, 6, 8, True)]


def test_a_function_that_was_left_by_an_exception_has_no_end():
    events = [hit(1, 0, 64, argument=5), hit(2, 0, argument=6), hit(3, 1)]
    assert spans(pairing(FUNCTION).calls(events)) == [(2, 3, 6, True)]


def test_children_count_and_others_do_not():
    made = pairing(FUNCTION)
    events = [Forked(1, 8, 7, 8), Forked(1, 99, 98, 99)]
    events += [each for pid in (8, 99) for each in (hit(2, 0, pid=pid, tid=pid), hit(3, 1, pid=pid, tid=pid))]
    assert [call.pid for call in made.calls(events)] == [8]
    assert made.parents == {8: 7}
    made.calls([Executed(4, 8)])
    assert (made.parents, made.executed) == ({}, [8])


def test_a_thread_of_the_same_number_begins_anew():
    made = pairing(FUNCTION)
    calls = made.calls([hit(1, 0), Forked(2, 7, 7, 7), hit(3, 0, 64), hit(4, 1, 64)])
    assert spans(calls) == [(3, 4, 0, True)]
