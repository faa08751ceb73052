"""The package keeps to itself: cheap to import, no side effects, imports that point one way."""

from __future__ import annotations

import ast
import functools
import graphlib
import json
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

import unseen

SOURCE = Path(unseen.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
# Each package may import those before it, and the modules beside the packages.
PACKAGES = ["linalg", "utils", "report", "metrics", "kernels", "estimators", "model_selection", "tables"]
PACKAGES += ["shift", "datasets", "models", "evaluation", "exchange", "images", "explore", "cli"]
MODULES = {"distributed", "exceptions"}
LINALG_MODULES = ["_cell_statistics", "_scatters", "_eigenproblem"]  # each may import those before it
INDEPENDENT = {"report"}  # takes plain values, so that any program may use it: imports utilities only
HEAVY = {"sklearn.svm", "sklearn.metrics", "scipy.linalg", "pandas", "matplotlib"}
EXTRAS = "PIL dask distributed jinja2 matplotlib onnx onnxruntime pandas"
EXTRAS += " fastexcel pooch rich skops torch typer xlsxwriter"
OPTIONAL = set(EXTRAS.split())

# Run in a fresh interpreter: prints what was loaded and what changed, step by step.
PROBE = """
import json, logging, os, random, sys, warnings
import numpy as np
import sklearn

def state():
    return {
        "scikit-learn's configuration": repr(sorted(sklearn.get_config().items())),
        "warning filters": repr(warnings.filters),
        "logging": repr((logging.root.handlers, logging.root.level, logging.getLogger("unseen").handlers)),
        "numpy's error state": repr(np.geterr()),
        "numpy's print options": repr(sorted(np.get_printoptions().items())),
        "numpy's random state": repr(np.random.get_state()),
        "random state": repr(random.getstate()),
        "environment": repr(sorted(os.environ.items())),
        "path": repr(sys.path),
        "display hooks": repr((sys.displayhook, sys.excepthook)),
    }

def changed(before):
    return [name for name, value in state().items() if value != before[name]]

report = {}
# What the dependencies do when they are imported is theirs.
import sklearn.svm, sklearn.metrics.pairwise, sklearn.model_selection, scipy.sparse.linalg, joblib, polars
before, loaded = state(), set(sys.modules)
import unseen
report["changed by import"] = changed(before)
for name in unseen.__all__:
    getattr(unseen, name)
report["changed by use"] = changed(before)
report["loaded"] = sorted({name.split(".")[0] for name in set(sys.modules) - loaded})
print(json.dumps(report))
"""

# Likewise: what the help of every command loads, and prints.
HELP = """
import io, json, sys
from contextlib import redirect_stdout
from unseen.cli import main

printed = {}
COMMANDS = "adapt aggregate combine compare diagnose explore fit plan predict show extract reproduce validate"
for command in ["", *COMMANDS.split(), "reproduce vlcs"]:
    sys.argv = ["unseen", *command.split(), "--help"]
    with redirect_stdout(io.StringIO()) as out:
        try:
            main()
        except SystemExit as end:
            assert not end.code
    printed[command] = out.getvalue()
print(json.dumps({"printed": printed, "loaded": sorted({name.split(".")[0] for name in sys.modules})}))
"""


@functools.cache
def probe(code):
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


@pytest.mark.parametrize("when", ["import", "use"])
def test_importing_changes_nothing_outside(when):
    assert probe(PROBE)[f"changed by {when}"] == []


def test_no_public_name_needs_an_optional_dependency():
    loaded = probe(PROBE)["loaded"]
    assert "unseen" in loaded
    assert OPTIONAL.isdisjoint(loaded)


def test_import_is_cheap():
    loaded = set(probe("import json, sys, unseen; print(json.dumps(sorted(sys.modules)))"))
    assert "unseen" in loaded
    assert HEAVY.isdisjoint(loaded)
    assert not {name for name in loaded if name.startswith(("unseen.", "sklearn.", "numpy"))}


def count_threads(code):
    report = "import json, os; print(json.dumps(len(os.listdir('/proc/self/task'))))"
    return probe(f"{code}; {report}")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
def test_import_starts_no_threads():
    assert count_threads("import unseen") == 1


def test_help_is_there_at_once():
    """Without scikit-learn, which takes a second to load, and what comes with it."""
    pytest.importorskip("typer", reason="the command needs its extra")
    found = probe(HELP)
    assert all("Usage" in text and "Example" in text for text in found["printed"].values())
    assert {"numpy", "scipy", "sklearn", "joblib", "pandas", "polars"}.isdisjoint(found["loaded"])


@pytest.mark.parametrize("name", unseen.__all__)
def test_every_public_name_loads_and_is_documented(name):
    public = getattr(unseen, name)
    assert public.__name__ == name
    assert public.__module__.startswith("unseen.")
    assert public.__doc__
    assert "Examples\n" in public.__doc__
    assert "{" + "common}" not in public.__doc__


def test_dir_lists_every_public_name_once():
    listed = dir(unseen)
    assert set(unseen.__all__) <= set(listed)
    assert {"datasets", "exceptions"} <= set(listed)
    assert len(listed) == len(set(listed))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'unseen' has no attribute 'CDIG'"):
        unseen.CDIG  # noqa: B018
    assert not hasattr(unseen, "CDIG")
    with pytest.raises(ImportError, match="CDIG"):
        exec("from unseen import CDIG")


def test_types_are_shipped():
    assert resources.files("unseen").joinpath("py.typed").is_file()


def test_the_version_is_one():
    version = pytest.importorskip("packaging.version")
    assert str(version.Version(unseen.__version__)) == unseen.__version__


def module_name(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path, *, lazily=False):
    """Absolute names of the modules a file imports when it is loaded; `lazily` counts imports in functions too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
    names = set()
    queue = list(tree.body)
    while queue:
        node = queue.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, *([node.module] if node.module else [])])
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            queue += node.orelse
        elif lazily or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            queue += ast.iter_child_nodes(node)
    return names


def package_of(name):
    """`unseen.estimators._discriminants` belongs to `estimators`; modules beside the packages to none."""
    parts = name.split(".")
    return parts[1] if parts[0] == "unseen" and len(parts) > 1 and parts[1] in PACKAGES else None


# What the command loads when it runs may import its extra; `unseen.cli` itself says what is missing.
LIBRARY = [path for path in FILES if path.parent.name != "cli" or path.name == "__init__.py"]


@pytest.mark.parametrize("path", LIBRARY, ids=module_name)
def test_optional_dependencies_are_imported_where_they_are_used(path):
    assert OPTIONAL.isdisjoint(name.split(".")[0] for name in imported(path))


@pytest.mark.parametrize("name", LINALG_MODULES)
def test_linear_algebra_needs_numpy_and_scipy_alone(name):
    names = imported(SOURCE / "linalg" / f"{name}.py", lazily=True)
    roots = {root for root in (imported_name.split(".")[0] for imported_name in names) if root != "unseen"}
    assert roots <= {"numpy", "scipy"} | sys.stdlib_module_names
    own = {part[2] for part in (imported_name.split(".") for imported_name in names) if part[0] == "unseen"}
    assert own <= set(LINALG_MODULES[: LINALG_MODULES.index(name)])


def test_every_package_and_module_is_listed():
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} == set(PACKAGES)
    assert {path.stem for path in SOURCE.glob("*.py")} - {"__init__"} <= MODULES


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_point_one_way(path):
    here = package_of(module_name(path))
    if here is not None:
        allowed = set(PACKAGES[: PACKAGES.index(here)]) if here not in INDEPENDENT else {"utils"}
        assert {package_of(name) for name in imported(path, lazily=True)} <= allowed | {here, None}


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_no_private_module_is_imported_from_another_package(path):
    here = package_of(module_name(path))
    foreign = [name for name in imported(path, lazily=True) if package_of(name) not in (here, None)]
    private = [name for name in foreign if any(part.startswith("_") for part in name.split(".")[2:])]
    assert not private


def test_every_package_states_its_purpose():
    packages = sorted(SOURCE.glob("*/__init__.py"))
    assert packages
    assert [path.parent.name for path in packages if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_no_import_goes_round_in_a_circle():
    modules = {module_name(path): path for path in FILES}
    graph = {}
    for name, path in modules.items():
        # A package that loads its own modules is no circle, as long as they do not load names from it.
        graph[name] = {other for other in imported(path) if other in modules and other != name}
        graph[name] -= {name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1)}
    assert list(graphlib.TopologicalSorter(graph).static_order())
