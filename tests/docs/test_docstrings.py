"""Public functions and classes with more than two parameters have a line for each of them.

ruff checks the rest of the docstrings' form (its D rules in pyproject.toml).
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).parents[2]
FILES = [
    path.relative_to(TOP).as_posix()
    for folder in ("multilane", "gateway", "lanes", "steering", "bench", "examples")
    for path in sorted((TOP / folder).rglob("*.py"))
]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the names of a function's parameters, without `self` and `cls`."""
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names += [one.arg for one in (given.vararg, given.kwarg) if one is not None]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def lacking(names: list[str], docstring: str | None) -> list[str]:
    """Return the parameters that have no line of their own, if there are more than two.

    What names the method of a contract, "(see `Contract.method`)", leaves them to that.
    """
    lines = docstring or ""
    if "(see `" in lines:
        return []
    return [
        name
        for name in names
        if len(names) > 2 and not re.search(rf"^\s+\*{{0,2}}{name}: ", lines, re.MULTILINE)
    ]


def gaps(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Yield what the docstrings of a module's or a class's body lack."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _of_class(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
            docstring = ast.get_docstring(node)
            if docstring is None:
                yield f"{prefix}{node.name}: no docstring"
            for name in lacking(parameters(node), docstring):
                yield f"{prefix}{node.name}: no line for {name}"


def _of_class(node: ast.ClassDef) -> Iterator[str]:
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            for name in lacking(parameters(method), ast.get_docstring(node)):
                yield f"class {node.name}: no line for {name}"
    yield from gaps(node.body, f"{node.name}.")


@pytest.mark.parametrize("file", FILES)
def test_every_parameter_has_its_line(file: str) -> None:
    tree = ast.parse((TOP / file).read_text("utf-8"))
    assert list(gaps(tree.body)) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(a, b): 'Do.'", []),
        ("def f(a, b, c): 'Do.'", ["a", "b", "c"]),
        ("def f(a, b, *, c):\n  '''Do.\n\n  Args:\n    a: One.\n    c: Three.\n  '''", ["b"]),
        ("class C:\n  'Be.'\n  def m(self, a, b): 'Do.'", []),
        ("class C:\n  'Be.'\n  def __init__(self, a, b, **c): pass", ["a", "b", "c"]),
        ("def _f(a, b, c): pass", []),
    ],
)
def test_the_check_finds_what_is_lacking(source: str, found: list[str]) -> None:
    assert [gap.rpartition(" ")[2] for gap in gaps(ast.parse(source).body)] == found
