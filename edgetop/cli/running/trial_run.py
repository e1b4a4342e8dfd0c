"""Tries a model with one inference, to find faults that only its runtime finds, before anything else is done.

Without this trial, a sweep would find such faults only after a cool-down. Without a screen, a user would first be told
about the screen, and about the model only at the next attempt.
"""

import time
from contextlib import ExitStack
from dataclasses import replace

from edgetop.cli.running import session_parts
from edgetop.cli.running.run_request import ModelChoice, RunRequest, VariantsSubject, model_of
from edgetop.engines.engine_protocol import Died, Ended, Engine, Failed, PhaseBegan
from edgetop.engines.spec import EngineSpec
from edgetop.errors import InputError
from edgetop.session.turns import SIDES

PATIENCE_S = 20.0  # a model that takes longer is left to the run; TensorRT may build its engine for minutes
POLL_S = 0.01


def why_unrunnable(request: RunRequest) -> InputError | None:
    """Run one inference of each model of the request. Return what is wrong with the options, or None.

    The result is None also for other failures of the engine.
    """
    subject = request.subject
    try:
        if not isinstance(subject, VariantsSubject):
            choice = model_of(subject)
            return _try(choice, session_parts.spec_of(request, session_parts.find_model(choice)))
        for variant, side in zip(subject.variants, SIDES, strict=True):
            if (error := _try(variant.model, session_parts.variant_spec(request, variant.model))) is not None:
                return InputError(f"{side}: {error}")
    except InputError as error:
        return error
    return None


def _try(choice: ModelChoice, spec: EngineSpec) -> InputError | None:
    with ExitStack() as stack:
        fault = _fault(session_parts.process_engine(choice, replace(spec, keep_outputs=0), stack))
    return InputError(fault.message, fault.advice) if fault else None


def _fault(engine: Engine) -> Failed | None:
    """Start the engine and wait for its first inference, for 20 s at most.

    Return what is wrong with the options, or None. Other failures of the engine count as None, because the run itself
    reports them.
    """
    until_s = time.monotonic() + PATIENCE_S
    engine.start()
    try:
        while time.monotonic() < until_s:
            for message in engine.poll().messages:
                match message:
                    case Failed():
                        return message if message.is_input_error else None
                    case Died() | Ended():
                        return None
                    case PhaseBegan(phase) if phase != "first":
                        return None
            time.sleep(POLL_S)
    finally:
        engine.close()
    return None
