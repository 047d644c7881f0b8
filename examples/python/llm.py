"""Answers of a language model, as items: streamed as they come, and resumed where an attempt was lost.

The model is a fake: replace `model` by a call of a real one. What it says is the item's
output, token by token, which anyone may follow; a checkpoint has what was said, so that the next
attempt begins with it and pays for no token twice; a cancel closes the stream.

    engine serve &
    python3 llm.py "Why is the sky blue?"
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

from streamwright import App, AsyncClient, Fail, Run, Worker

app = App()


class Overloaded(Exception):
    """What a model's server says when it has too much to do."""


@dataclass
class Prompt:
    text: str
    most: int = 256  # tokens


async def model(prompt: Prompt, said: list[str], attempt: int) -> AsyncIterator[str]:
    """Stream an answer, behind what was said already. The fake one is overloaded once."""
    answer = f"You ask: {prompt.text} I am a fake model and do not know.".split(" ")
    for n, token in enumerate(answer[len(said):prompt.most]):
        if attempt == 1 and n == 5:
            raise Overloaded
        await asyncio.sleep(0.01)
        yield token


@app.task("prompt", retries=5, timeout=timedelta(minutes=5))
async def answer(prompt: Prompt, run: Run) -> dict[str, object]:
    said: list[str] = list(run.saved or [])
    try:
        if said:
            await run.write(" ".join(said) + " ")  # each run's output begins anew
        async for token in model(prompt, said, run.attempt):
            said.append(token)
            await run.write(token + " ")
            if len(said) % 4 == 0:
                await run.save(said)
    except Overloaded as err:
        await run.save(said)
        raise Fail("the model is overloaded", code="rate_limited", retry_after=timedelta(milliseconds=100)) from err
    return {"text": " ".join(said), "tokens": len(said)}


async def main(text: str) -> None:
    worker = Worker(app, loop=asyncio.get_running_loop(), concurrency=16)
    worker.start()
    async with AsyncClient() as client:
        out = await client.submit(answer.work(Prompt(text)))
        said, shown = b"", 0
        async for chunk in client.follow_output(out.id):
            said = chunk.data if chunk.reset else said + chunk.data
            print(said[shown:].decode(), end="", flush=True)
            shown = max(shown, len(said))
        item = await client.wait(out.id)
        print(f"\n{item.state}, attempt {item.attempt}: {item.result['tokens']} tokens")
    await asyncio.to_thread(worker.stop)


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "Why is the sky blue?"))
