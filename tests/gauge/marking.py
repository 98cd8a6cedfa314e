"""Marked code: a copy of the package that notes which mutants' places a process came by.

An expression E of a function becomes ``(_hit_(17), E)[1]``. Where that cannot stand (patterns,
pieces of f-strings, statements), the statement before notes it. What runs at the import, every test
comes by: there the functions that use the name are marked at their entry, in other modules, too.
"""

import ast
import shutil
from collections import defaultdict
from functools import cache
from pathlib import Path

from tests import mutants

HITS = Path(__file__).with_name("hits.py")
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_PIECES = ast.JoinedStr | ast.FormattedValue | ast.pattern


class Package:
    """The trees of all modules, and which of them import which."""

    def __init__(self, trees):
        self.trees = trees
        self.around = defaultdict(list)  #: numbers by expressions
        self.before = defaultdict(list)  #: numbers by statements
        self.entries = defaultdict(list)  #: numbers by functions
        self._parents = {}
        for tree in trees.values():
            for node in ast.walk(tree):
                for field, value in ast.iter_fields(node):
                    for child in value if isinstance(value, list) else [value]:
                        if isinstance(child, ast.AST):
                            self._parents[child] = (node, field)

    def mark(self, module, node, number):
        """Have the place of a mutant note its number."""
        whole = node
        match node:
            case ast.If() | ast.While():
                node = node.test
            case ast.match_case():
                node = node.guard
        definition = None
        inner = whole
        while inner in self._parents:
            parent, field = self._parents[inner]
            if isinstance(parent, _FUNCTIONS | ast.Lambda):
                if field == "body":
                    self._mark_here(node, whole, number)
                    return
                if isinstance(parent, _FUNCTIONS):
                    definition = definition or parent
            inner = parent
        if definition is not None:
            self.entries[definition].append(number)
            return
        functions = self._users(module, whole)
        for function in functions:
            self.entries[function].append(number)
        if not functions:
            self.before[self._statement(whole)].append(number)

    def _mark_here(self, node, whole, number):
        inner, plain = node, isinstance(node, ast.expr)
        while plain and isinstance(inner, ast.AST) and not isinstance(inner, ast.stmt):
            inner = self._parents[inner][0]
            plain = not isinstance(inner, _PIECES)
            if isinstance(inner, ast.Lambda | ast.comprehension):
                break
        if plain:
            self.around[node].append(number)
        else:
            self.before[self._statement(whole)].append(number)

    def _statement(self, node):
        while not isinstance(node, ast.stmt):
            node = self._parents[node][0]
        return node

    def _users(self, module, node):
        """Return the functions that use what a place outside of functions is a part of."""
        statement = top = self._statement(node)
        owner = None
        while not isinstance(self._parents[top][0], ast.Module):
            top = self._parents[top][0]
            if isinstance(top, ast.ClassDef) and owner is None:
                owner = top
        if owner is None and isinstance(statement, ast.ClassDef):
            owner = statement
        if owner is not None and (methods := _functions(owner)):
            return methods
        names = _bound(top)
        return (
            (names and list(dict.fromkeys(self._naming(module, names, set()))))
            or _functions(self.trees[module])
            or [f for other in self._importers(module) for f in _functions(self.trees[other])]
        )

    def _naming(self, module, names, seen):
        """Yield the functions of a module, and of those that import it, that name any of these."""
        names, tree = set(names), self.trees[module]
        grown = True
        while grown:  # what is made of it at the import, too
            grown = False
            for line in tree.body:
                if isinstance(line, _FUNCTIONS) or _bound(line) <= names:
                    continue
                if names & _named(line, outside=True):
                    names |= _bound(line)
                    grown = True
        if (module, frozenset(names)) in seen:
            return
        seen.add((module, frozenset(names)))
        yield from (function for function in _functions(tree) if names & _named(function))
        for line in tree.body:
            if isinstance(line, ast.ClassDef) and line.name in names:
                yield from _functions(line)
        for other in self._importers(module):
            taken = _taken(self.trees[other], module, names)
            if taken:
                yield from self._naming(other, taken, seen)

    def _importers(self, module):
        return [other for other, tree in self.trees.items() if _taken(tree, module, None)]

    def text(self, module):
        """Return the source of a module with its marks; None where there are none."""
        tree = self.trees[module]
        marks = (self.around, self.before, self.entries)
        if not any(node in marked for node in ast.walk(tree) for marked in marks):
            return None
        tree = _Marker(self).visit(tree)
        place = 0
        for place, line in enumerate(tree.body):  # noqa: B007
            docstring = isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
            future = isinstance(line, ast.ImportFrom) and line.module == "__future__"
            if not docstring and not future:
                break
        tree.body[place:place] = ast.parse("from smartcrawl._gate_hits import hit as _hit_").body
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


