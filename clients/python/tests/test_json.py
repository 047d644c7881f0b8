from __future__ import annotations

import json
import unittest
import unittest.mock
import uuid
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Mapping, Optional, Protocol, TypedDict, Union

from streamwright._api import Feed
from streamwright._ids import new_id
from streamwright._json import Unfit, dump, load
from streamwright._retry import Tries, backoff, may_repeat, wait_after
from streamwright.errors import error_of


class Colour(Enum):
    RED = "red"


@dataclass
class Page:
    number: int
    title: str = ""


@dataclass
class Book:
    title: str
    pages: list[Page]
    at: datetime
    by: Optional[str] = None
    price: Decimal = Decimal(0)
    id: uuid.UUID | None = None
    colour: Colour = Colour.RED
    takes: timedelta = timedelta()
    notes: dict[str, Page] = field(default_factory=dict)
    pair: tuple[int, str] = (0, "")
    kind: Literal["a", "b"] = "a"
    either: Union[Page, str] = ""
    rate: float = 0.0
    free: Any = None
    tags: set[str] = field(default_factory=set)
    day: date | None = None
    marked: Annotated[int, "of pages"] = 0


class Model:
    """What pydantic's models have."""

    def __init__(self, n: int) -> None:
        self.n = n

    @classmethod
    def model_validate(cls, doc: Any) -> Model:
        if not isinstance(doc, dict) or "n" not in doc:
            raise ValueError("n is missing")
        return cls(doc["n"])

    def model_dump(self, mode: str) -> dict[str, int]:
        return {"n": self.n}


class Loose(TypedDict):
    n: int


class Sized(Protocol):
    def size(self) -> int: ...


class JSONTest(unittest.TestCase):
    def test_what_is_dumped_is_loaded(self) -> None:
        book = Book(
            "a", [Page(1, "one"), Page(2)], datetime(2030, 1, 31, 8, tzinfo=timezone.utc), "ann", Decimal("1.10"), uuid.uuid4(), Colour.RED,
            timedelta(seconds=1.5), {"x": Page(3)}, (1, "b"), "b", Page(4), 2.5, {"any": [1]}, {"t"}, date(2030, 1, 31), 3,
        )
        self.assertEqual(load(Book, json.loads(dump(book))), book)
        self.assertEqual(load(list[Optional[Book]], [json.loads(dump(book)), None]), [book, None])
        self.assertEqual(load(Model, json.loads(dump(Model(3)))).n, 3)
        self.assertEqual(load(Mapping[int, str], {"1": "a"}), {1: "a"})
        self.assertEqual(load(tuple[int, ...], [1, 2]), (1, 2))
        self.assertEqual(load(Loose, {"n": 1}), {"n": 1})
        self.assertEqual(load(Sized, [1]), [1])
        self.assertEqual(load(Decimal, 1.1), Decimal("1.1"))

    def test_takes_the_engine_s_times(self) -> None:
        self.assertEqual(load(datetime, "2030-01-31T08:00:00.123456789Z"), datetime(2030, 1, 31, 8, 0, 0, 123456, timezone.utc))

    def test_says_what_does_not_fit(self) -> None:
        for hint, doc, wanted in [
            (Page, {}, "params.number is missing"),
            (Page, {"number": "1"}, 'params.number must be a whole number, not "1"'),
            (Page, {"number": True}, "params.number must be a whole number, not true"),
            (list[Page], [{"number": 1}, {}], "params[1].number is missing"),
            (dict[str, Page], {"a": 1}, "params.a must be an object, not 1"),
            (Page, [], "params must be an object, not []"),
            (Optional[int], "a", 'params must be a whole number, not "a"'),
            (Literal["a"], "b", "params must be one of 'a', not \"b\""),
            (Colour, "blue", 'params must be a Colour, not "blue"'),
            (datetime, "today", 'params must be a datetime, not "today"'),
            (datetime, 5, "params must be a datetime, not 5"),
            (uuid.UUID, 5, "params must be a UUID, not 5"),
            (Decimal, "x", 'params must be a Decimal, not "x"'),
            (tuple[int, int], [1], "params must have 2 elements, not 1"),
            (float, "1", 'params must be a number, not "1"'),
            (str, None, "params must be a text, not null"),
            (Model, {}, "params: n is missing"),
        ]:
            with self.subTest(wanted), self.assertRaises(Unfit) as caught:
                load(hint, doc)
            self.assertEqual(str(caught.exception), wanted)

    def test_does_not_write_what_json_can_not_hold(self) -> None:
        for value in (object(), b"bytes", float("inf"), datetime(2030, 1, 1), {object(): 1}):
            with self.assertRaises((TypeError, ValueError)):
                dump(value)


class IdTest(unittest.TestCase):
    def test_rise_within_a_millisecond_and_when_the_clock_goes_back(self) -> None:
        self.enterContext(unittest.mock.patch("streamwright._ids._last", 0))
        ids = [new_id(5), new_id(5), new_id(4), new_id(6), new_id(1 << 47)]
        self.assertEqual(sorted(ids), ids)
        self.assertEqual(len(set(ids)), 5)
        self.assertEqual({len(i) for i in ids}, {26})


class RetryTest(unittest.TestCase):
    def test_repeats_what_may_be_repeated(self) -> None:
        for code, untaken, once, wanted in [
            ("unavailable", False, False, True), ("timeout", False, False, True), ("not_owner", False, True, True), ("unavailable", False, True, False),
            ("unavailable", True, True, True), ("timeout", False, True, False), ("queue_full", False, False, False), ("bad_request", False, False, False),
            ("internal", False, False, False),
        ]:
            self.assertEqual(may_repeat(error_of(code, "", untaken=untaken), once), wanted, (code, untaken, once))

    def test_waits_with_jitter_and_not_before_the_time_that_is_named(self) -> None:
        for n in range(20):
            self.assertTrue(0.0125 <= backoff(n) <= 0.5)
        self.assertGreaterEqual(wait_after(error_of("unavailable", "", timedelta(seconds=3)), 0), 3)
        self.assertLessEqual(wait_after(error_of("not_owner", "", timedelta(seconds=3)), 9), 0.25)

    def test_says_that_it_may_have_been_done(self) -> None:
        err = error_of("timeout", "no answer")
        with self.assertRaises(type(err)) as caught:
            Tries(10, once=True).wait(err)
        self.assertIn("it may have been done", str(caught.exception))


class FeedTest(unittest.TestCase):
    def test_reads_events_wherever_they_are_cut(self) -> None:
        text = b': alive\n\nid: 7\nevent: created\ndata: {"seq":7,"kind":"created","at":"2030-01-31T08:00:00Z","new":1}\n\nid: 9\nevent: gap\ndata: {"from":8,"to":9}\n\nid: 10\nev'
        for step in (1, 3, 1000):
            feed = Feed("/", {}, None)
            told = [e for n in range(0, len(text), step) for e in feed.events(text[n:n + step])]
            self.assertEqual([(e.seq, e.kind) for e in told], [(7, "created"), (9, "gap")])
            self.assertEqual((feed.last, told[1].data), (9, {"from": 8, "to": 9}))
            self.assertEqual(feed.call().headers["Last-Event-ID"], "9")
