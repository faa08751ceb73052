"""Mutants of a module: copies with one small change each, in the syntax tree."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

SWAPS: dict[Any, Any] = {ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.Is: ast.IsNot, ast.In: ast.NotIn}
SWAPS |= {ast.Add: ast.Sub, ast.Mult: ast.Div, ast.BitAnd: ast.BitOr, ast.RShift: ast.LShift, ast.And: ast.Or}
SWAPS |= {new: old for old, new in SWAPS.items()}
SWAPS |= {ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitXor: ast.BitAnd}


class Mutant(NamedTuple):
    """A change of a node: the lines of the node and of the statement around it, and the change in source form."""

    path: Path
    number: int
    lines: tuple[range, ...]
    change: str

    @property
    def key(self) -> str:
        """What it is known by, as long as its module stays as it is."""
        return f"{hashlib.sha256(self.path.read_bytes()).hexdigest()[:16]} {self.number}"

    @property
    def uses(self) -> list[int]:
        """Lines that name what the statement around defines, for a statement that runs at import."""
        text = self.path.read_text().splitlines()
        (name,) = re.findall(r"^\s*(?:def |class )?(\w+)", text[self.lines[-1].start - 1])
        return [number for number, line in enumerate(text, 1) if re.search(rf"\b{name}\b", line)]

    def code(self) -> CodeType:
        """The changed module."""
        tree = ast.parse(self.path.read_text())
        next(one for one in mutants(self.path, tree) if one.number == self.number)
        return compile(tree, str(self.path), "exec")


def changes(node: Any) -> Iterator[ast.AST]:
    """What a node may be changed to."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield ast.Compare(node.left, [SWAPS[type(node.ops[0])]()], node.comparators)
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPS:
        yield type(node)(**{name: getattr(node, name) for name in node._fields} | {"op": SWAPS[type(node.op)]()})
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        value = node.value
        yield ast.Constant(not value if isinstance(value, bool) else 1 - value if value in (0, 1) else value + 1)
    elif isinstance(node, ast.If | ast.IfExp):
        yield from (type(node)(ast.Constant(value), node.body, node.orelse) for value in (True, False))
    elif isinstance(node, ast.Return) and node.value is not None:
        yield ast.Return(ast.Constant(None))
    stored = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    if stored or isinstance(node, ast.AugAssign | ast.Expr | ast.Raise | ast.Continue | ast.Delete):
        yield ast.Pass()


def places(node: ast.AST, statement: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Where nodes are, with the statement around, but for what types, messages and documentation say."""
    for name, value in ast.iter_fields(node):
        held, keys = (value, range(len(value))) if isinstance(value, list) else (vars(node), [name])
        for child, key in [(held[key], key) for key in keys]:
            said = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            said |= name in ("annotation", "returns", "decorator_list", "exc") or isinstance(child, ast.JoinedStr)
            if isinstance(child, ast.AST) and not said:
                around = child if isinstance(child, ast.stmt) else statement
                yield held, key, around
                yield from places(child, around)


def mutants(path: Path, tree: ast.Module) -> Iterator[Mutant]:
    """All mutants of a module, each in the tree while its turn lasts."""
    numbers = iter(range(10**6))
    for held, key, statement in list(places(tree, None)):
        old = held[key]
        for new, number in zip(changes(old), numbers, strict=False):
            told = [" ".join(ast.unparse(part).split())[:60] for part in (old, new)]
            lines = tuple(range(part.lineno, part.end_lineno + 1) for part in (old, statement))
            held[key] = ast.fix_missing_locations(ast.copy_location(new, old))
            if len(set(told)) == 2 or len(told[0]) == 60:
                yield Mutant(path, number, lines, " -> ".join(told))
            held[key] = old


def codes(code: CodeType) -> dict[tuple[str, str, int], CodeType]:
    """All code of a module, by where it is."""
    found = {(code.co_filename, code.co_qualname, code.co_firstlineno): code}
    for constant in code.co_consts:
        found |= codes(constant) if isinstance(constant, CodeType) else {}
    return found
