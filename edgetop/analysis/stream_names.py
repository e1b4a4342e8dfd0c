"""The names of a session's streams. They are the same in every output."""

from collections.abc import Sequence

from edgetop.session.manifest import Manifest


def stream_names(manifest: Manifest | None) -> tuple[str, ...]:
    """Return the names of the session's streams, by stream number. The names are unique and the same in every output.

    A name is the file name of the model. If several models have the same file name, the names also have folders or a
    number.
    """
    if manifest is None:
        return ()
    if manifest.ab is not None:
        return tuple(distinct_names([variant.name for variant in manifest.ab.variants]))
    if manifest.watched is not None and manifest.watched.streams:
        return tuple(distinct_names([stream.name for stream in manifest.watched.streams]))
    return (manifest.model.path.rpartition("/")[2],)


def distinct_names(paths: Sequence[str]) -> list[str]:
    """Return a short, unique name for each path, with only as many folders as are needed to tell the paths apart.

    >>> distinct_names(["/a/det/m.onnx", "/a/cls/m.onnx", "/a/rec.onnx", "/a/rec.onnx", ""])
    ['det/m.onnx', 'cls/m.onnx', 'rec.onnx', 'rec.onnx #2', 'unnamed']
    """
    parts = [path.split("/") if path else ["unnamed"] for path in paths]
    kept = [1] * len(paths)
    while True:
        names = ["/".join(part[-count:]) for part, count in zip(parts, kept, strict=True)]
        unclear = {
            place
            for place, name in enumerate(names)
            for other, its in enumerate(names)
            if name == its and parts[place] != parts[other] and kept[place] < len(parts[place])
        }
        if not unclear:
            break
        for place in unclear:
            kept[place] += 1
    seen: dict[str, int] = {}
    for place, name in enumerate(names):
        seen[name] = seen.get(name, 0) + 1
        names[place] = f"{name} #{seen[name]}" if seen[name] > 1 else name
    return names
