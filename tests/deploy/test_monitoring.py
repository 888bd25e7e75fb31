"""Alerts and dashboard are about metrics that there are; Prometheus outlives a gateway."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx2
import pytest
import yaml  # type: ignore[import-untyped]

from tests.deploy.compose import DEPLOY, ROOT, services
from tests.deploy.test_town import asked, begun, ended
from tests.deploy.town import GATEWAYS, METRICS, Town, free_ports, town
from tests.support.hang_guard import HANG
from tests.support.scraped import Scrape, scraped, scraped_until
from tests.support.wire_stand import standing

if TYPE_CHECKING:
    from pathlib import Path

A, B = GATEWAYS
FOLDER: Final = DEPLOY / "prometheus"
CONFIG: Final = yaml.safe_load((FOLDER / "prometheus.yml").read_text("utf-8"))
ALERTS: Final = yaml.safe_load((FOLDER / "alerts.yml").read_text("utf-8"))
DASHBOARD: Final = json.loads((DEPLOY / "grafana" / "multilane.json").read_text("utf-8"))
#: What an expression names beside metrics of Prometheus itself.
NAME: Final = re.compile(r"\b(?:multilane|process)_\w+")
SELECTOR: Final = re.compile(r"\b((?:multilane|process)_\w+)\{([^}]*)\}")


def alerts() -> dict[str, str]:
    """The expressions of the alerts by name."""
    return {rule["alert"]: rule["expr"] for group in ALERTS["groups"] for rule in group["rules"]}


def charts() -> dict[str, list[str]]:
    """The expressions of the dashboard's panels by title."""
    drawn = [one for one in DASHBOARD["panels"] if one["type"] != "row"]
    found = {one["title"]: [target["expr"] for target in one["targets"]] for one in drawn}
    assert len(found) == len(drawn), "two panels have one title"
    return found


def expressions() -> list[str]:
    queries = [one["query"] for one in DASHBOARD["templating"]["list"]]
    return [*alerts().values(), *(one for panel in charts().values() for one in panel), *queries]


def documented() -> dict[str, set[str]]:
    """The labels of each metric, as docs/operations.md lists them (a test compares the gateway)."""
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    section = text.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", section, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}


def base(name: str) -> str:
    """The metric of a series: that of a histogram has several."""
    return name if name in documented() else re.sub(r"_(bucket|count|sum)$", "", name)


def test_alerts_and_dashboard_name_metrics_that_there_are() -> None:
    known = documented()
    named = {base(name) for one in expressions() for name in NAME.findall(one)}
    assert len(named) > 30
    assert named <= known.keys()
    drawn = {base(name) for one in charts().values() for e in one for name in NAME.findall(e)}
    assert {name for name in known if name.startswith("multilane_")} <= drawn


def test_they_ask_for_labels_that_there_are() -> None:
    known = documented()
    own = {"job", "instance", "le"}
    for one in expressions():
        names = [base(name) for name in NAME.findall(one)]
        for name, selector in SELECTOR.findall(one):
            asked_for = set(re.findall(r"(\w+)(?:=~|!~|!=|=)", selector))
            assert asked_for <= known[base(name)] | own, one
        labels = own.union(*(known[name] for name in names))
        for group in re.findall(r"by \(([^)]*)\)", one):
            assert {label.strip() for label in group.split(",")} <= labels, one


async def test_a_histogram_is_asked_by_its_buckets_and_a_counter_by_its_rate() -> None:
    async with standing() as stand:
        families = (await scraped(stand.url)).families
    for one in expressions():
        for name in NAME.findall(one):
            kind = families[base(name)].type if base(name) in families else "gauge"
            assert (kind == "histogram") == name.endswith("_bucket"), one
            if kind in ("counter", "histogram"):
                assert re.search(rf"(rate|increase)\({name}\b", one), one


