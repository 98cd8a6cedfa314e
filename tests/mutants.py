"""Mutants of code: one operator, condition, constant or member of an enum that is another one."""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Mutant:
    """One change. ``syntax`` is made before a module is imported, ``tables`` afterwards."""

    name: str
    module: str
    syntax: Callable[[], None] | None = None
    tables: Callable[[dict], None] | None = None
    function: str = ""  #: with the classes and functions around it; empty: of the module itself
    change: str = ""
    ordinal: int = 1  #: among equal changes of one function
    node: ast.AST | None = None  #: the place in the tree


def after(members, member):
    """Return the member that follows, and the first after the last."""
    listed = list(members)
    return listed[(listed.index(member) + 1) % len(listed)]


_OTHERS = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.FloorDiv,),
    ast.FloorDiv: (ast.Mult,),
    ast.LShift: (ast.RShift,),
    ast.BitAnd: (ast.BitOr,),
}
_CONDITIONS = (ast.If, ast.IfExp, ast.While, ast.match_case)
_PLAIN = (ast.Name, ast.Call, ast.Attribute)


def mutants_of_syntax(module, tree, enums) -> Iterator[Mutant]:
    """Yield a mutant for each operator, condition, constant and member that code names."""
    seen: Counter[str] = Counter()
    for place, node in nodes(tree, module):
        for field, new, told in changes(node, enums):
            change = told or f"{_told(node)} -> {_with(node, field, new)}"
            name = f"{place}: {change}"
            seen[name] += 1
            ordinal = seen[name]
            yield Mutant(
                name if ordinal == 1 else f"{name} ({ordinal})",
                module,
                syntax=lambda n=node, f=field, v=new: setattr(n, f, v),
                function=place.removeprefix(module).lstrip(),
                change=change,
                ordinal=ordinal,
                node=node,
            )


