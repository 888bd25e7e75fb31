"""What `/metrics` says, as numbers by name and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import httpx2
from prometheus_client.parser import text_string_to_metric_families

from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prometheus_client import Metric


class Scrape:
    """One answer. `scrape(name, label=value)` is the sum of the samples with these labels."""

    def __init__(self, text: str) -> None:
        self.families: dict[str, Metric] = {}
        for family in text_string_to_metric_families(text):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            assert name not in self.families, f"{name} is there twice"
            self.families[name] = family
        self.samples = [one for family in self.families.values() for one in family.samples]

    def __call__(self, name: str, **labels: str) -> float:
        found = [
            one.value
            for one in self.samples
            if one.name == name and labels.items() <= one.labels.items()
        ]
        return sum(found)

    def values(self, name: str, label: str) -> dict[str, float]:
        """The samples of a name by one label; those that are 0 are left out."""
        return {
            one.labels[label]: one.value for one in self.samples if one.name == name and one.value
        }


async def scraped(base: str, headers: Mapping[str, str] | None = None) -> Scrape:
    """Ask the gateway whose base URL this is (`…/v1`)."""
    async with httpx2.AsyncClient(trust_env=False, timeout=HANG) as http:
        answer = await http.get(base.removesuffix("/v1") + "/metrics", headers=headers)
    assert answer.status_code == 200, answer.text
    return Scrape(answer.text)


async def scraped_until(base: str, holds: Callable[[Scrape], object]) -> Scrape:
    """Ask until it holds: what is counted at an end comes a moment after its last event."""
    with anyio.fail_after(HANG):
        while not holds(scrape := await scraped(base)):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    return scrape
