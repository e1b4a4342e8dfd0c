"""What contributors meet before the code: links lead somewhere, forms and workflows are what GitHub takes."""

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from edgetop.cli.command_group import edgetop

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
PAGES = [ROOT / "README.md", *sorted(GITHUB.glob("*.md")), *sorted((ROOT / "edgetop/docs").glob("*.md"))]
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
CI = (ROOT / ".ci/run").read_text()

LINK = re.compile(r"\[[^][]*\]\(([^()\s]+)\)")
# Element types of GitHub's form schema, and the attributes that each may have; the first one is required.
ELEMENTS = {
    "markdown": ("value",),
    "input": ("label", "description", "placeholder", "value"),
    "textarea": ("label", "description", "placeholder", "value", "render"),
    "dropdown": ("label", "description", "multiple", "options", "default"),
    "checkboxes": ("label", "description", "options"),
}


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if "://" in link:
            continue
        place, _, anchor = link.partition("#")
        target = page.parent / place if place else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def parse(command: str) -> None:
    """Fail if edgetop has no such command or option."""
    words = shlex.split(command)[1:]
    if not words or words[0].startswith("-"):
        return
    found = edgetop.get_command(click.Context(edgetop), words[0])
    assert found, command
    known = {name for of in found.params for name in (*of.opts, *of.secondary_opts)}
    assert {word for word in words if word.startswith("-")} <= known, command


@pytest.mark.parametrize("path", [*FORMS, *sorted(GITHUB.glob("*.md"))], ids=lambda path: path.name)
def test_its_commands_exist(path: Path) -> None:
    commands = re.findall(r"`(edgetop [^`]+)`|^\.venv/bin/(edgetop [^#\n]+)", path.read_text(), re.MULTILINE)
    for command in filter(None, (word for pair in commands for word in pair)):
        parse(command)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_is_what_github_takes(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    assert set(form) <= {"name", "description", "title", "labels", "assignees", "projects", "type", "body"}
    assert form["name"]
    assert form["description"]
    assert any(element["type"] != "markdown" for element in form["body"])
    for element in form["body"]:
        assert set(element) <= {"type", "id", "attributes", "validations"}
        required, *_ = allowed = ELEMENTS[element["type"]]
        assert required in element["attributes"]
        assert set(element["attributes"]) <= set(allowed)
        assert set(element.get("validations", {})) <= {"required"}
        assert re.fullmatch(r"[A-Za-z0-9_-]+", element.get("id", "x"))
        assert all(option["label"] for option in element["attributes"].get("options", ()))
    for name in ("id", "label"):
        given = [element.get(name) or element["attributes"].get(name) for element in form["body"]]
        assert len(set(given)) == len(given)


def test_hosted_ci_may_only_read_and_runs_pinned_actions() -> None:
    text = (GITHUB / "workflows/ci.yml").read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"]
    (job,) = workflow["jobs"].values()
    assert "permissions" not in job
    assert job["timeout-minutes"] <= 90
    assert job["steps"][-1]["run"] == ".ci/run"
    uses = re.findall(r"uses: (.*)", text)
    assert uses
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action) for action in uses)


def test_a_release_is_published_without_a_secret_from_a_tag_alone() -> None:
    text = (GITHUB / "workflows/release.yml").read_text()
    workflow = yaml.safe_load(text)
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML reads `on` as true
    assert workflow["permissions"] == {"contents": "read"}
    rights = {name: job.get("permissions") for name, job in workflow["jobs"].items()}
    assert rights == {"build": None, "publish": {"id-token": "write"}, "page": {"contents": "write"}}
    assert workflow["jobs"]["publish"]["environment"]["name"] == "pypi"
    assert "secrets." not in text
    uses = re.findall(r"uses: (.*)", text)
    assert len(uses) == 6
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action) for action in uses)
    # The job that may publish runs nothing of the repository.
    assert not [step for step in workflow["jobs"]["publish"]["steps"] if "run" in step]


def test_both_workflows_run_the_same_versions_of_actions() -> None:
    texts = [path.read_text() for path in (GITHUB / "workflows").glob("*.yml")]
    pinned = {one for text in texts for one in re.findall(r"uses: (\S+)@(\S+)", text)}
    assert len(dict(pinned)) == len(pinned)


def test_the_releasing_topic_names_what_the_workflow_has() -> None:
    topic = (ROOT / "edgetop/docs/releasing.md").read_text()
    for words in ("release.yml", "environment name | `pypi`", ".ci/build-release", "SBOM", "attestations"):
        assert words in topic
    for script in re.findall(r"\.ci/[\w-]+", topic):
        assert (ROOT / script).exists(), script


def test_hosted_ci_has_every_python_that_is_tested() -> None:
    workflow = yaml.safe_load((GITHUB / "workflows/ci.yml").read_text())
    (job,) = workflow["jobs"].values()
    (versions,) = (step["with"]["python-version"] for step in job["steps"] if "python-version" in step.get("with", {}))
    assert set(versions.split()) == {*re.findall(r"^test_on (\S+)", CI, re.MULTILINE), "3.11"}


def test_the_hooks_are_the_checks_of_ci() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    hooks = [hook["entry"] for hook in local["hooks"]]
    checks = CI.partition('echo "== lint')[2].partition("\n\n")[0]
    assert hooks == re.findall(r"^ *(\.venv/bin/(?!pip).*)$", checks, re.MULTILINE)


def test_every_development_package_is_pinned() -> None:
    pinned = {line.partition("==")[0] for line in (ROOT / ".ci/constraints.txt").read_text().splitlines()}
    (declared,) = re.findall(r"^dev = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.MULTILINE | re.DOTALL)
    names = set(re.findall(r'"([a-z0-9-]+)>=', declared))
    assert "pytest" in names
    assert names <= pinned
