"""Storage that runs full, fails for a while or for good, or spoils a finished shard."""

import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from robustcf_jobs.inputs.config import AuditConfig, config_as_json, read_config
from robustcf_jobs.inputs.errors import TaskFailed
from robustcf_jobs.run.folder import RunFolder

from tests.helpers.faultworld import SEEDS, SHARDS, assert_whole, mostly_denied, small_audit
from tests.helpers.jobworld import run_audit, shards
from tests.helpers.storage import bucket, copied, resize, small_disk


def can_mount() -> bool:
    return (
        os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.skipif(not can_mount(), reason="only root can mount a disk of a few kilobytes")
def test_a_full_disk_stops_the_run_and_more_room_finishes_it(
    undisturbed: Path, local_ray: Any, tmp_path: Path, seed: int
) -> None:
    config, run = small_audit(tmp_path), tmp_path / "run"
    needed = int(subprocess.check_output(["du", "-sk", undisturbed]).split()[0])
    with small_disk(run, random.Random(seed).randrange(needed // 4, needed * 3 // 4)):
        with pytest.raises((TaskFailed, OSError), match="No space left"):
            run_audit(config)
        assert RunFolder(str(run)).names("summary") == {}
        resize(run, 100_000)
        assert run_audit(config) == 0
        assert_whole(undisturbed, run)


@pytest.mark.parametrize("seed", SEEDS)
def test_storage_that_fails_now_and_then_costs_nothing(
    undisturbed: Path, local_ray: Any, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    with bucket() as (proxy, address):
        proxy.fails, proxy.silent = lambda number, verb, path: rng.random() < 0.05, bool(seed % 2)
        assert run_audit(small_audit(tmp_path, output=address)) == 0
        assert proxy.failed > 5
        proxy.fails = lambda number, verb, path: False
        assert_whole(undisturbed, copied(RunFolder(address), tmp_path / "copy"))


@pytest.mark.parametrize("seed", SEEDS)
def test_storage_that_fails_for_good_ends_the_run_and_a_resume_finishes_it(
    undisturbed: Path, local_ray: Any, tmp_path: Path, seed: int
) -> None:
    with bucket() as (proxy, address):
        config = small_audit(tmp_path, output=address)
        run, least = RunFolder(address), random.Random(seed).randrange(1, SHARDS)
        written: set[str] = set()

        def gone(number: int, verb: str, path: str) -> bool:
            if verb in ("PUT", "POST") and "/counterfactuals/" in path:
                written.add(path.split("?")[0])
            return len(written) > least

        proxy.fails = gone
        with pytest.raises((TaskFailed, OSError)) as caught:
            run_audit(config)
        assert "hush" not in str(caught.value)
        proxy.fails = lambda number, verb, path: False
        done = len(run.names("counterfactuals"))
        assert 0 < done < SHARDS
        assert run_audit(config) == 0
        assert_whole(undisturbed, copied(run, tmp_path / "copy"))
        assert "hush" not in str(config_as_json(read_config(AuditConfig, config)))


def test_requests_for_a_customer_do_not_grow_with_the_table(local_ray: Any, tmp_path: Path) -> None:
    """Four times the customers, files and shards: each shard reads one file, whatever the number of files."""
    counts = []
    for files in (8, 32):
        with bucket() as (proxy, address):
            folder = tmp_path / str(files)
            config = small_audit(
                folder,
                output=address,
                shard={"rows": 9},
                training=None,
                customers={"data": "customers/*.parquet", "id": "customer"},
            )
            (folder / "customers").mkdir()
            for k in range(files):
                own = mostly_denied()[:18].assign(customer=[f"{k}-{i}" for i in range(18)])
                own.to_parquet(folder / f"customers/{k}.parquet")
            assert run_audit(config) == 0
            assert len(RunFolder(address).names("counterfactuals")) == 2 * files
            counts.append(proxy.count / files)
    assert counts[1] <= 1.1 * counts[0]


def test_storage_that_is_far_away_gives_the_same_rows(
    undisturbed: Path, local_ray: Any, tmp_path: Path
) -> None:
    with bucket() as (proxy, address):
        proxy.delay = 0.03
        assert run_audit(small_audit(tmp_path, output=address)) == 0
        assert_whole(undisturbed, copied(RunFolder(address), tmp_path / "copy"))


def spoil(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    how = rng.randrange(4)
    if how == 0:
        del content[rng.randrange(len(content)) :]
    elif how == 1:
        content[rng.randrange(8, len(content) // 2)] ^= 1 << rng.randrange(8)  # in a page of the data
    elif how == 2:
        content[-rng.randrange(1, 60)] ^= 0xFF  # in the footer
    else:
        content[:] = rng.randbytes(len(content))
    path.write_bytes(content)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("known", [True, False])
def test_a_spoiled_shard_is_made_again(
    undisturbed: Path, local_ray: Any, tmp_path: Path, seed: int, known: bool
) -> None:
    """Known to the manifest or not (the driver died before it wrote one): a shard vouches for itself."""
    rng, config, run = random.Random(seed), small_audit(tmp_path), tmp_path / "run"
    assert run_audit(config) == 0
    victims = rng.sample(shards(run), 4) + rng.sample(sorted((run / "validation").iterdir()), 2)
    for path in victims:
        spoil(path, rng)
    if not known:
        manifest = RunFolder(str(run)).manifest()
        assert manifest is not None
        RunFolder(str(run)).write_manifest(manifest | {"shards": {}, "state": "running"})
    assert run_audit(config) == 0
    assert_whole(undisturbed, run)