def nodes(node, place):
    """Yield the nodes of code, but annotations and docstrings, with the names that they are in."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        place = f"{place} {node.name}"
    yield place, node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if isinstance(child, ast.AST) and not docstring:
                yield from nodes(child, place)


def changes(node, enums):
    """Yield (field, new value, name or None) for each way in which one node can be wrong."""
    match node:
        case ast.Compare():
            for n, operator in enumerate(node.ops):
                for other in _OTHERS[type(operator)]:
                    yield "ops", [*node.ops[:n], other(), *node.ops[n + 1 :]], None
            for n, listed in enumerate(node.comparators):
                if isinstance(listed, ast.Tuple):
                    for fewer, told in _fewer(listed.elts):
                        shorter = _tuple(fewer, listed)
                        others = [*node.comparators[:n], shorter, *node.comparators[n + 1 :]]
                        yield "comparators", others, told
        case ast.BoolOp():
            yield "op", _OTHERS[type(node.op)][0](), None
            for fewer, told in _fewer(node.values):
                yield "values", fewer, f"{_told(node)} {told}"
        case ast.BinOp() if type(node.op) in _OTHERS:
            yield "op", _OTHERS[type(node.op)][0](), None
        case ast.UnaryOp(op=ast.Not()):
            yield "op", _Truth(), f"{_told(node)} -> {_told(node.operand)}"
        case ast.Constant(value=bool()):
            yield "value", not node.value, None
        case ast.Constant(value=int()):
            yield "value", node.value + 1, None
            yield "value", node.value - 1, None
        case ast.Constant(value=float()) if node.value:  # nothing times 1.1 is nothing
            yield "value", node.value * 1.1, None
            yield "value", node.value / 1.1, None
        case ast.Constant(value=str()):
            yield "value", f"{node.value}?", None
        case ast.MatchOr():
            for fewer, told in _fewer(node.patterns):
                yield "patterns", fewer, told
        case ast.Call(func=ast.Name(id="min" | "max")):
            other = {"min": "max", "max": "min"}[node.func.id]
            yield "func", ast.copy_location(ast.Name(other, ast.Load()), node.func), None
        case ast.Attribute(value=ast.Name(id=kind)) if node.attr in enums.get(kind, ()):
            yield "attr", after(enums[kind], node.attr), None
        case ast.Return(value=ast.Tuple() as order) if len(order.elts) > 3:
            for fewer, told in _fewer(order.elts):
                yield "value", _tuple(fewer, order), told
            for n, (one, other) in enumerate(pairwise(order.elts)):
                swapped = [*order.elts[:n], other, one, *order.elts[n + 2 :]]
                yield "value", _tuple(swapped, order), f"{_told(other)} before {_told(one)}"
    if isinstance(node, _CONDITIONS):
        field = "guard" if isinstance(node, ast.match_case) else "test"
        if isinstance(condition := getattr(node, field), _PLAIN):
            negated = ast.UnaryOp(ast.Not(), condition)
            yield field, ast.fix_missing_locations(ast.copy_location(negated, condition)), None


def _fewer(listed):
    """Yield the list without each of its elements in turn, and how that reads."""
    for n, element in enumerate(listed):
        yield listed[:n] + listed[n + 1 :], f"without {_told(element)}"


def _tuple(elements, old):
    return ast.copy_location(ast.Tuple(elements, ast.Load()), old)


class _Truth(ast.Not):
    """Marks a ``not`` that is to be left out."""


class Clean(ast.NodeTransformer):
    """Make a changed tree valid: operators of one operand are that operand."""

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        return node.operand if isinstance(node.op, _Truth) else node

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        return node.values[0] if len(node.values) == 1 else node

    def visit_MatchOr(self, node):
        self.generic_visit(node)
        return node.patterns[0] if len(node.patterns) == 1 else node


def _told(node):
    """Return a node as source in one line; of a statement, its condition."""
    if isinstance(node, ast.If | ast.While):
        node = node.test
    elif isinstance(node, ast.match_case):
        return f"case {ast.unparse(node.pattern)} if {ast.unparse(node.guard)}"
    return " ".join(ast.unparse(node).split())


def _with(node, field, new):
    """Return the source of a node as it is after a change."""
    old = getattr(node, field)
    setattr(node, field, new)
    text = _told(node)
    setattr(node, field, old)
    return text


# Mutants of every room


def modules_of(root):
    """Return the trees of all modules by their dotted names, without the name of the package."""
    package = root / "smartcrawl"
    trees = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        trees[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"))
    return trees


def enums_of(trees):
    """Return the members of each enum by its name; of equal names, those of the last one."""
    found = {}
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and any(
                ast.unparse(base).endswith(("Enum", "Flag")) for base in node.bases
            ):
                found[node.name] = [
                    target.id
                    for line in node.body
                    if isinstance(line, ast.Assign)
                    for target in line.targets
                    if isinstance(target, ast.Name)
                ]
    return found


def mutants_of_module(module, tree, enums) -> Iterator[Mutant]:
    """Yield the mutants of a module of any room; see `_kept`."""
    kept = _kept(tree)
    for mutant in mutants_of_syntax(module, tree, enums):
        if mutant.node not in kept:
            yield mutant


def _kept(tree):
    """Return the nodes that are no places of a mutant.

    Texts with a space are sentences for people, or SQL, of which every word would be a place; they
    stay, and so do the pieces of f-strings. Names of types mean nothing when code runs.
    """
    kept = set()
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str() as text) if " " in text.strip() or "\n" in text:
                kept.add(node)
            case ast.JoinedStr():
                kept.update(part for part in node.values if isinstance(part, ast.Constant))
            case ast.Subscript(value=ast.Name(id="Literal" | "Annotated")):
                kept.update(ast.walk(node.slice))
            case ast.Call(func=ast.Name(id="TypeVar" | "ParamSpec" | "NewType" | "cast")):
                kept.update(part for part in node.args[:1] if isinstance(part, ast.Constant))
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                kept.update(ast.walk(node))
            case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
                kept.update(ast.walk(node.value))
    return kept


def changed_text(tree, mutant):
    """Return the source of a tree with one mutant of it; the tree is spent."""
    mutant.syntax()
    return ast.unparse(ast.fix_missing_locations(Clean().visit(tree))) + "\n"
