"""What the deployment papers say is compared with the project and with each other.

No engine runs them here: YAML is parsed, and what they name has to exist.
"""

import ast
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from importlib import metadata
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from redis import AuthenticationError, Redis

from smartcrawl import __version__, settings
from tests import servers
from tests.crawls.commands import wait_until
from tests.modules import CODE, parsed

ROOT = Path(__file__).resolve().parents[1]
KUBERNETES = ROOT / "deploy" / "kubernetes"
UNITS = sorted((ROOT / "deploy" / "systemd").iterdir())
URLS = {"REGISTRY_URL", "REDIS_URL", "ELASTICSEARCH_URL"}
#: What the servers' own images read.
THEIRS = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD", "PGDATA", "REDISCLI_AUTH"}
THEIRS |= {"POSTGRES_PASSWORD_FILE"}
THEIRS |= {"ELASTIC_PASSWORD", "ES_JAVA_OPTS", "REDIS_PASSWORD"}
#: Those of Python, its libraries and scrapyd, and what is put into the arguments of a worker.
OTHERS = {"PYTHONUNBUFFERED", "TMPDIR", "SCRAPYD_USERNAME", "SCRAPYD_PASSWORD", "JOB"}
#: Settings of the servers that many workers share.
SHARED = URLS | {"ELASTICSEARCH_USERNAME", "ELASTICSEARCH_PASSWORD"}


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def compose() -> dict:
    return yaml.safe_load(text("compose.yaml"))["services"]


def exported(service: dict) -> dict[str, str]:
    """Return the variables that the entry point of a service exports, with passwords as words."""
    line = r'^export (\w+)="(.*)"$'
    found = dict(re.findall(line, "\n".join(service["entrypoint"]), re.MULTILINE))
    return {name: re.sub(r"\$\$\(cat \S+\)", "change-me", value) for name, value in found.items()}


def objects() -> list[dict]:
    """Every object of the manifests."""
    return [
        document
        for path in sorted(KUBERNETES.iterdir())
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]


def named(kind: str, name: str) -> dict:
    (found,) = (o for o in objects() if (o["kind"], o["metadata"]["name"]) == (kind, name))
    return found


def pods() -> list[dict]:
    """The pod of each object that makes some."""
    specs = [o["spec"] for o in objects() if "spec" in o]
    specs = [spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec for spec in specs]
    return [spec["template"]["spec"] for spec in specs if "template" in spec]


def containers() -> dict[str, dict]:
    return {container["name"]: container for pod in pods() for container in pod["containers"]}


def environment(lines: str) -> set[str]:
    """Return the variables that a unit or a Dockerfile sets."""
    return set(re.findall(r"(?:^Environment=|^ENV |^    )([A-Z_]+)=", lines, re.MULTILINE))


def known() -> set[str]:
    """Every setting."""
    names = runpy.run_path(str(ROOT / "smartcrawl" / "settings.py"))
    return {name for name in names if name.isupper()} | SHARED


def test_every_variable_is_a_setting_or_one_of_the_servers():
    kept = [o["stringData"] | {} for o in objects() if o["kind"] == "Secret"]
    kept += [o["data"] for o in objects() if o["kind"] == "ConfigMap" and "sources" not in str(o)]
    named = {name for secrets in kept for name in secrets}
    named |= {name for service in compose().values() for name in service.get("environment", ())}
    named |= {each["name"] for one in containers().values() for each in one.get("env", ())}
    named |= environment(text("Dockerfile"))
    named |= {name for unit in UNITS for name in environment(unit.read_text())}

    own = {name for name in named if not re.match(r"[a-z]", name)} - THEIRS - OTHERS

    assert {"DATA_DIR", "SOURCES_FILE", "SNAPSHOT_STORE", *URLS} <= own
    assert own <= known()


