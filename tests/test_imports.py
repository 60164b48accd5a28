"""Imports go one way, and the cheap commands stay cheap."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import vbs_cli
from tests.fixtures.command import run_vbs
from vbs_cli.run.remembered import PLAN, recalled

PACKAGE = Path(vbs_cli.__file__).parent
# Each layer may import those before it in this list, and itself.
LAYERS = [
    {"errors"},
    {"registry", "files", "seeding", "progress"},
    {"locks", "executors"},
    {"logits", "settings"},
    {"methods", "metrics"},
    {"diagnosis"},
    {"data"},
    {"models"},
    {"networks", "views", "protocols"},
    {"pairs", "conditions"},
    {"run", "summary"},
    {"plots"},
    {"paper"},
    {"report", "bench", "export", "wrapping"},
    {"artifacts"},
    {"stages"},
    {"console"},
    {"cli"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
PURE = {"logits", "methods", "metrics", "diagnosis"}


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports():
    for path in PACKAGE.rglob("*.py"):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "vbs_cli" else []
                for module in names or [node.module]:
                    yield path, part, module
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    yield path, part, alias.name


def test_every_part_of_the_package_has_its_place():
    parts = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.name[0] not in "_."}
    assert parts - {"py.typed", "guide"} == set(RANK)


def test_imports_go_one_way():
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for path, part, module in imports()
        if part in RANK and part_of(module) in RANK and module.startswith("vbs_cli.")
        if RANK[part_of(module)] > RANK[part] or (RANK[part_of(module)] == RANK[part] and part_of(module) != part)
    ]
    assert wrong == []


def test_mathematics_knows_no_files_and_no_console():
    known = {"pathlib", "os", "rich", "typer", "pandas", "pyarrow", "safetensors", "filelock"}
    wrong = [
        f"{path.name}: {module}" for path, part, module in imports() if part in PURE and module.split(".")[0] in known
    ]
    assert wrong == []


def test_nobody_imports_click_and_only_the_console_side_knows_rich_and_typer():
    for path, part, module in imports():
        assert module.split(".")[0] != "click", path
        if module.split(".")[0] in ("rich", "typer"):
            assert part in ("console", "cli"), path


@pytest.mark.parametrize(
    "code",
    [
        "import vbs_cli; vbs_cli.__version__; dir(vbs_cli)",
        "from vbs_cli.cli import app; app(['--help'], standalone_mode=False)",
        "from vbs_cli.cli import app; app(['run', '--help'], standalone_mode=False)",
    ],
)
def test_help_and_import_do_without_torch(code):
    check = f"{code}\nimport sys; assert not {{'torch', 'pandas', 'matplotlib', 'scipy'}} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


HEAVY = {"torch", "pandas", "matplotlib", "scipy", "numpy"}


def test_status_of_a_run_that_a_command_has_left_does_without_torch(workplace):
    assert run_vbs(workplace, "plot", "--force", "shift").code == 0
    check = f"""
import atexit, sys
from vbs_cli.cli import main
atexit.register(lambda: print(sorted({HEAVY} & set(sys.modules)), file=sys.stderr))
sys.argv = ["vbs", "status", "--json"]
main()
"""
    done = subprocess.run([sys.executable, "-c", check], cwd=workplace, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == "[]"
    (workplace / "runs/radio" / PLAN).unlink()
    again = run_vbs(workplace, "status", "--json")
    assert again.out == done.stdout


def test_a_plan_is_not_trusted_once_settings_or_data_are_others(workplace, monkeypatch, vbs):
    folder, data = workplace / "runs/radio", workplace / "data"
    assert vbs(workplace, "status").code == 0
    monkeypatch.delitem(sys.modules, "torch")
    assert recalled(folder, data) is not None
    for path in (folder / "run.toml", folder / "manifest.json", data / "radio/dataset.json"):
        before = path.read_bytes()
        path.write_bytes(before + b" ")
        assert recalled(folder, data) is None
        path.write_bytes(before)
    assert recalled(folder, data) is not None
    monkeypatch.setenv("VBS_EPOCHS", "99")
    assert recalled(folder, data) is None


def test_the_public_names_are_there():
    for name in vbs_cli.__all__:
        assert getattr(vbs_cli, name) is not None
    with pytest.raises(AttributeError):
        vbs_cli.nonsense  # noqa: B018
