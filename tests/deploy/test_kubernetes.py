"""deploy/kubernetes is what Kubernetes takes, and fits the gateway's settings, probes and times."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml  # type: ignore[import-untyped]

import multilane
from gateway.config.settings import Settings
from tests.deploy.compose import DEPLOY
from tests.deploy.test_files import settings

if TYPE_CHECKING:
    from gateway.config.settings import Settings as Loaded

FOLDER: Final = DEPLOY / "kubernetes"
KUSTOMIZATION: Final = yaml.safe_load((FOLDER / "kustomization.yaml").read_text("utf-8"))
#: Seconds for what a gateway writes after its drain.
LAST: Final = 15


def manifests() -> dict[str, dict[str, Any]]:
    """The resources by kind."""
    found = [
        document
        for name in KUSTOMIZATION["resources"]
        for document in yaml.safe_load_all((FOLDER / name).read_text("utf-8"))
    ]
    by_kind = {document["kind"]: document for document in found}
    assert len(by_kind) == len(found)
    return by_kind


def pod() -> dict[str, Any]:
    """The Deployment's pods."""
    spec: dict[str, Any] = manifests()["Deployment"]["spec"]["template"]["spec"]
    return spec


def container() -> dict[str, Any]:
    """The gateway in there."""
    [one] = pod()["containers"]
    found: dict[str, Any] = one
    return found


def started(patch: pytest.MonkeyPatch) -> Loaded:
    """What the gateway runs with."""
    secrets = {
        "api-keys": "k1,k2",
        "upstream-key": "sk-1",
        "redis-url": "rediss://:password@redis.test:6379/0",
    }
    variables = {
        one["name"]: one.get("value") or secrets[one["valueFrom"]["secretKeyRef"]["key"]]
        for one in container()["env"]
    }
    [name] = [one for one in container()["args"] if one.startswith("/etc/multilane/")]
    [generated] = KUSTOMIZATION["configMapGenerator"]
    assert generated["files"] == [name.removeprefix("/etc/multilane/")]
    words = [
        str(FOLDER / generated["files"][0]) if one == name else one for one in container()["args"]
    ]
    return settings(words, variables, patch)


@pytest.mark.parametrize("kind", manifests())
@pytest.mark.parametrize("version", ["1.27", "1.30", "1.37"])
def test_kubernetes_takes_it(kind: str, version: str) -> None:
    validator = pytest.importorskip("kubernetes_validate")
    validator.validate(manifests()[kind], version, strict=True)


def test_the_validator_refuses_what_is_none() -> None:
    validator = pytest.importorskip("kubernetes_validate")
    wrong = manifests()["Deployment"]
    wrong["spec"]["template"]["spec"]["containers"][0]["readinessProb"] = {}
    with pytest.raises(validator.ValidationError):
        validator.validate(wrong, "1.30", strict=True)


def test_every_file_has_its_place() -> None:
    named = set(KUSTOMIZATION["resources"])
    for generated in KUSTOMIZATION["configMapGenerator"]:
        named |= set(generated["files"])
    assert named | {"kustomization.yaml"} == {path.name for path in FOLDER.iterdir()}
    assert {one["name"] for one in KUSTOMIZATION["images"]} == {container()["image"]}
    generated_names = {one["name"] for one in KUSTOMIZATION["configMapGenerator"]}
    volumes = [one["configMap"]["name"] for one in pod()["volumes"] if "configMap" in one]
    assert set(volumes) == generated_names


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl is installed")
def test_kustomize_makes_what_kubernetes_takes() -> None:
    validator = pytest.importorskip("kubernetes_validate")
    words = ["kubectl", "kustomize", str(FOLDER)]
    made = subprocess.run(words, capture_output=True, encoding="utf-8", check=True).stdout
    by_kind = {one["kind"]: one for one in yaml.safe_load_all(made)}
    assert by_kind.keys() == {"ConfigMap", *manifests()}
    for one in by_kind.values():
        validator.validate(one, "1.30", strict=True)
    spec = by_kind["Deployment"]["spec"]["template"]["spec"]
    [settings_volume] = [one for one in spec["volumes"] if "configMap" in one]
    assert settings_volume["configMap"]["name"] == by_kind["ConfigMap"]["metadata"]["name"]
    assert spec["containers"][0]["image"] == f"multilane:{multilane.__version__}"


def test_all_of_them_mean_the_same_pods() -> None:
    by_kind = manifests()
    labels = by_kind["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert by_kind["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert by_kind["Service"]["spec"]["selector"] == labels
    assert by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    [spread] = pod()["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels
    target = by_kind["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", "multilane")
    ports = {one["name"]: one["containerPort"] for one in container()["ports"]}
    assert {one["targetPort"] for one in by_kind["Service"]["spec"]["ports"]} <= ports.keys()
    assert ports["http"] == Settings.model_fields["port"].default


def test_it_starts_and_outlives_its_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    found = started(monkeypatch)
    assert found.host == "0.0.0.0"
    assert [key.get_secret_value() for key in found.api_keys] == ["k1", "k2"]
    assert found.redis_url.startswith("rediss://")
    waits = int(container()["lifecycle"]["preStop"]["exec"]["command"][1])
    probe = container()["readinessProbe"]
    # Before SIGTERM the Service has to have forgotten the pod.
    assert waits > probe["periodSeconds"] * probe["failureThreshold"]
    assert pod()["terminationGracePeriodSeconds"] >= waits + found.drain_timeout + LAST


def test_its_metrics_are_scraped_and_not_served_to_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    found = started(monkeypatch)
    assert (found.metrics_host, found.metrics_access) == ("0.0.0.0", "keyed")
    ports = {one["name"]: one["containerPort"] for one in container()["ports"]}
    notes = manifests()["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert found.metrics_port == ports["metrics"] == int(notes["prometheus.io/port"])
    [served] = manifests()["Service"]["spec"]["ports"]
    assert served["targetPort"] == "http"


def test_it_may_write_nowhere_but_tmp() -> None:
    rights = container()["securityContext"]
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["allowPrivilegeEscalation"] is False
    assert pod()["securityContext"]["runAsUser"] == 10001  # the image's
    assert f"USER {pod()['securityContext']['runAsUser']}:" in (DEPLOY / "Dockerfile").read_text()
    writable = [one["mountPath"] for one in container()["volumeMounts"] if not one.get("readOnly")]
    assert writable == ["/tmp"]


def test_a_backend_that_is_away_restarts_nobody() -> None:
    assert container()["livenessProbe"]["httpGet"]["path"] == "/health"
    assert container()["readinessProbe"]["httpGet"]["path"] == "/ready?exclude=store"