def test_every_alert_is_explained() -> None:
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    section = text.partition("\n## Alerts\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(alerts())
    for group in ALERTS["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("critical", "warning")
            assert rule["annotations"]["summary"]


def test_both_gateways_are_scraped_where_they_show_their_metrics() -> None:
    [job] = CONFIG["scrape_configs"]
    [static] = job["static_configs"]
    by_name = services()
    targets = dict(target.split(":") for target in static["targets"])
    assert tuple(targets) == GATEWAYS
    for name, port in targets.items():
        words = by_name[name]["command"]
        assert words[words.index("--metrics-port") + 1] == port
        assert words[words.index("--metrics-host") + 1] == "0.0.0.0"
        assert set(by_name[name]["networks"]) & set(by_name["prometheus"]["networks"])
    mounts = dict(mount.split(":")[:2] for mount in by_name["prometheus"]["volumes"])
    assert mounts["./deploy/prometheus"] == "/etc/prometheus"
    for path in CONFIG["rule_files"]:
        assert (FOLDER / path).exists()


def test_the_dashboard_hangs_together() -> None:
    ids = [one["id"] for one in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    variables = {one["name"] for one in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"])))
    assert used - {"__rate_interval"} <= variables
    taken: set[tuple[int, int]] = set()
    for one in DASHBOARD["panels"]:
        at = one["gridPos"]
        across = range(at["x"], at["x"] + at["w"])
        cells = {(x, y) for x in across for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, one["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool is installed")
def test_prometheus_takes_its_files() -> None:
    words = ["promtool", "check", "config", str(FOLDER / "prometheus.yml")]
    ran = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def shown(here: Town, name: str) -> str:
    """Where a gateway shows its metrics."""
    return f"http://127.0.0.1:{here.ports[f'{name} metrics']}"


async def test_two_gateways_are_scraped_while_one_is_killed(tmp_path: Path) -> None:
    async with town(tmp_path) as here, here.client(A) as on_a, here.client(B) as on_b:
        await asked(on_a, "a", input="In 3 words.")
        scrape = await scraped_until(
            shown(here, A), lambda now: now("multilane_responses_total") == 1
        )
        assert scrape("multilane_connections") == 1
        assert scrape("multilane_store_call_seconds_count") > 0
        assert scrape("multilane_store_state", state="ok") == 1
        # Each counts its own.
        scrape = await scraped(shown(here, B))
        assert (scrape("multilane_responses_total"), scrape("multilane_connections")) == (0, 1)
        await begun(on_a, "long")
        there = await begun(on_b, "long")
        here.children[A].kill()
        await here.ended(A)
        with pytest.raises(httpx2.TransportError):
            await scraped(shown(here, A))
        assert (await ended(on_b, "long"))["id"] == there
        before: Scrape = await scraped_until(
            shown(here, B), lambda now: now("multilane_responses_total") == 1
        )
        await asked(on_b, "b", input="In 3 words.")
        after = await scraped_until(
            shown(here, B), lambda now: now("multilane_responses_total") == 2
        )
        for one in before.samples:
            if one.name.endswith(("_total", "_count", "_bucket")):
                assert after(one.name, **one.labels) >= one.value, one
        # It comes back with counters that begin again, as Prometheus expects of a restart.
        here.start(A)
        await here.listening(A)
        again = await scraped_until(
            shown(here, A), lambda now: now("multilane_store_state", state="ok") == 1
        )
        assert again("multilane_responses_total") == again("multilane_connections") == 0


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus is installed")
async def test_a_prometheus_sees_the_death_of_a_gateway(tmp_path: Path) -> None:
    async with town(tmp_path) as here:
        ports = free_ports("prometheus")
        here.ports |= ports
        text = (FOLDER / "prometheus.yml").read_text("utf-8").replace("15s", "1s")
        text = text.replace("alerts.yml", str(FOLDER / "alerts.yml"))
        for name, known in zip(GATEWAYS, METRICS, strict=True):
            text = text.replace(f"{name}:9464", f"127.0.0.1:{here.ports[known]}")
        config = tmp_path / "prometheus.yml"
        config.write_text(text, "utf-8")
        place = f"127.0.0.1:{ports['prometheus']}"
        options = ["--config.file", str(config), "--storage.tsdb.path", str(tmp_path / "data")]
        here.spawn("prometheus", ["prometheus", *options, "--web.listen-address", place])
        await here.listening("prometheus")
        async with httpx2.AsyncClient(trust_env=False, timeout=HANG) as http:

            async def query(expression: str) -> list[dict[str, Any]]:
                answer = await http.get(
                    f"http://{place}/api/v1/query", params={"query": expression}
                )
                assert answer.status_code == 200, (expression, answer.text)
                found: list[dict[str, Any]] = answer.json()["data"]["result"]
                return found

            async def until(expression: str, number: int) -> None:
                with anyio.fail_after(HANG):
                    while len(await query(expression)) != number:  # noqa: ASYNC110
                        await anyio.sleep(0.1)

            await until("up == 1", 2)
            await until("multilane_connections", 2)
            here.children[A].kill()
            await until(alerts()["MultilaneDown"], 1)
            await until("multilane_connections", 1)
            variables = {"$job": "multilane", "$instance": ".*", "$__rate_interval": "1m"}
            for one in expressions():
                for name, value in variables.items():
                    one = one.replace(name, value)
                if "label_values" not in one and one != "prometheus":
                    await query(one)
