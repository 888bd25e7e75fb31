"""No file of the project imports itself by way of others, not even for type checking only."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

TOP: Final = Path(__file__).parents[2]
PACKAGES: Final = ("multilane", "gateway", "lanes", "steering")


def module_name(path: Path) -> str:
    parts = path.relative_to(TOP).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules() -> dict[str, Path]:
    return {
        module_name(path): path for package in PACKAGES for path in (TOP / package).rglob("*.py")
    }


def imported(tree: ast.AST, names: set[str]) -> set[str]:
    """The project's modules that a file imports anywhere, also under TYPE_CHECKING.

    `from package import name` is the module `package.name` if there is one, else `package`.
    """
    targets: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, "the project imports by absolute names"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                targets.add(inner if inner in names else node.module)
    return targets & names


def graph(files: dict[str, str]) -> dict[str, set[str]]:
    """Module -> the modules it imports, from the modules' source."""
    names = set(files)
    return {name: imported(ast.parse(source), names) - {name} for name, source in files.items()}


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Each circle once: take away what imports nothing that is left, until only circles remain."""
    left = {name: set(targets) for name, targets in edges.items()}
    while free := [name for name, targets in left.items() if not targets & set(left)]:
        for name in free:
            del left[name]
    circles: list[list[str]] = []
    while left:
        path = [next(iter(left))]
        while (following := min(left[path[-1]] & set(left))) not in path:
            path.append(following)
        circle = path[path.index(following) :]
        circles.append(circle)
        for name in circle:
            del left[name]
        while free := [name for name, targets in left.items() if not targets & set(left)]:
            for name in free:
                del left[name]
    return circles


def test_no_file_imports_itself_by_way_of_others() -> None:
    edges = graph({name: path.read_text("utf-8") for name, path in modules().items()})
    assert len(edges) > 100
    assert not cycles(edges), "\n".join(" -> ".join(circle) for circle in cycles(edges))


def test_a_circle_for_type_checking_is_found() -> None:
    edges = graph(
        {
            "one": "from two import thing",
            "two": "if TYPE_CHECKING:\n    from package import inner",
            "package": "",
            "package.inner": "def later():\n    import one",
            "apart": "import one",
        }
    )
    assert [sorted(circle) for circle in cycles(edges)] == [["one", "package.inner", "two"]]
