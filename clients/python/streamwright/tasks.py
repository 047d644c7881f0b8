"""Tasks: functions that run the items of a type, and with which items are submitted."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints

from ._json import load
from .client import Client
from .model import Submitted, Work
from .run import Run

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """A function for the items of a type. Called, it is the function itself.

    The function takes the params, and as second argument, or as one that is annotated so, the
    Run. Params come as the type that the argument is annotated with. It may be `async def`.
    """

    def __init__(self, app: App, name: str, function: Callable[P, R], defaults: dict[str, Any]) -> None:
        self.app, self.name, self.function = app, name, function
        self._defaults = {k: v for k, v in defaults.items() if v is not None}
        self.is_async = inspect.iscoroutinefunction(function)
        self.__doc__ = function.__doc__
        self._hints: list[Any] = []  # of the arguments; Run for the run
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        hints = get_type_hints(function, include_extras=True)
        for n, p in enumerate(inspect.signature(function).parameters.values()):
            if p.kind not in kinds:
                continue
            hint = hints.get(p.name, Any)
            if n == 1 and p.default is inspect.Parameter.empty:
                hint = Run
            if hint is Run or n == 0:
                self._hints.append(hint)
            elif p.default is inspect.Parameter.empty:
                raise TypeError(f"the function of task {name} takes {p.name}: it may take the params, and the Run")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def arguments(self, run: Run) -> list[Any]:
        """Return the arguments for a run. Raises _json.Unfit."""
        return [run if hint is Run else load(hint, run.params) for hint in self._hints]

    def work(self, params: Any = None, **options: Any) -> Work:
        """Return an item of the task, for `submit_many`, a batch, a spawn, or an AsyncClient."""
        return Work(self.name, params, **{**self._defaults, **options})

    def submit(self, params: Any = None, **options: Any) -> Submitted:
        """Submit an item with the app's client."""
        return self.app.client.submit(self.work(params, **options))


class App:
    """The tasks of a program. Without a client of its own it makes one, by the environment, when it needs one."""

    def __init__(self, client: Client | None = None) -> None:
        self._client = client
        self.tasks: dict[str, Task[Any, Any]] = {}

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = Client()
        return self._client

    def task(
        self, name: str, *, retries: int | None = None, timeout: timedelta | None = None, priority: int | str | None = None, **options: Any,
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Make the function below the task of type `name`.

        retries (attempts beyond the first), timeout (of one attempt), priority and the other
        fields of Work go with what is submitted by the task. Items that come otherwise have the
        settings of their type.
        """
        defaults: dict[str, Any] = {"max_attempts": None if retries is None else retries + 1, "timeout": timeout, "priority": priority, **options}
        Work(name, **defaults)  # an unknown option fails here

        def make(function: Callable[P, R]) -> Task[P, R]:
            if name in self.tasks:
                raise ValueError(f"there is a task {name} already")
            task = self.tasks[name] = Task(self, name, function, defaults)
            return task

        return make
