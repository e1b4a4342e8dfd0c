"""The settings of a session with a language model, as they are stored in the manifest."""

from collections.abc import Mapping
from dataclasses import field

from edgetop.frozen import frozen

FOR_EVER_NS = 2**62  # the longest pause of a server whose requests come from others


@frozen
class Generation:
    """The settings of the requests to a language model, and the memory that its runtime reported."""

    context: int | None  # tokens; None if it is unknown
    max_tokens: int | None  # most generated tokens of a request; None if edgetop does not choose them
    prompt_tokens: int | None = None  # length of random prompts; None if there were texts
    prompts: int | None = None  # number of texts; None if there were none
    temperature: float = 0.0
    gpu_layers: int | None = None  # None is the runtime's default
    url: str | None = None  # URL of the server that generates; None for an engine of edgetop
    parallel: int = 1  # most requests at the same time; of a server, that edgetop sends
    # Sizes of buffers in MiB as the runtime reported them, by the name of the device and the kind; empty if unknown.
    buffers_mib: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_of_others(self) -> bool:
        """Whether other programs send the requests, so that edgetop does not know when a request is due."""
        return self.url is not None and not self.prompts
