"""deploy/kubernetes: what the API's schema says of it, what no pod may do, and names that it shares with the programs.

No cluster is asked. `kubectl kustomize` puts the files together where there is a kubectl; without one they are read as
they are, the overlay for GPUs left out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from broker.keys import EPISODES, PROMPTS, ROLLOUTS, Keys
from broker.monitoring.health import PARTS
from broker.monitoring.snapshot import RQ_QUEUE
from config.episodes.agents import AgentsConfig
from config.generators import SamplingConfig
from config.loading import load_run
from config.scorer_kinds import QUEUES, SLOW
from tests.support.paths import RECIPES, ROOT

FOLDER = ROOT / "deploy" / "kubernetes"
SCHEMA = json.loads((Path(__file__).parent / "kubernetes-spec.json").read_text(encoding="utf-8"))
PREFIX = {"v1": "core.v1", "apps/v1": "apps.v1", "policy/v1": "policy.v1"}
PREFIX["networking.k8s.io/v1"] = "networking.v1"
KUBECTL = shutil.which("kubectl")
OVERLAYS = ("base", "keda", "judge", *(("gpu",) if KUBECTL else ()))
ROLES = {role: role for role in ("learner", "generator", "agent", "scorer")} | {"scorer-code": "scorer"}
USERS = {"redis": 999, "sandbox": 61064}  # as the images have them; 1000 else


@cache
def objects(overlay: str) -> list[dict[str, Any]]:
    """Return an overlay's objects: put together by kubectl, or else as its files have them."""
    if KUBECTL:
        command = [KUBECTL, "kustomize", str(FOLDER / overlay)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return [found for found in yaml.safe_load_all(text) if found]
    folder = FOLDER / overlay
    files = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    return [
        found for file in files for found in yaml.safe_load_all((folder / file).read_text(encoding="utf-8"))
    ]


def pods(overlay: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each StatefulSet and Deployment, with its pod's specification."""
    for one in objects(overlay):
        if one["kind"] in {"StatefulSet", "Deployment"}:
            yield one["metadata"]["name"], one["spec"]["template"]["spec"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_object_is_one_by_the_apis_schema(overlay: str) -> None:
    found = [one for one in objects(overlay) if not one["apiVersion"].startswith("keda.sh/")]
    for one in found:
        kind = f"io.k8s.api.{PREFIX[one['apiVersion']]}.{one['kind']}"
        jsonschema.Draft7Validator(SCHEMA | {"$ref": f"#/$defs/{kind}"}).validate(one)
    assert found or overlay == "keda"


def test_the_schema_refuses_a_field_that_there_is_not() -> None:
    schema = jsonschema.Draft7Validator(SCHEMA | {"$ref": "#/$defs/io.k8s.api.apps.v1.StatefulSet"})
    spec = {"serviceName": "redis", "selector": {}, "template": {}, "replica": 1}
    with pytest.raises(jsonschema.ValidationError, match="replica"):
        schema.validate({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": spec})


def test_every_file_of_the_folder_is_used() -> None:
    for overlay in FOLDER.iterdir():
        text = (overlay / "kustomization.yaml").read_text(encoding="utf-8")
        files = {file.name for file in overlay.iterdir()} - {"kustomization.yaml"}
        assert [name for name in files if name not in text] == []


WALLS = {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_pod_can_not_write_outside_its_volumes_nor_gain_rights(overlay: str) -> None:
    for name, pod in pods(overlay):
        security = pod["securityContext"]
        assert (security["runAsNonRoot"], security["runAsUser"]) == (True, USERS.get(name, 1000)), name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["automountServiceAccountToken"] is False, name
        (container,) = pod["containers"]
        assert container["securityContext"] == WALLS, name
        assert container["resources"]["limits"]["memory"], name
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys(), name
        assert "/tmp" in [mount["mountPath"] for mount in container["volumeMounts"]], f"{name}: HOME, TMPDIR"


@pytest.mark.parametrize("name", ROLES)
def test_a_roles_probes_are_its_health_check_and_outlast_an_outage_of_redis(name: str) -> None:
    (container,) = dict(pods("base"))[name]["containers"]
    for kind in ("startupProbe", "livenessProbe"):
        probe = container[kind]
        assert probe["exec"]["command"][-1] == f'exec python -m broker.monitoring.health {ROLES[name]} "$RUN"'
        assert probe["timeoutSeconds"] > 5, "its own questions wait for 5 s"
    assert ROLES[name] in PARTS
    outage_s = load_run(["--config", str(ROOT / "config/recipes/demo_cpu.yaml")]).broker.outage_s
    liveness = container["livenessProbe"]
    assert liveness["periodSeconds"] * liveness["failureThreshold"] > outage_s
    assert "readinessProbe" not in container, "nobody asks it anything"


def test_a_pod_has_the_time_to_end_that_its_role_takes() -> None:
    grace = {name: pod["terminationGracePeriodSeconds"] for name, pod in pods("base")}
    assert grace["learner"] >= 300, "a step, and a checkpoint"
    assert all(grace[name] >= 60 for name in ("redis", "generator", "agent", "scorer", "scorer-code"))


def test_secrets_come_from_one_secret_and_the_sandbox_has_none() -> None:
    names = set()
    for _, pod in pods("base"):
        for variable in pod["containers"][0].get("env", ()):
            if found := variable.get("valueFrom"):
                assert found["secretKeyRef"]["name"] == "millrace"
                names.add(found["secretKeyRef"]["key"])
            else:
                assert variable["name"] in {"REDIS_MAXMEMORY", "SERVED_JUDGE_URL"}
    assert names == {"redis-url", "redis-password", "hf-token", "judge-api-key"}
    sandbox = dict(pods("base"))["sandbox"]["containers"][0]
    assert not sandbox.keys() & {"env", "envFrom"}


@pytest.mark.parametrize("recipe", sorted(RECIPES.glob("*.yaml")), ids=lambda file: file.stem)
def test_what_the_learner_is_told_is_a_run(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (line,) = dict(pods("base"))["learner"]["containers"][0]["args"]
    words = line.removesuffix(" $LEARNER_ARGS").split()[4:]
    told = {
        "/etc/millrace/stack.yaml": str(FOLDER / "base" / "stack.yaml"),
        '"$RECIPE"': str(recipe),
        'name="$RUN"': "name=demo",
    }
    run = load_run([told.get(word, word) for word in words])
    assert str(run.runs_dir) == "/runs"
    assert run.learner.weights.type == "relay"
    assert run.learner.weights.directory is None, "pods share no folder"
    assert run.learner.gpus == run.generators.gpus == (), "the device plugin hands them out"
    assert run.scorers.sandbox_urls == ("http://sandbox:8080",)
    assert run.scorers.sandbox == "auto", "tools `python` and `bash` keep their state with the agent"
    assert {"math", "code"} <= set(run.scorers.tasks)


def test_a_run_of_ones_own_with_agents_is_an_overlay_as_the_page_has_it(tmp_path: Path) -> None:
    if KUBECTL is None:
        pytest.skip("an overlay is kubectl's to put together, and there is no kubectl here")
    literals = ["RUN=mine", "RECIPE=config/recipes/demo_agents.yaml"]
    overlay = {
        "resources": [os.path.relpath(FOLDER / "base", tmp_path)],
        "configMapGenerator": [
            {"name": "run", "namespace": "millrace", "behavior": "merge", "literals": literals}
        ],
        "replicas": [{"name": "agent", "count": 4}],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
    command = [KUBECTL, "kustomize", str(tmp_path)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    made = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text)}
    agent = made["Deployment", "agent"]["spec"]
    (container,) = agent["template"]["spec"]["containers"]
    told = made["ConfigMap", container["envFrom"][0]["configMapRef"]["name"]]["data"]
    assert (agent["replicas"], told["RUN"], told["LEARNER_ARGS"]) == (4, "mine", "")
    assert container["args"] == ['exec python -m agents --run "$RUN"']


def test_the_images_are_those_that_the_dockerfiles_make() -> None:
    dockerfile = (ROOT / "deploy" / "docker" / "Dockerfile").read_text(encoding="utf-8")
    stages = re.findall(r"^FROM \S+ AS (\S+)", dockerfile, re.MULTILINE)
    made = {f"millrace-{stage}" for stage in stages} | {"millrace-redis", "millrace-gpu"}
    used = [pod["containers"][0]["image"] for overlay in OVERLAYS for _, pod in pods(overlay)]
    assert {image.partition(":")[0] for image in used} <= made


def test_the_run_and_redis_lie_on_disks_of_their_own() -> None:
    sets = of_kind("base", "StatefulSet")
    claims = {name: spec["volumeClaimTemplates"][0]["metadata"]["name"] for name, spec in sets.items()}
    assert claims == {"redis": "data", "learner": "runs"}
    for name, path in (("redis", "/data"), ("learner", "/runs")):
        mounts = dict(pods("base"))[name]["containers"][0]["volumeMounts"]
        assert {"name": claims[name], "mountPath": path} in mounts


def of_kind(overlay: str, kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one["spec"] for one in objects(overlay) if one["kind"] == kind}


def test_every_pod_has_a_budget_of_disruptions_and_two_wait_for_a_word() -> None:
    budgets = of_kind("base", "PodDisruptionBudget")
    assert budgets.keys() == dict(pods("base")).keys()
    assert {name for name, spec in budgets.items() if spec["maxUnavailable"] == 0} == {"redis", "learner"}
    for name, spec in budgets.items():
        assert spec["selector"] == {"matchLabels": {"app.kubernetes.io/component": name}}


def test_nobody_reaches_anybody_but_by_name_and_the_sandbox_reaches_nobody() -> None:
    policies = of_kind("base", "NetworkPolicy")
    assert policies["nobody"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert "egress" not in policies["sandbox"]
    label = {"key": "app.kubernetes.io/component", "operator": "In", "values": ["agent", "scorer-code"]}
    asks = {"podSelector": {"matchExpressions": [label]}}
    assert policies["sandbox"]["ingress"][0]["from"] == [asks]
    (expression,) = policies["redis"]["ingress"][0]["from"][0]["podSelector"]["matchExpressions"]
    assert set(expression["values"]) == ROLES.keys()
    (roles,) = policies["roles"]["podSelector"]["matchExpressions"]
    assert set(roles["values"]) == ROLES.keys() | {"judge"}


@pytest.mark.parametrize(("overlay", "roles"), [("gpu", {"learner", "generator"}), ("judge", {"judge"})])
def test_gpus_are_asked_for_where_a_gpu_works(overlay: str, roles: set[str]) -> None:
    if overlay not in OVERLAYS:
        pytest.skip("an overlay's patches are kubectl's to apply, and there is no kubectl here")
    limits = {name: pod["containers"][0]["resources"]["limits"] for name, pod in pods(overlay)}
    assert {name for name, limit in limits.items() if limit.get("nvidia.com/gpu")} == roles


# KEDA's objects, by the fields that its own definitions have: github.com/kedacore/keda at 8b4f083 (2026-08-20),
# config/crd/bases, pkg/scalers/redis_scaler.go and redis_streams_scaler.go.
SCALED_OBJECT = {
    "advanced", "cooldownPeriod", "fallback", "idleReplicaCount", "initialCooldownPeriod", "maxReplicaCount",
    "minReplicaCount", "pollingInterval", "scaleTargetRef", "triggers",
}  # fmt: skip
SERVER = {"address", "databaseIndex", "enableTLS", "unsafeSsl"}
KNOWN = {"redis": SERVER | {"listName", "listLength", "activationListLength"}}
KNOWN["redis-streams"] = SERVER | {"stream", "streamLength"}


def test_kedas_objects_have_fields_that_keda_knows() -> None:
    for one in objects("keda"):
        assert one["apiVersion"] == "keda.sh/v1alpha1"
    for name, spec in of_kind("keda", "ScaledObject").items():
        assert spec.keys() <= SCALED_OBJECT
        assert spec["scaleTargetRef"] == {"name": name}
        assert spec["fallback"].keys() == {"failureThreshold", "replicas"}
        for trigger in spec["triggers"]:
            assert trigger.keys() == {"type", "metadata", "authenticationRef"}
            said = trigger["metadata"]
            assert said.keys() <= KNOWN[trigger["type"]]
            assert all(isinstance(value, str) for value in said.values()), "KEDA takes text alone"
            assert said["address"] == "redis.millrace.svc.cluster.local:6379"
    (authentication,) = of_kind("keda", "TriggerAuthentication").values()
    secret = {"parameter": "password", "name": "millrace", "key": "redis-password"}
    assert authentication == {"secretTargetRef": [secret]}


def test_keda_counts_the_keys_that_the_run_has() -> None:
    keys = Keys("demo")
    run = next(one for one in yaml.safe_load_all((FOLDER / "base/kustomization.yaml").read_text()))
    assert "RUN=demo" in run["configMapGenerator"][0]["literals"]
    counted = {
        name: {
            said.get("listName") or said["stream"] for said in (one["metadata"] for one in spec["triggers"])
        }
        for name, spec in of_kind("keda", "ScaledObject").items()
    }

    def served(deployment: str) -> set[str]:
        command = dict(pods("base"))[deployment]["containers"][0]["args"][0]
        queues = re.findall(r"--queues (\S+)", command)[0].split(",")
        assert set(queues) <= set(QUEUES)
        extra = {SLOW} if "code" in queues else set()
        return {RQ_QUEUE + keys.queue(queue) for queue in {*queues, *extra}}

    spec = of_kind("keda", "ScaledObject")["agent"]
    room = AgentsConfig().episodes // SamplingConfig().group_size
    assert {trigger["metadata"]["streamLength"] for trigger in spec["triggers"]} == {str(room)}
    assert spec["minReplicaCount"] == of_kind("base", "Deployment")["agent"]["replicas"] == 0
    assert counted == {
        "generator": {keys.stream(PROMPTS), keys.stream(EPISODES)},
        "agent": {keys.stream(EPISODES)},
        "scorer": served("scorer") | {keys.stream(ROLLOUTS)},
        "scorer-code": served("scorer-code"),
    }
