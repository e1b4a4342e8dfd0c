import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.models.cost.tensor_traffic import plan
from edgetop.models.graph import Graph, Operator, Tensor

UNIT = 4  # bytes of a float


def graph(operators, *, inputs, outputs, sizes=None, constants=()):
    """Operators as (inputs, outputs); tensors hold one float unless `sizes` says more."""
    operators = [(entry if len(entry) == 3 else ("Add", *entry)) for entry in operators]
    last = max(place for _, *sides in operators for side in sides for place in side)
    sizes = sizes or {}
    tensors = tuple(
        Tensor(f"t{place}", "float32", sizes.get(place, (1,)), is_constant=place in constants)
        for place in range(last + 1)
    )
    made = tuple(
        Operator(number, f"op{number}", kind, "", tuple(taken), tuple(given))
        for number, (kind, taken, given) in enumerate(operators)
    )
    return Graph("g", tensors, made, tuple(inputs), tuple(outputs))


def test_a_chain_needs_two_tensors_at_a_time():
    chain = graph([([0], [1]), ([1], [2]), ([2], [3])], inputs=[0], outputs=[3])
    assert plan(chain).peak_bytes == 2 * UNIT


def test_a_skip_connection_is_kept_until_it_is_read():
    skip = graph([([0], [1]), ([1], [2]), ([2], [3]), ([3, 1], [4])], inputs=[0], outputs=[4])
    found = plan(skip)
    assert (found.peak_bytes, found.peak_position) == (3 * UNIT, 2)


def test_an_output_of_the_model_is_kept_to_the_end():
    assert plan(graph([([0], [1]), ([0], [2]), ([2], [3])], inputs=[0], outputs=[1, 3])).peak_bytes == 3 * UNIT


def test_a_view_takes_no_memory_of_its_own():
    views = graph([([0], [1]), ("Reshape", [1], [2]), ([1, 2], [3])], inputs=[0], outputs=[3])
    assert plan(views).peak_bytes == 2 * UNIT


def test_constants_are_not_activations():
    assert plan(graph([([0, 1], [2])], inputs=[0], outputs=[2], constants=[1])).peak_bytes == 2 * UNIT


def test_state_that_nobody_feeds_stays():
    """Tensor 2 is neither made nor fed: a variable."""
    found = plan(graph([([0, 2], [1]), ([1], [3]), ([3], [4])], inputs=[0], outputs=[4], sizes={4: (2,)}))
    assert found.peak_bytes == 4 * UNIT


def test_the_largest_working_set_need_not_be_where_the_peak_is():
    wide = graph(
        [([0], [1]), ([0], [2]), ([0], [3]), ([1, 2], [4]), ([4], [5])],
        inputs=[0],
        outputs=[3, 5],
        sizes={4: (2,), 5: (3,)},
    )
    found = plan(wide)
    assert (found.working_set_bytes, found.working_set_position) == (5 * UNIT, 4)
    assert found.peak_bytes == 6 * UNIT


def test_an_operator_that_takes_a_tensor_twice_holds_it_once():
    assert plan(graph([([0, 0], [1])], inputs=[0], outputs=[1])).working_set_bytes == 2 * UNIT


def test_sizes_that_are_not_known_are_counted_apart():
    found = plan(graph([([0], [1]), ([1], [2])], inputs=[0], outputs=[2], sizes={1: (None,)}))
    assert (found.peak_bytes, found.unknown) == (UNIT, 1)


def test_a_model_that_hands_its_inputs_on_needs_them():
    found = plan(Graph("g", (Tensor("x", "float32", (1,)),), (), (0,), (0,)))
    assert (found.peak_bytes, found.peak_position) == (UNIT, None)


def test_a_graph_of_nothing_needs_nothing():
    found = plan(Graph("g", (), (), (), ()))
    assert (found.peak_bytes, found.peak_position, found.working_set_bytes) == (0, None, 0)


@st.composite
def graphs(draw):
    """Operators that each take tensors made before."""
    operators, sizes = [], {0: (draw(st.integers(1, 9)),)}
    for number in range(1, draw(st.integers(2, 12))):
        taken = draw(st.lists(st.integers(0, number - 1), min_size=1, max_size=3))
        sizes[number] = (draw(st.integers(1, 9)),)
        operators.append((taken, [number]))
    return graph(operators, inputs=[0], outputs=[len(operators)], sizes=sizes)


@given(graphs())
@settings(deadline=None, max_examples=60)
def test_the_peak_is_that_of_an_allocator_that_frees_at_once(built):
    """Walks the operators with a set of live tensors, as a runtime would."""
    last_use = {place: op.position for op in built.operators for place in (*op.outputs, *op.inputs)}
    last_use.update(dict.fromkeys(built.outputs, len(built.operators)))
    live, peak = set(built.inputs), 0
    for op in built.operators:
        live |= set(op.outputs)
        peak = max(peak, sum(built.tensors[place].size_bytes for place in live))
        live = {place for place in live if last_use.get(place, -1) > op.position}
    assert plan(built).peak_bytes == peak
    assert plan(built).working_set_bytes <= peak
    assert np.all([built.tensors[place].size_bytes <= peak for place in range(len(built.tensors))])
