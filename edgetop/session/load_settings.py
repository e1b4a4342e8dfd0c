"""The load of a session: when inferences begin, and on how many streams."""

from typing import Literal

from edgetop.frozen import frozen

MIN_RATE_HZ, MAX_RATE_HZ = 1e-6, 1e6


@frozen
class ImageInput:
    """How images become inputs of the model: an input value is (pixel - mean) * scale.

    None means the default that `edgetop help quickstart` describes.
    """

    size: tuple[int, int] | None = None  # width and height
    layout: Literal["nchw", "nhwc"] | None = None
    mean: tuple[float, ...] | None = None  # one number, or one for each channel
    scale: tuple[float, ...] | None = None


@frozen
class Load:
    mode: Literal["closed", "fixed", "poisson", "replayed"] = "closed"
    rate_hz: float | None = None  # of each stream
    deadline_ns: int | None = None
    streams: int = 1
    batch: int | None = None
    input: str = "random"
    images: ImageInput | None = None  # how pictures became inputs; None if no option said it
    delay_ns: int | None = None  # pause after each inference of a closed load; longest pause of replayed arrivals
    duty_on_ns: int | None = None  # duration of work in each duty cycle
    duty_off_ns: int | None = None  # duration of the rest after it
    seed: int | None = None  # of Poisson arrivals and of made-up inputs; None in imported and in older sessions
    arrays: int | None = None  # number of input arrays that are used in turn; None if unknown

    @property
    def fed(self) -> str:
        """The source of the inputs, followed by the options for images, such as "photos, size 224x224, layout nchw".

        A seed other than the default is added to generated inputs, as in "random:16, seed 7".
        """
        images = self.images or ImageInput()
        numbers = {"mean": images.mean or (), "scale": images.scale or ()}
        is_drawn = any(source.startswith(("random", "text:")) for source in self.input.split(", "))
        parts = {
            "seed": str(self.seed or "") if is_drawn else "",
            "size": "x".join(map(str, images.size or ())),
            "layout": images.layout or "",
            **{name: ",".join(f"{one:g}" for one in each) for name, each in numbers.items()},
        }
        return ", ".join([self.input, *(f"{name} {value}" for name, value in parts.items() if value)])

    @property
    def is_random(self) -> bool:
        """Whether the time between starts of inferences varies, as with Poisson or replayed arrivals."""
        return self.mode in ("poisson", "replayed")

    @property
    def is_paced(self) -> bool:
        """Whether each start is planned, so that an inference can be late. False if the rate is invalid."""
        return self.mode != "closed" and self.rate_hz is not None and MIN_RATE_HZ <= self.rate_hz <= MAX_RATE_HZ

    @property
    def stream_hz(self) -> float | None:
        """The mean number of requested inferences per second in one stream, including the pauses of a duty cycle.

        None if no rate is set.
        """
        if not self.is_paced or self.rate_hz is None:
            return None
        on_ns, off_ns = (max(0, ns or 0) for ns in (self.duty_on_ns, self.duty_off_ns))
        return self.rate_hz * (on_ns / (on_ns + off_ns) if on_ns else 1.0)

    @property
    def asked_hz(self) -> float | None:
        """The mean number of requested inferences per second in all streams together; None if no rate is set."""
        return None if self.stream_hz is None else self.stream_hz * self.streams

    @property
    def longest_rest_ns(self) -> int:
        """The longest time in ns between planned starts. Of Poisson arrivals, one pause in half a billion is longer."""
        rest_ns = (self.delay_ns or 0) + (self.duty_off_ns or 0)
        if self.is_paced and self.rate_hz is not None:
            rest_ns += int(1e9 / self.rate_hz * (20 if self.mode == "poisson" else 1))
        return max(0, min(rest_ns, 2**62))