def test_images_are_pinned_and_everywhere_the_same():
    images = [service["image"] for service in compose().values()]
    ours = [one["image"] for one in containers().values()]

    assert sorted(images) == sorted(ours)
    assert f"smartcrawl:{__version__}" in images
    assert all(re.fullmatch(r"[a-z]+:\d+(\.\d+)+", image) for image in images)
    base = r"python:\d+\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}"
    lines = rf"^ARG PYTHON_IMAGE={base}\nFROM \$\{{PYTHON_IMAGE\}}$"
    assert re.search(lines, text("Dockerfile"), re.MULTILINE)
    assert f"docker build -t smartcrawl:{__version__} ." in text("Dockerfile")
    pages = [text(f"docs/operations/{name}.md") for name in ("containers", "kubernetes")]
    assert all(f"docker build -t smartcrawl:{__version__} ." in page for page in pages)
    manual = "".join(pages) + text("docs/grow.md")
    assert "elasticsearch:" in text("docs/grow.md")
    assert set(re.findall(r"\b(?:smartcrawl|elasticsearch):\d+\.[\d.]+\d", manual)) <= set(images)


def test_the_urls_name_services_with_their_ports():
    secret = named("Secret", "smartcrawl")["stringData"]
    services = {
        o["metadata"]["name"]: o["spec"]["ports"][0]["port"]
        for o in objects()
        if o["kind"] == "Service" and o["metadata"]["name"] != "smartcrawl-api"
    }
    worker = compose()["worker"]

    assert {(urlsplit(secret[name]).hostname, urlsplit(secret[name]).port) for name in URLS} == set(
        services.items()
    )
    assert {"REGISTRY_URL", "REDIS_URL", "ELASTICSEARCH_PASSWORD"} == set(exported(worker))
    given = worker["environment"] | exported(worker)
    assert {name: given[name] for name in secret} == secret
    assert set(worker["depends_on"]) == set(services) == set(compose()) - {"worker", "api"}
    assert all(service["healthcheck"] for name, service in compose().items() if name != "worker")


def test_what_a_pod_names_exists():
    for pod in pods():
        for container in pod["containers"]:
            for source in container.get("envFrom", ()):
                for kind, reference in source.items():
                    word = {"secretRef": "Secret", "configMapRef": "ConfigMap"}[kind]
                    assert named(word, reference["name"])
            for variable in container.get("env", ()):
                if "secretKeyRef" in variable.get("valueFrom", {}):
                    key = variable["valueFrom"]["secretKeyRef"]
                    assert key["key"] in named("Secret", key["name"])["stringData"]
        for volume in pod.get("volumes", ()):
            if "configMap" in volume:
                assert named("ConfigMap", volume["configMap"]["name"])["data"]
    for stateful in (o for o in objects() if o["kind"] == "StatefulSet"):
        assert (
            named("Service", stateful["spec"]["serviceName"])["spec"]["selector"]
            == (stateful["spec"]["template"]["metadata"]["labels"])
        )


def test_workers_that_start_together_are_given_one_job():
    (worker,) = (one for pod in pods() for one in pod["containers"] if one["name"] == "worker")
    (job,) = (each for each in worker["env"] if each["name"] == "JOB")
    unit = (ROOT / "deploy/systemd/smartcrawl-worker@.service").read_text()

    assert worker["args"] == ["crawl", "site", "-a", "job=$(JOB)"]
    assert job["valueFrom"]["fieldRef"]["fieldPath"] == (
        "metadata.labels['batch.kubernetes.io/job-name']"
    )
    assert compose()["worker"]["command"][-2:] == ["-a", "job=${JOB:-}"]
    assert "JOB=$(date +%s) docker compose up --build worker" in text(
        "docs/operations/containers.md"
    )
    assert 'crawl --source "$$1" --job "$$1-$$(date -u +%%F)"\' sh %i\n' in unit


def test_no_redis_evicts():
    for one in (compose()["redis"]["command"], containers()["redis"]["args"]):
        assert " --maxmemory-policy noeviction " in one[-1]


def test_no_password_stands_in_a_process_list_or_in_the_facts_of_a_container():
    """ATT-69: each is read from a file, or in Kubernetes from the environment."""
    (services, secrets), names = documents_of_compose(), {"postgres", "redis", "elastic"}

    assert secrets == {
        f"{name}_password": {"environment": f"{name.upper()}_PASSWORD"} for name in names
    }
    assert not re.search(r"\$\{?\w*(PASSWORD|AUTH)", json.dumps(services))
    for name, service in services.items():
        read = set(re.findall(r"/run/secrets/(\w+)", json.dumps(service)))
        assert set(service["secrets"]) == read != set(), name
    for container in containers().values():
        for words in (container.get("args", ()), container.get("command", ())):
            assert not any("$(" in word and "PASS" in word for word in words)
    for words in every_command():
        assert not re.search(r"--requirepass|curl .*-u |redis-cli .*-a ", words)


