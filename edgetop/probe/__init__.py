"""The probe, with which a program reports its inferences to edgetop. It does not import the rest of edgetop.

    from edgetop.probe import probe

    with probe("detector"):
        result = model(frame)

`edgetop_probe.py` can also be copied into a project. `edgetop_probe.h` does the same in C and C++.
"""

from edgetop.probe.edgetop_probe import probe

__all__ = ["probe"]
