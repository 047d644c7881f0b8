"""Tokens, and ids of items: ULIDs, which rise within a process also when the clock goes back."""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import time

_letters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_random_bits = 80
_lock = threading.Lock()
_last = 0


def new_id(now_ms: int | None = None) -> str:
    """Return a new id. Ids of one process sort in the order in which they were made."""
    global _last
    ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    with _lock:
        fresh = ms << _random_bits | secrets.randbits(_random_bits)
        if fresh >> _random_bits <= _last >> _random_bits:
            fresh = _last + 1 + secrets.randbits(32)  # random: another process may have forked off with the same last id
        _last = fresh
        n = fresh
    return "".join(_letters[n >> shift & 31] for shift in range(125, -1, -5))


def new_wait_token(id: str) -> tuple[str, str]:
    """Return a new token for an item, ID-SECRET, and its hash, which is all that the engine is told."""
    text = f"{id}-{base64.b32encode(secrets.token_bytes(20)).decode()}"
    return text, hashlib.sha256(text.encode()).hexdigest()
