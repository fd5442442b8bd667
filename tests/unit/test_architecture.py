"""The shape of the code: who imports whom, and what is never used."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("term2_acp", "sandbox")


class Import(NamedTuple):
    """One imported module, and where the statement stands."""

    module: str
    line: int
    in_function: bool
    for_types_only: bool


class _Reader(ast.NodeVisitor):
    """Collects the imports of a module."""

    def __init__(self):
        self.found = []
        self._functions = 0
        self._types_only = 0

    def visit_Import(self, node):
        for alias in node.names:
            self._add(alias.name, node.lineno)

    def visit_ImportFrom(self, node):
        assert node.level == 0, "imports are absolute"
        for alias in node.names:
            # `from package import module` imports the module.
            name = f"{node.module}.{alias.name}"
            self._add(name if name in modules() else node.module, node.lineno)

    def visit_FunctionDef(self, node):
        self._functions += 1
        self.generic_visit(node)
        self._functions -= 1

    def visit_If(self, node):
        is_guard = ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        self._types_only += is_guard
        for child in node.body:
            self.visit(child)
        self._types_only -= is_guard
        for child in node.orelse:
            self.visit(child)

    def _add(self, module, line):
        self.found.append(Import(module, line, self._functions > 0, self._types_only > 0))


@cache
def modules():
    """Every module of ours by its dotted name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(part for part in parts if part != "__init__")] = path
    return found


@cache
def tree(path):
    """The parsed file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def imports(name):
    """What a module imports."""
    reader = _Reader()
    reader.visit(tree(modules()[name]))
    return tuple(reader.found)


def within(module, package):
    """Whether a module is a package or in it."""
    return module == package or module.startswith(f"{package}.")


def every(*packages):
    """The modules of some packages."""
    return [name for name in modules() if any(within(name, package) for package in packages)]


def forbidden(importers, imported):
    """Each place where one of the importers imports one of the imported, also for types only."""
    return [
        f"{name}:{found.line} imports {found.module}"
        for name in importers
        for found in imports(name)
        if any(within(found.module, package) for package in imported)
    ]


def ours(name):
    """A package of `term2_acp`."""
    return f"term2_acp.{name}"


LAYERS = ["errors", "wire", "rpc", "handlers"]
TOP = ["term2_acp.cli", "term2_acp.serve", "term2_acp.composition", "term2_acp.__main__"]
AGENT = [ours("agent"), ours("tools"), ours("providers"), ours("files")]


def test_there_is_something_to_judge():
    """The names in this file are those of modules."""
    names = modules()
    for name in [*map(ours, LAYERS), *TOP, *AGENT, "sandbox", ours("shell"), ours("sessions")]:
        assert name in names
    assert len(names) > 60


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_import_downwards_only(layer):
    """Errors < wire < rpc < handlers < the command line."""
    above = [*map(ours, LAYERS[LAYERS.index(layer) + 1 :]), *TOP]
    assert [] == forbidden(every(ours(layer)), above)


def test_errors_stand_alone():
    """They are imported by everyone."""
    assert [] == forbidden([ours("errors")], PACKAGES)


@pytest.mark.parametrize("package", AGENT)
def test_the_agent_knows_no_protocol(package):
    """Neither the loop nor a tool nor a provider imports the wire, JSON-RPC or a handler."""
    assert [] == forbidden(every(package), [ours("rpc"), ours("wire"), ours("handlers"), *TOP])


def test_json_rpc_knows_no_sessions():
    """It hands requests on."""
    core = ["sessions", "registry", "store", "eventlog", "replay", "recovery", "permissions"]
    core += ["tools", "providers", "files"]
    assert [] == forbidden(every(ours("rpc")), map(ours, core))


def test_the_sandbox_imports_nothing_of_ours():
    """It can be used on its own."""
    assert [] == forbidden(every("sandbox"), ["term2_acp"])


def test_only_the_shell_port_imports_the_sandbox():
    """Everything else knows the port."""
    others = [name for name in every("term2_acp") if name != ours("shell")]
    assert [] == forbidden(others, ["sandbox"])


def test_the_terminal_client_knows_the_server_by_the_protocol_alone():
    """`term2 chat` imports nothing of ours but the version, and only the command line knows it."""
    chat = every(ours("chat"))
    assert len(chat) > 10
    others = [name for name in modules() if name not in chat and name != "term2_acp"]
    assert [] == forbidden(chat, others)
    assert [] == forbidden([name for name in others if name != ours("cli")], [ours("chat")])


def test_the_libraries_of_the_terminal_client_are_its_own():
    """The server starts without them."""
    others = [name for name in modules() if not within(name, ours("chat"))]
    assert [] == forbidden(others, ["rich", "prompt_toolkit", "markdown_it", "pygments"])


def test_the_core_knows_no_version_of_the_protocol():
    """What is of a version is in the handlers and the wire, and is built at the start."""
    versions = [
        name for name in modules() if within(name, ours("handlers")) or within(name, ours("wire"))
    ]
    core = [
        name
        for name in every("term2_acp")
        if name not in TOP and name not in versions and not within(name, ours("rpc"))
    ]
    assert len(core) > 40
    assert [] == forbidden(core, versions)


def test_the_versions_do_not_know_each_other():
    """What they share is in modules of its own."""
    for one, other in (("1", "2"), ("2", "1")):
        own = [name for name in modules() if name.endswith((f".v{one}", f"_v{one}"))]
        foreign = [name for name in modules() if name.endswith((f".v{other}", f"_v{other}"))]
        assert own
        assert [] == forbidden(own, foreign)


def test_the_log_is_below_the_store_and_the_store_below_the_sessions():
    """Eventlog < store < sessions < handlers."""
    order = ["eventlog", "store", "sessions", "registry"]
    for number, name in enumerate(order):
        above = [*map(ours, order[number + 1 :]), ours("handlers")]
        runtime = [
            found.module
            for found in imports(ours(name))
            if not found.for_types_only and any(within(found.module, other) for other in above)
        ]
        assert [] == runtime, name


def test_imports_stand_at_the_top():
    """Only where the program starts may a function import, since what it loads is slow."""
    allowed = {ours("cli"), ours("serve")}
    assert [] == [
        f"{name}:{found.line}"
        for name in modules()
        if name not in allowed
        for found in imports(name)
        if found.in_function
    ]


def test_no_modules_import_each_other():
    """Neither directly nor around corners, when the program runs."""
    graph = {
        name: {
            found.module
            for found in imports(name)
            if found.module in modules() and not (found.for_types_only or found.in_function)
        }
        - {name}
        for name in modules()
    }
    done: set[str] = set()

    def visit(name, path):
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name not in done:
            for imported in sorted(graph[name]):
                visit(imported, [*path, name])
            done.add(name)

    for name in graph:
        visit(name, [])


def python_files(*folders):
    """Every file of some folders."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def calls_of(path, *names):
    """The calls of some functions in a file, by their last name and what is before it."""
    return [
        node
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names
    ]


