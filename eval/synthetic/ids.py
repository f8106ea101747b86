"""Opaque ids: they follow from the seed, and say nothing about order or relevance."""

from hashlib import blake2b

ID_BYTES = 8


def opaque_id(seed: int, *path: object) -> str:
    """16 hexadecimal digits for one thing of one seed.

    Args:
        seed: The generator's seed.
        path: What the thing is, such as ("message", 3, 41); the same path gives the same id.
    """
    text = "\x1f".join(map(str, path))
    return blake2b(text.encode(), digest_size=ID_BYTES, key=str(seed).encode()).hexdigest()
