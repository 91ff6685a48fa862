"""What `deploy/` ships: manifests with the fields of KubeRay's CRDs, and the image's steps as a script."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from robustcf_jobs.inputs.config import AuditConfig, read_config

from tests.helpers.jobworld import ROOT, customers, make_audit

DEPLOY = ROOT / "deploy"
POD_FIELDS = {
    "affinity", "containers", "initContainers", "nodeSelector", "restartPolicy", "securityContext",
    "serviceAccountName", "terminationGracePeriodSeconds", "tolerations", "volumes",
}  # fmt: skip
CONTAINER_FIELDS = {"name", "image", "args", "command", "env", "resources", "securityContext", "volumeMounts"}
# The fields of the published CRDs of KubeRay 1.6, ray.io/v1.
GROUP = {"rayStartParams", "template", "labels", "resources"}
CLUSTER_FIELDS = {
    "authOptions", "autoscalerOptions", "enableInTreeAutoscaling", "gcsFaultToleranceOptions",
    "headGroupSpec", "rayVersion", "suspend", "upgradeStrategy", "workerGroupSpecs",
}  # fmt: skip
WORKER_FIELDS = GROUP | {
    "groupName", "idleTimeoutSeconds", "maxReplicas", "minReplicas", "numOfHosts", "replicas",
    "scaleStrategy", "suspend",
}  # fmt: skip
JOB_FIELDS = {
    "activeDeadlineSeconds", "backoffLimit", "clusterSelector", "deletionStrategy", "entrypoint",
    "entrypointNumCpus", "entrypointResources", "jobId", "managedBy", "metadata",
    "preRunningDeadlineSeconds", "rayClusterSpec", "runtimeEnvYAML", "shutdownAfterJobFinishes",
    "submissionMode", "submitterConfig", "submitterPodTemplate", "suspend", "ttlSecondsAfterFinished",
}  # fmt: skip


def manifest(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))
    return found


@pytest.fixture(params=["rayjob.yaml", "raycronjob.yaml"])
def job(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The RayJob's spec in a manifest."""
    found = manifest(request.param)
    assert found["apiVersion"] == "ray.io/v1"
    if found["kind"] == "RayJob":
        return dict(found["spec"])
    assert found["kind"] == "RayCronJob"
    assert found["spec"].keys() <= {"schedule", "timeZone", "suspend", "jobTemplate"}
    assert re.fullmatch(r"(\S+ ){4}\S+", found["spec"]["schedule"])
    return dict(found["spec"]["jobTemplate"])


def pods(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    cluster = job["rayClusterSpec"]
    yield job["submitterPodTemplate"]["spec"]
    yield cluster["headGroupSpec"]["template"]["spec"]
    for group in cluster["workerGroupSpecs"]:
        yield group["template"]["spec"]


def test_every_field_is_one_of_the_published_crd(job: dict[str, Any]) -> None:
    cluster = job["rayClusterSpec"]
    assert job.keys() <= JOB_FIELDS
    assert cluster.keys() <= CLUSTER_FIELDS
    assert cluster["headGroupSpec"].keys() <= GROUP | {"enableIngress", "headService", "serviceType"}
    assert all(group.keys() <= WORKER_FIELDS for group in cluster["workerGroupSpecs"])
    assert cluster["autoscalerOptions"].keys() <= {
        "env", "idleTimeoutSeconds", "image", "imagePullPolicy", "resources", "upscalingMode", "version",
    }  # fmt: skip
    assert cluster["authOptions"].keys() <= {"enableK8sTokenAuth", "mode", "secretName"}
    for pod in pods(job):
        assert pod.keys() <= POD_FIELDS
        assert all(container.keys() <= CONTAINER_FIELDS for container in pod["containers"])


def test_the_job_resumes_is_bounded_and_leaves_no_cluster_behind(job: dict[str, Any]) -> None:
    assert job["shutdownAfterJobFinishes"] is True
    assert job["backoffLimit"] >= 1
    assert 0 < job["activeDeadlineSeconds"] < 24 * 3600
    assert job["preRunningDeadlineSeconds"] < job["activeDeadlineSeconds"]


def test_the_head_runs_no_tasks_and_the_workers_grow_from_zero(job: dict[str, Any]) -> None:
    cluster = job["rayClusterSpec"]
    assert cluster["enableInTreeAutoscaling"] is True
    assert cluster["authOptions"] == {"mode": "token"}
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert cluster["rayVersion"] == version("ray")
    for group in cluster["workerGroupSpecs"]:
        assert group["minReplicas"] == group["replicas"] == 0 < group["maxReplicas"]
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())


def test_no_pod_is_root_and_all_have_one_image_and_limits(job: dict[str, Any]) -> None:
    images = set()
    for pod in pods(job):
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            images.add(container["image"])
            assert container["resources"]["limits"].keys() == {"cpu", "memory"}
    assert len(images) == 1
    assert not images.pop().endswith(":latest")


def test_the_image_is_pinned_not_root_and_made_by_the_script() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(
        r"FROM python:3\.\d+\.\d+-\S+", next(line for line in lines if line.startswith("FROM"))
    )
    assert "USER 1000" in lines
    assert any("deploy/install.sh /usr/src/robustcf /opt/robustcf" in line for line in lines)
    assert '-c "$sources/constraints.txt"' in (DEPLOY / "install.sh").read_text(encoding="utf-8")


def test_the_nightly_config_is_valid() -> None:
    config = read_config(AuditConfig, DEPLOY / "audit.toml")
    assert config.output == "s3://bucket/runs/@TODAY@"


def test_the_nightly_script_fills_in_the_dates_and_needs_no_earlier_run(tmp_path: Path) -> None:
    """The first night has no earlier run; the script says so and goes on."""
    config = make_audit(tmp_path, customers(40), output="runs/@TODAY@", previous="runs/@YESTERDAY@")
    text = config.read_text(encoding="utf-8")
    for name in ("runs/", "forest", "schema.toml", "customers.parquet", "training.parquet"):
        text = text.replace(f'"{name}', f'"{tmp_path}/{name}')
    config.write_text(text, encoding="utf-8")
    binaries = str(Path(sys.executable).parent)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    done = subprocess.run(
        ["sh", str(DEPLOY / "nightly.sh"), str(config)],
        env=clean | {"PATH": f"{binaries}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "no complete run at" in done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", run.name)
    assert (run / "report.html").exists()


@pytest.mark.slow  # downloads and installs all packages
def test_the_steps_of_the_image_work_in_a_clean_environment(tmp_path: Path) -> None:
    clean = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME") or k.startswith("PIP_")}
    done = subprocess.run(
        [str(DEPLOY / "install.sh"), str(ROOT), str(tmp_path / "venv")],
        cwd=tmp_path,
        env=clean | {"PYTHON": sys.executable, "NUMBA_CPU_NAME": "generic"},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    assert "kernels compiled: " in done.stdout
    package = next((tmp_path / "venv/lib").glob("python3*/site-packages/robustcf"))
    assert list(package.glob("solve/__pycache__/*.nbi")), "the kernels are stored beside the code"
    found = subprocess.run(
        [str(tmp_path / "venv/bin/robustcf"), "doctor", "--cpus", "1"],
        cwd=tmp_path,
        env=clean | {"NUMBA_CPU_NAME": "generic"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert found.returncode == 0, found.stdout
    assert "compiled and cached" in found.stdout
