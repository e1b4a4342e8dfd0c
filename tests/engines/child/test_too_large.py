"""An input for which memory is short is told with its shape and its bytes."""

import os
import subprocess
import sys

import pytest

from edgetop.engines.child.engine_error import EngineError, is_out_of_memory
from edgetop.engines.child.inputs import refuse_too_large
from edgetop.engines.child.tensor_values import Tensor

pytestmark = pytest.mark.slow

LIMITED = """
import re, resource
import numpy as np
from edgetop.engines.child.engine_error import EngineError
from edgetop.engines.child.inputs import Tensor, make_inputs
used = int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (used + 2**27,) * 2)
try:
    make_inputs([Tensor("x", [None], np.float32)], {"x": [2**28]}, {}, 0)
except EngineError as error:
    print(error.stage, error.message)
"""


def test_what_the_allocator_refuses_is_bad_input() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True)
    assert (
        done.stdout
        == "input input x: [268435456] float32 needs 1,073,741,824 bytes of memory, which cannot be had now\n"
    )


def test_what_no_memory_can_hold_is_refused_and_what_fits_is_not() -> None:
    tensor = Tensor("image", ["N", 3], "float32")
    refuse_too_large([tensor], {"image": [1, 3]})
    refuse_too_large([tensor], {"image": [0, 3]})
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with pytest.raises(EngineError, match=r"input image: \[\d+,3\] float32 needs [\d,]+ bytes") as told:
        refuse_too_large([tensor], {"image": [memory // 12 + 1, 3]})
    assert told.value.stage == "input"
    assert not is_out_of_memory(told.value.message)  # which would end it as an engine that died