def test_there_is_no_event_loop():
    """
    Plain threads: neither asyncio nor gevent nor what builds on them is imported.

    Only the clients of other people in tests/interop are built as their SDKs want it.
    """
    loops = {"asyncio", "gevent", "eventlet", "trio", "anyio", "twisted", "curio"}
    assert [] == [
        f"{path}:{node.lineno}"
        for path in python_files("term2_acp", "sandbox", "tests", "scripts")
        if "interop" not in path.parts
        for node in ast.walk(tree(path))
        if (
            isinstance(node, ast.Import)
            and any(alias.name.split(".")[0] in loops for alias in node.names)
        )
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in loops)
        or isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
    ]


@pytest.mark.parametrize("folder", ["term2_acp", "sandbox", "tests"])
def test_nobody_sleeps(folder):
    """Every wait is for something, and can be interrupted."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in python_files(folder)
        for node in calls_of(path, "time.sleep", "sleep")
    ]
    found += [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in python_files(folder)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom)
        and node.module == "time"
        and any(alias.name == "sleep" for alias in node.names)
    ]
    assert [] == found


@pytest.mark.parametrize("folder", ["term2_acp", "sandbox", "scripts", "tests"])
def test_every_thread_has_a_name(folder):
    """A stack dump and a log say whose it is."""
    assert [] == [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in python_files(folder)
        for node in calls_of(path, "threading.Thread", "Thread")
        if not any(keyword.arg == "name" for keyword in node.keywords)
    ]


def test_nothing_is_replaced_by_a_mock():
    """Tests use real doubles."""
    assert [] == [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in python_files("tests")
        for node in ast.walk(tree(path))
        if (
            isinstance(node, ast.ImportFrom)
            and (node.module or "") in ("unittest.mock", "mock", "unittest")
        )
        or (
            isinstance(node, ast.Import)
            and any(alias.name in ("unittest.mock", "mock") for alias in node.names)
        )
    ]


def test_only_the_command_line_knows_the_doctor():
    """It is loaded by its command alone, and nothing that serves depends on it."""
    others = [name for name in modules() if not within(name, ours("doctor"))]
    imported = {
        found.in_function
        for found in imports(ours("cli"))
        if within(found.module, ours("doctor")) or found.module == ours("completion")
    }
    assert imported == {True}
    assert [] == forbidden([n for n in others if n != ours("cli")], [ours("doctor")])