def documents_of_compose() -> tuple[dict, dict]:
    found = yaml.safe_load(text("compose.yaml"))
    return found["services"], found["secrets"]


def every_command() -> list[str]:
    """Return the commands and checks of all containers, each as one text."""
    found = [
        " ".join(service.get(part, ()))
        for service in compose().values()
        for part in ("entrypoint", "command")
    ]
    found += [
        " ".join(one["healthcheck"]["test"]) for one in compose().values() if "healthcheck" in one
    ]
    for container in containers().values():
        found += [" ".join(container.get(part, ())) for part in ("args", "command")]
        probe = container.get("readinessProbe", {}).get("exec")
        found += [] if probe is None else [" ".join(probe["command"])]
    return found


@pytest.mark.parametrize("paper", ["compose", "kubernetes"])
def test_redis_is_started_with_its_password_and_without_showing_it(tmp_path: Path, paper: str):
    """ATT-69."""
    found = servers.redis_lookup()
    if isinstance(found, servers.UnavailableError):
        servers.absent(f"Redis is not available: {found}")
    program, libraries = found
    (tmp_path / "password").write_text("a1b2c3")
    (tmp_path / "docker-entrypoint.sh").write_text('#!/bin/sh\nexec "$@"\n')
    (tmp_path / "docker-entrypoint.sh").chmod(0o755)
    words = (compose() if paper == "compose" else containers())["redis"]
    script = words["command" if paper == "compose" else "args"][-1].replace("$$", "$")
    script = script.replace("/run/secrets/redis_password", str(tmp_path / "password"))
    socket = tmp_path / "socket"
    script = script.replace("redis-server -", f"{program} - --port 0 --unixsocket {socket}")
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": libraries,
        "REDISCLI_AUTH": "a1b2c3",
    }

    with subprocess.Popen(["sh", "-c", script], cwd=tmp_path, env=environment) as process:
        try:
            wait_until(socket.exists, "Redis listens")
            with Redis(unix_socket_path=str(socket), password="a1b2c3") as known:
                assert known.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
            with Redis(unix_socket_path=str(socket)) as unknown, pytest.raises(AuthenticationError):
                unknown.ping()
            shown = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            assert b"a1b2c3" not in shown
            assert b"redis-server" in shown
        finally:
            process.terminate()


def test_every_worker_ends_in_peace_and_is_nobody():
    (pod,) = (pod for pod in pods() if pod["containers"][0]["name"] == "worker")
    (user,) = re.findall(r"^USER (\d+):\1$", text("Dockerfile"), re.MULTILINE)

    assert {pod["securityContext"][key] for key in ("runAsUser", "runAsGroup")} == {int(user)}
    assert pod["terminationGracePeriodSeconds"] == 60
    assert compose()["worker"]["stop_grace_period"] == "1m"
    for unit in UNITS:
        if unit.suffix == ".service":
            assert "TimeoutStopSec=60\n" in unit.read_text()
            assert "User=smartcrawl\n" in unit.read_text()


def test_containers_are_confined_alike_and_have_an_init():
    """In Kubernetes the init is the pod's own, which a shared namespace brings."""
    pods_ = {pod["containers"][0]["name"]: pod for pod in pods()}
    for name in ("worker", "api"):
        service, pod = compose()[name], pods_[name]
        (container,) = pod["containers"]
        assert (service["init"], pod["shareProcessNamespace"]) == (True, True)
        assert service["read_only"] == container["securityContext"]["readOnlyRootFilesystem"]
        assert service["tmpfs"] == ["/tmp"]
        assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}
    for name in ("worker", "api", "elasticsearch"):
        memory = compose()[name]["deploy"]["resources"]["limits"]["memory"]
        assert containers()[name]["resources"]["limits"]["memory"] == f"{memory}i"


