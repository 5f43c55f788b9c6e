"""Who imports whom: no cycles, no private names of others, and data flows one way.

`python tests/test_walls.py` prints the graph.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"svead_stream": ROOT, "svead_kafka": ROOT / "connectors", "svead_spark": ROOT / "connectors"}

# Private names of other libraries that have no public counterpart, and what they are needed for.
KNOWN = {
    ("svead_kafka.assignment", "_conns"): "whether the client has a connection to any broker",
    ("svead_kafka.assignment", "_manager"): "the same",
    ("svead_kafka.bulk", "_accumulator"): "records are written into the client's open batches, see there",
    ("svead_kafka.bulk", "_batches"): "the same",
    ("svead_kafka.bulk", "_record_futures"): "the same",
    ("svead_kafka.bulk", "_tp_lock"): "the same",
    ("svead_kafka.patches", "_buffer"): "a header name in any bytes is read, see there",
    ("svead_kafka.patches", "_read_msg"): "the same",
    ("svead_kafka.patches", "_send_heartbeat_request"): "the client only logs that another took its instance id",
    ("svead_kafka.patches", "_sock_recv"): "the client throws away what came together with the end of a connection",
    ("svead_kafka.patches", "_unpack_records"): "the client does not say where a batch is that it cannot read",
    ("svead_kafka.properties", "_COMPRESSORS"): "which codecs the client can use here",
    ("svead_kafka.topics", "_cluster"): "the ids of topics, as a consumer has heard of them",
    ("svead_kafka.worker", "_sender"): "the client's close leaves its thread running where something is unsent",
    ("svead_spark.estimator", "_dummy"): "how parameters are declared for pyspark.ml",
    ("svead_spark.estimator", "_resetUid"): "a stage that is loaded has the id that it had, as pyspark's own do",
    ("svead_spark.storage", "_jvm"): "Hadoop's file systems, in which models are saved",
    ("svead_spark.storage", "_jsc"): "their configuration",
    ("svead_stream.kernels.compiled", "_cache"): "Numba stamps a cached kernel with its own file only",
    ("svead_stream.kernels.compiled", "_cache_file"): "the same",
    ("svead_stream.kernels.compiled", "_cache_path"): "the same",
    ("svead_stream.kernels.compiled", "_impl"): "the same",
    ("svead_stream.kernels.precompiled", "_rebuild"): "a compiled kernel out of a file, as Numba's cache does it",
    ("svead_stream.kernels.precompiled", "_reduce"): "and into one",
}


def sources() -> dict[str, ast.Module]:
    """Every module of the packages, by its dotted name."""
    found = {}
    for package, place in PACKAGES.items():
        for path in sorted((place / package).rglob("*.py")):
            parts = path.relative_to(place).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


SOURCES = sources()


def loaded(tree: ast.AST, nested: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of a module: those at its top, or all but those for the type checker."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif nested or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from loaded(node, nested)


def imported(name: str, nested: bool = False) -> set[str]:
    """The modules of ours that a module imports."""
    wanted = set()
    for node in loaded(SOURCES[name], nested):
        if isinstance(node, ast.Import):
            wanted |= {alias.name for alias in node.names}
        else:
            names = ((f"{node.module}.{alias.name}", node.module or "") for alias in node.names)
            wanted |= {module if module in SOURCES else package for module, package in names}
    return {one for one in wanted if one in SOURCES} - {name}


GRAPH = {name: imported(name) for name in SOURCES}


def test_no_module_imports_itself_in_a_roundabout_way() -> None:
    order = list(TopologicalSorter(GRAPH).static_order())  # CycleError names the cycle
    assert len(order) == len(SOURCES) > 60


def test_the_core_knows_no_connector_and_connectors_do_not_know_each_other() -> None:
    for name in SOURCES:
        package = name.partition(".")[0]
        others = {one for one in imported(name, nested=True) if one.partition(".")[0] not in (package, "svead_stream")}
        assert not others, f"{name} imports {others}"


LAYERS = ("kernels", "memory", "streaming", "judging", "cli")  # each may import only what stands before it


@pytest.mark.parametrize("layer", LAYERS[:-1])
def test_nothing_below_knows_what_is_above(layer: str) -> None:
    above = {f"svead_stream.{one}" for one in LAYERS[LAYERS.index(layer) + 1 :]}
    for name in SOURCES:
        if name == f"svead_stream.{layer}" or name.startswith(f"svead_stream.{layer}."):
            for one in imported(name, nested=True):
                assert not any(one == upper or one.startswith(f"{upper}.") for upper in above), f"{name} imports {one}"


def is_private(name: str) -> bool:
    # of named tuples, of os and of sys, documented as they are
    public = ("_fields", "_asdict", "_replace", "_exit", "_current_frames")
    return name.startswith("_") and not name.endswith("__") and name not in public


def own_names(tree: ast.Module) -> set[str]:
    """Private names that a module defines: functions, classes, variables, attributes of its classes."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            names.add(node.attr)
    return names


@pytest.mark.parametrize("name", SOURCES)
def test_no_private_name_of_another_module_is_used(name: str) -> None:
    own = own_names(SOURCES[name])
    for node in ast.walk(SOURCES[name]):
        used = set()
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
            used = {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
            used = {node.attr} - own
        for one in filter(is_private, used):
            assert (name, one) in KNOWN, f"{name}:{node.lineno} uses {one}, which is another module's own"


def main() -> None:
    """Print the graph."""
    for name in TopologicalSorter(GRAPH).static_order():
        print(f"{name}: {', '.join(sorted(GRAPH[name])) or '-'}")


if __name__ == "__main__":
    main()
