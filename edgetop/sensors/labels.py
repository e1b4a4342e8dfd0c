"""Labels of sensors from names that the kernel gives: no slash in them, and no two alike."""

import itertools
from collections.abc import Sequence


def distinct(names: Sequence[str]) -> list[str]:
    """A label for each name, in their order; of names that are alike, the later ones get a number.

    >>> distinct(["nvme", "a/b", "nvme", "a-b"])
    ['nvme', 'a-b', 'nvme-2', 'a-b-2']
    """
    labels: dict[str, None] = {}
    for name in names:
        plain = name.replace("/", "-")
        candidates = itertools.chain([plain], (f"{plain}-{number}" for number in itertools.count(2)))
        labels[next(label for label in candidates if label not in labels)] = None
    return list(labels)