class _Marker(ast.NodeTransformer):
    """Writes the marks of a package into one of its trees."""

    def __init__(self, package):
        self._package = package

    def visit(self, node):
        package = self._package
        around, before = package.around.get(node), package.before.get(node)
        entry = package.entries.get(node)
        self.generic_visit(node)
        if entry:
            place = 1 if ast.get_docstring(node) is not None else 0
            node.body[place:place] = [ast.Expr(_hit(entry))]
        if around:
            pair = ast.Tuple([_hit(around), node], ast.Load())
            return ast.Subscript(pair, ast.Constant(1), ast.Load())
        return [ast.Expr(_hit(before)), node] if before else node


def _hit(numbers):
    name = ast.Name("_hit_", ast.Load())
    return ast.Call(name, [ast.Constant(number) for number in dict.fromkeys(numbers)], [])


@cache
def _functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]


def _bound(line):
    """Return the names that a line of a module binds."""
    if isinstance(line, ast.ClassDef | _FUNCTIONS):
        return {line.name}
    if isinstance(line, ast.Import | ast.ImportFrom):
        return set()
    return {
        node.id
        for node in ast.walk(line)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


@cache
def _named(tree, *, outside=False):
    """Return the names that code reads; ``outside``: of its functions."""
    found, level = set(), [tree]
    while level:
        node = level.pop()
        if outside and isinstance(node, _FUNCTIONS):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        level += ast.iter_child_nodes(node)
    return found


@cache
def _imports(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def _taken(tree, module, names):
    """Return by which names a tree has those of a module; None: whether it imports the module."""
    whole = f"smartcrawl.{module.removesuffix('.__init__')}"
    above, _, last = whole.rpartition(".")
    found = set()
    for node in _imports(tree):
        if isinstance(node, ast.ImportFrom) and node.module == whole:
            found |= {a.asname or a.name for a in node.names if names is None or a.name in names}
        elif (
            isinstance(node, ast.ImportFrom)
            and node.module == above
            and any(alias.name == last for alias in node.names)
        ) or (isinstance(node, ast.Import) and any(a.name == whole for a in node.names)):
            found |= {"*"} if names is None else names
    return found


def mark(root, names, folder):
    """Mark the places of mutants in a checkout; return the names of which nothing is there."""
    trees = mutants.modules_of(root)
    enums = mutants.enums_of(trees)
    package = Package(trees)
    numbers = {tuple(name): number for number, name in enumerate(names)}
    missing = set(numbers)
    for module in {name.module for name in names} & trees.keys():
        for mutant in list(mutants.mutants_of_module(module, trees[module], enums)):
            key = (mutant.module, mutant.function, mutant.change, mutant.ordinal)
            if key in numbers:
                package.mark(module, mutant.node, numbers[key])
                missing.discard(key)
    package_folder = root / "smartcrawl"
    for module in trees:
        path = package_folder / f"{module.replace('.', '/')}.py"
        if marked := package.text(module):
            path.write_text(marked, encoding="utf-8")
    text = HITS.read_text(encoding="utf-8")
    text = text.replace('FOLDER = ""', f"FOLDER = {str(folder)!r}")
    text = text.replace("SIZE = 0", f"SIZE = {len(names)}")
    (package_folder / "_gate_hits.py").write_text(text, encoding="utf-8")
    folder.mkdir(parents=True)
    (folder / "size").write_text(str(len(names)))
    shutil.copy(HITS.with_name("plugin.py"), root / "tests" / "gate_plugin.py")
    return [name for name in names if tuple(name) in missing]