def test_a_run_that_ended_incomplete_is_not_tried_again():
    """The next pod would find it over, with the same status."""
    spec = named("CronJob", "smartcrawl")["spec"]
    rules = spec["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    codes = {rule["action"]: rule for rule in rules}

    assert codes["FailJob"]["onExitCodes"]["values"] == [2, 3]
    assert spec["timeZone"] == "Etc/UTC"


@pytest.mark.parametrize(
    "page", ["compose.yaml", "docs/operations/containers.md", "docs/operations/scrapyd.md"]
)
def test_passwords_are_written_for_their_owner_alone(page: str):
    found = re.findall(
        r"^.*printf '\w*PASSWORD.*\n.*$|^.*printf 'SCRAPYD.*$", text(page), re.MULTILINE
    )

    assert found
    assert all("(umask 077; " in lines for lines in found)


def test_state_and_sources_lie_in_the_same_place_everywhere():
    mounts = {one["name"]: one["mountPath"] for one in containers()["worker"]["volumeMounts"]}
    for lines in (text("Dockerfile"), *(u.read_text() for u in UNITS if u.suffix == ".service")):
        assert re.search(r"DATA_DIR=/var/lib/smartcrawl\b", lines)
        assert re.search(r"SOURCES_FILE=/etc/smartcrawl/sources\.toml\b", lines)

    assert mounts["state"] == "/var/lib/smartcrawl"
    assert mounts["sources"] == "/etc/smartcrawl"
    assert [volume.split(":")[1] for volume in compose()["worker"]["volumes"]] == [
        "/etc/smartcrawl/sources.toml",
        "/var/lib/smartcrawl",
    ]


# The image


def kept_in_context() -> list[str]:
    return re.findall(r"^!(\S+)$", text(".dockerignore"), re.MULTILINE)


def test_the_image_is_made_of_what_the_context_holds():
    copied = re.findall(r"^COPY (\S+) \S+$", text("Dockerfile"), re.MULTILINE)

    assert sorted(copied) == sorted(kept_in_context())
    assert all((ROOT / name).exists() for name in copied)


def distributions(names: set[str]) -> set[str]:
    """Return distributions with all that they need, extras left out."""
    found: set[str] = set()
    while names:
        name = names.pop()
        if name in found:
            continue
        found.add(name)
        for line in metadata.requires(name) or ():
            if "extra ==" not in line:
                needed = canonical(line)
                names |= {needed} if needed in INSTALLED else set()
    return found


def canonical(line: str) -> str:
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", line)[0]).lower()


INSTALLED = {canonical(found.name) for found in metadata.distributions()}


@pytest.fixture(scope="module")
def imports() -> set[str]:
    """Packages of others that the product imports."""
    found = set()
    for path in CODE:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"smartcrawl"}


_EMBEDDERS = "vectors,onnx,openai,libraries"


def locked_packages(name: str) -> dict[str, str]:
    """Return the versions of the packages of a lock; each has hashes and no address."""
    entries = re.split(r"\n(?=\S)", text(name).strip())
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text(name)
    return dict(
        re.match(r"([\w.-]+)(?:\[[^]]*\])?==([^\s;]+)", entry).groups() for entry in entries
    )


def extras_of_image(folder: Path, extras: str) -> set[str]:
    """Run the command of the Dockerfile that installs extras; pip is one that does nothing."""
    run = re.search(r"^RUN (if \[ -n .*?; fi)$", text("Dockerfile"), re.MULTILINE | re.DOTALL)
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "files").mkdir()
    (folder / "pip").write_text('#!/bin/sh\necho "$@" >>words\n')
    (folder / "pip").chmod(0o755)
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(
        ["sh", "-c", run[1].replace("\\\n", "")], cwd=folder, check=True,
        env=os.environ | {"EXTRAS": extras, "PATH": path},
    )  # fmt: skip
    named = folder / "extras.txt"
    return set(named.read_text().splitlines()) if named.exists() else set()


def test_the_image_installs_packages_by_their_hashes_alone(tmp_path: Path):
    """ATT-60: no step asks an index for a package that no lock has."""
    steps = re.findall(
        r"pip (?:install|download) .*?(?=&&|\nCOPY|\n#|; fi|\Z)", text("Dockerfile"), re.DOTALL
    )

    assert len(steps) == 4
    assert all("--require-hashes" in step or "--no-index" in step for step in steps)
    assert "--no-build-isolation" in steps[-1]
    assert "setuptools" in locked_packages("requirements-image.lock")
    assert extras_of_image(tmp_path, "") == set()
    assert not (tmp_path / "words").exists()


