"""JSON to typed values and back: dataclasses, and what has pydantic's methods."""

from __future__ import annotations

import dataclasses
import json
import types
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

_texts = (uuid.UUID, Decimal, date, time, PurePath)


class Unfit(ValueError):
    """A document does not fit the type that is asked for."""


def dump(value: Any) -> bytes:
    """Write a value as JSON. Raises TypeError or ValueError where that can't be done."""
    return json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    """Return what JSON has in place of a value; json.dumps goes on from there."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, _texts):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset, Sequence)) and not isinstance(value, (bytes, bytearray, memoryview)):
        return list(value)
    raise TypeError(f"a {type(value).__name__} can't be written as JSON: use a dataclass, dict, list, text or number")


def instant(at: datetime) -> str:
    """Write a time as RFC 3339."""
    if at.tzinfo is None:
        raise ValueError(f"the time {at} has no zone: use datetime.now(timezone.utc) or .astimezone()")
    return at.isoformat()


def load(hint: Any, doc: Any, at: str = "params") -> Any:
    """Make a value of a type from what json.loads returned. Raises Unfit.

    Dataclasses (nested, in lists, dicts, tuples, unions), datetimes (RFC 3339), timedeltas
    (seconds), enums, UUIDs, Decimals and paths; a class with pydantic's `model_validate`
    checks for itself. A dataclass ignores keys that it does not have. Any other hint than
    these takes the document as it is.
    """
    origin = get_origin(hint)
    args = get_args(hint)
    if origin is Annotated:
        return load(args[0], doc, at)
    if origin in (Union, types.UnionType):
        return _load_one_of(args, doc, at)
    if origin is Literal:
        if doc not in args:
            raise _unfit(at, f"one of {', '.join(map(repr, args))}", doc)
        return doc
    if hint is None or hint is type(None):
        return _is(type(None), "null", doc, at)
    if origin is not None:
        return _load_many(origin, args, doc, at)
    if not isinstance(hint, type) or hint in (object, Any):
        return doc
    return _load_plain(hint, doc, at)


def _load_one_of(hints: tuple[Any, ...], doc: Any, at: str) -> Any:
    """Load what fits first. With Optional the other type says what is wrong."""
    if doc is None and type(None) in hints:
        return None
    rest = [h for h in hints if h is not type(None)]
    for hint in rest[:-1]:
        try:
            return load(hint, doc, at)
        except Unfit:
            pass
    return load(rest[-1], doc, at)


def _load_many(origin: Any, args: tuple[Any, ...], doc: Any, at: str) -> Any:
    made = origin  # as Any
    if not isinstance(origin, type):
        return doc
    if issubclass(origin, Mapping):
        members = _is(dict, "an object", doc, at)
        key, member = args if len(args) == 2 else (str, Any)
        return {load(key, k, at) if key is not int else int(k): load(member, v, f"{at}.{k}") for k, v in members.items()}
    if issubclass(origin, tuple) and len(args) > 0 and args[-1] is not Ellipsis:
        elements = _is(list, "an array", doc, at)
        if len(elements) != len(args):
            raise Unfit(f"{at} must have {len(args)} elements, not {len(elements)}")
        return tuple(load(a, e, f"{at}[{n}]") for n, (a, e) in enumerate(zip(args, elements)))
    if issubclass(origin, Iterable):
        elements = _is(list, "an array", doc, at)
        loaded = [load(args[0] if args else Any, e, f"{at}[{n}]") for n, e in enumerate(elements)]
        return made(loaded) if made in (tuple, set, frozenset) else loaded
    return doc


def _load_plain(hint: Any, doc: Any, at: str) -> Any:
    if is_typeddict(hint) or getattr(hint, "_is_protocol", False):
        return doc
    if isinstance(doc, hint) and not (hint is int and isinstance(doc, bool)):
        return doc
    if dataclasses.is_dataclass(hint):
        return _load_dataclass(hint, doc, at)
    if hasattr(hint, "model_validate"):
        try:
            return hint.model_validate(doc)
        except ValueError as err:
            raise Unfit(f"{at}: {err}") from err
    if hint is float:
        return float(_is(int, "a number", doc, at))
    if hint is timedelta:
        return timedelta(seconds=_is((int, float), "a number of seconds", doc, at))
    try:
        if hint in (datetime, date, time):
            return hint.fromisoformat(_is(str, "a time", doc, at))
        if issubclass(hint, Enum) or hint in _texts or issubclass(hint, PurePath):
            return hint(str(doc) if hint is Decimal and isinstance(doc, float) else doc)
    except (ValueError, ArithmeticError, TypeError, AttributeError) as err:
        raise _unfit(at, f"a {hint.__name__}", doc) from err
    if hint in (tuple, set, frozenset):
        return hint(_is(list, "an array", doc, at))
    names = {str: "a text", int: "a whole number", bool: "true or false", list: "an array", dict: "an object"}
    if hint in names:
        raise _unfit(at, names[hint], doc)
    return doc


@lru_cache(maxsize=1024)
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def _load_dataclass(cls: Any, doc: Any, at: str) -> Any:
    members, values = _is(dict, "an object", doc, at), {}
    hints = _hints(cls)
    for f in dataclasses.fields(cls):
        if not f.init:
            continue
        if f.name in members:
            values[f.name] = load(hints[f.name], members[f.name], f"{at}.{f.name}")
        elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise Unfit(f"{at}.{f.name} is missing")
    try:
        return cls(**values)
    except (TypeError, ValueError) as err:  # of its __post_init__
        raise Unfit(f"{at}: {err}") from err


def _is(kind: Any, name: str, doc: Any, at: str) -> Any:
    if not isinstance(doc, kind) or isinstance(doc, bool):
        raise _unfit(at, name, doc)
    return doc


def _unfit(at: str, name: str, doc: Any) -> Unfit:
    shown = json.dumps(doc)
    return Unfit(f"{at} must be {name}, not {shown if len(shown) < 60 else shown[:60] + '…'}")


T = TypeVar("T")


def reply(cls: type[T], doc: Any) -> T:
    """Load the engine's reply: a member `timeout_ms` is the field `timeout`, a timedelta."""
    if not isinstance(doc, dict):
        raise Unfit(f"the engine's reply is no {cls.__name__}")
    told = {}
    for name, value in doc.items():
        if name.endswith("_ms") and isinstance(value, (int, float)):
            name, value = name[:-3], value / 1000
        told[name] = value
    made: T = load(cls, told, "the reply")
    return made


def request(value: Any, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the request of a dataclass: what is None or empty is left out, a timedelta is in `…_ms`."""
    doc: dict[str, Any] = {}
    for f in dataclasses.fields(value):
        v = getattr(value, f.name)
        if v is None or f.name in leave_out or f.name not in ("params", "payload") and isinstance(v, (str, tuple, list, dict)) and len(v) == 0:
            continue
        if isinstance(v, timedelta):
            doc[f.name + "_ms"] = millis(v)
        else:
            doc[f.name] = v
    return doc


def millis(d: timedelta) -> int:
    """Return a duration in milliseconds, rounded up."""
    return -(-d // timedelta(milliseconds=1))
