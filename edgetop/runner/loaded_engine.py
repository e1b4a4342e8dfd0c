"""What the runtime really uses after it has loaded a model, and the warnings about it for the session's log."""

from collections.abc import Iterator
from dataclasses import replace

from edgetop.engines.engine_protocol import Loaded
from edgetop.formatting import quantity
from edgetop.session import event_kinds as kinds
from edgetop.session.engine_events import FallbackReasons
from edgetop.session.events import Severity
from edgetop.session.manifest import Variant


def loading_warnings(loaded: Loaded) -> Iterator[tuple[kinds.RemarkKind, Severity, str]]:
    """Yield `(kind, severity, message)` of an event for each warning about the loaded model.

    There is a warning for an assumed shape or signature, for a provider that the runtime left out, and for operators
    that do not run on the requested provider.
    """
    yield from (("assumed-shape", "warning", sentence) for sentence in loaded.assumptions)
    if loaded.other_signatures:
        others = ", ".join(loaded.other_signatures)
        text = f"the model has several signatures: {loaded.signature or 'its first graph'} runs, and not {others}"
        yield "assumed-signature", "warning", text
    if loaded.dropped:
        yield "provider-dropped", "critical", loaded.dropped
    if loaded.left:
        yield "partly-accelerated", "warning", loaded.left


def loaded_variant(variant: Variant, loaded: Loaded) -> Variant:
    """Return a copy of `variant` with what the engine reported after loading the model, such as its providers."""
    engine = replace(
        variant.engine, runtime=loaded.runtime, version=loaded.version, providers=loaded.providers,
        init_ns=loaded.init_ns, compile_ns=loaded.compile_ns, settings=loaded.settings,
        asked=variant.engine.asked if loaded.asked is None else loaded.asked,
    )  # fmt: skip
    model = replace(variant.model, inputs=loaded.inputs, signature=loaded.signature or None)
    return replace(variant, engine=engine, model=model)


def fallback_words(why: FallbackReasons) -> str:
    """Return the runtime's reasons why operators do not run on the requested provider, as one sentence."""
    counted = (f"{text} ({quantity(count, 'operator')})" if count else text for text, count in why.counts())
    words = "; ".join(filter(None, (why.left_out, *counted)))
    return f"not on the requested provider: {words}" if words else "the runtime gives no reason why operators fell back"