def test_the_locks_are_those_of_the_project():
    project = tomllib.loads(text("pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    image, of_extras = map(locked_packages, ("requirements-image.lock", "requirements-extras.lock"))
    wanted = [*project["dependencies"], *extras["s3"], *extras["azure"], *extras["mcp"]]

    for requirement in wanted:
        assert image[canonical(requirement)] == requirement.partition("==")[2]
    for requirement in [*wanted, *chain.from_iterable(extras.values())]:
        assert of_extras[canonical(requirement)] == requirement.partition("==")[2]
    shared = image.keys() & of_extras.keys()
    assert {name: image[name] for name in shared} == {name: of_extras[name] for name in shared}


def test_the_image_has_the_command_smartcrawl():
    dockerfile = text("Dockerfile")

    assert 'ENTRYPOINT ["smartcrawl"]\n' in dockerfile
    assert (
        "pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build" in dockerfile
    )
    assert "\nARG EXTRAS=\n" in dockerfile
    assert "--build-arg EXTRAS=" in text("docs/operations/containers.md")


def test_the_image_installs_all_that_the_product_imports(imports: set[str], tmp_path: Path):
    """The Dockerfile leaves test tools out, and embedders unless they are asked for."""
    plain = set(locked_packages("requirements-image.lock"))
    asked = set(map(canonical, extras_of_image(tmp_path, _EMBEDDERS)))
    installed = plain | distributions(set(asked))
    words = (tmp_path / "words").read_text().splitlines()
    assert [line.split()[0] for line in words] == ["download", "install"]
    providers = metadata.packages_distributions()
    missing = {
        package
        for package in imports
        if not installed & {canonical(name) for name in providers.get(package, (package,))}
    }

    assert {"s3fs", "adlfs", "mcp", "scrapy"} <= plain
    assert not {"wordllama", "onnxruntime", "numpy", "openai", "sqlite-vec"} & plain
    assert "pytest" not in installed
    assert not missing


# Units


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_runs_what_the_documentation_installs(unit: Path):
    lines = unit.read_text()
    program = re.search(
        r"^ExecStart=.*?/opt/smartcrawl/\.venv/bin/(\w+)"
        r"( due| crawl --source| serve| status --check)?",
        lines,
        re.MULTILINE,
    )

    if unit.suffix == ".timer":
        assert unit.with_suffix(".service") in UNITS
        assert "[Install]" in lines
    elif unit.name == "scrapyd.service":
        assert program[1] == "scrapyd"
        assert "\nEnvironmentFile=/etc/scrapyd/password\n" in lines
    elif unit.name == "smartcrawl-serve.service":
        assert program.groups() == ("smartcrawl", " serve")
        assert "\nKillMode=process\n" in lines
    elif unit.name in ("smartcrawl-check.service", "smartcrawl-failed@.service"):
        assert program.groups() == ("smartcrawl", " status --check")
    else:
        shares = unit.name == "smartcrawl-worker@.service"
        assert program.groups() == ("smartcrawl", " crawl --source" if shares else " due")
        assert "SuccessExitStatus=4\n" in lines
    pages = [path.read_text("utf-8") for path in (ROOT / "docs/operations").glob("*.md")]
    assert any(f"deploy/systemd/{unit.name}" in page for page in pages)


def test_units_are_hardened_alike():
    """The server alone has no private /tmp: it would be removed from under its crawls."""
    services = [unit for unit in UNITS if unit.suffix == ".service"]
    lines = {
        unit.name: set(unit.read_text().partition("\nNoNew")[2].partition("\n\n")[0].splitlines())
        for unit in services
    }
    serve = lines.pop("smartcrawl-serve.service")

    assert {frozenset(part) for part in lines.values()} == {frozenset(serve | {"PrivateTmp=yes"})}
    assert "ProtectSystem=strict" in serve
    unit = (ROOT / "deploy/systemd/smartcrawl-serve.service").read_text()
    assert "\nEnvironment=TMPDIR=/var/cache/smartcrawl\nEnvironmentFile" in re.sub(
        r"\n#.*", "", unit
    )
    assert "\nCacheDirectory=smartcrawl\n" in unit


def test_every_unit_reports_its_failure():
    """The one that reports does not start itself again, and a look is no failure of the check."""
    for unit in UNITS:
        reports = "\nOnFailure=smartcrawl-failed@%n.service\n" in unit.read_text()
        may_fail = unit.suffix == ".service" and unit.name != "smartcrawl-failed@.service"
        assert reports is may_fail, unit.name
    check = (ROOT / "deploy/systemd/smartcrawl-check.service").read_text()
    assert "\nSuccessExitStatus=1\n" in check
    tell = (ROOT / "deploy/systemd/smartcrawl-failed@.service").read_text()
    line = re.search(r"^ExecStart=/bin/sh -c '(.*)' sh %i$", tell, re.MULTILINE)
    assert line is not None
    words = ["sh", "-c", line[1].replace("$$", "$"), "sh", "smartcrawl-due.service"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert said == (
        "<3>smartcrawl-due.service failed; the reason: journalctl --unit=smartcrawl-due.service\n"
    )


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_knows_every_line_of_the_units(tmp_path: Path):
    for unit in UNITS:
        lines = re.sub(r"/opt/smartcrawl/\.venv/bin/\w+", "/bin/true", unit.read_text())
        (tmp_path / unit.name).write_text(lines)
    checked = subprocess.run(
        ["systemd-analyze", "verify", *(tmp_path / unit.name for unit in UNITS)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Unknown" not in checked.stderr, checked.stderr


# The HTTP API


def test_every_server_of_the_api_needs_keys_and_has_probes():
    """At 0.0.0.0 it refuses to start without one, and all of its replicas have one registry."""
    (deployment,) = (o for o in objects() if o["kind"] == "Deployment")
    pod = deployment["spec"]["template"]
    (api,) = pod["spec"]["containers"]
    (worker,) = (one for one in pods() if one["containers"][0]["name"] == "worker")
    service = named("Service", "smartcrawl-api")["spec"]
    of_compose = compose()["api"]

    assert api["args"] == of_compose["command"] == ["serve", "--host", "0.0.0.0"]
    assert deployment["spec"]["replicas"] > 1
    assert api["livenessProbe"]["httpGet"]["path"] == "/health"  # asks no database
    assert api["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert deployment["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert service["selector"] == pod["metadata"]["labels"]
    assert service["ports"][0]["targetPort"] == api["ports"][0]["name"]
    assert api["ports"][0]["containerPort"] == settings.API_PORT
    for part in ("securityContext", "envFrom", "volumeMounts"):
        assert api[part] == worker["containers"][0][part]
    for part in ("securityContext", "terminationGracePeriodSeconds", "enableServiceLinks"):
        assert pod["spec"][part] == worker[part]
    for part in ("environment", "entrypoint", "secrets"):
        assert of_compose[part] == compose()["worker"][part]
    assert of_compose["ports"] == [f"127.0.0.1:{settings.API_PORT}:{settings.API_PORT}"]
    assert "/ready" in of_compose["healthcheck"]["test"][-1]


def test_the_first_key_is_made_before_the_servers_start():
    page = text("docs/operations/kubernetes.md")
    (overrides,) = re.findall(r"--overrides='(.*?)'", page, re.DOTALL)
    (container,) = json.loads(overrides)["spec"]["containers"]

    assert container["args"][:2] == ["serve", "--create-key"]
    assert container["image"] == f"smartcrawl:{__version__}"
    assert container["envFrom"] == [{"secretRef": {"name": "smartcrawl"}}]
    line = "docker compose run --rm api serve --create-key first --scope operate"
    assert line in text("docs/operations/containers.md")
    assert line in text("compose.yaml")


# scrapyd


def test_scrapyd_listens_on_loopback_only_and_has_no_password_in_a_file():
    """ATT-54."""
    conf = ConfigParser()
    conf.read_string(text("deploy/scrapyd/scrapyd.conf"))

    assert conf["scrapyd"]["bind_address"] == "127.0.0.1"
    assert not {"username", "password"} & set(conf["scrapyd"])
    assert not conf["scrapyd"]["items_dir"]
    folders = {
        conf["scrapyd"][f"{name}_dir"].rpartition("/")[0] for name in ("eggs", "logs", "dbs")
    }
    assert folders == {"/var/lib/scrapyd"}
