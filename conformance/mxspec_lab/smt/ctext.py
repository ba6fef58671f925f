"""The C99 header itself as terms: its text is parsed by pycparser and executed on symbols.

Both branches of a test that is not constant are executed on copies of the memory, which are merged behind it; a loop is unrolled while its
condition can hold. What the header does not use, this does not know, and refuses: floating point, goto, recursion without end, casts of pointers.
Integers have the widths of LP64; signed overflow, which the header does not have, would wrap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from mxspec_lab.smt import terms
from mxspec_lab.smt.terms import BOOL, FALSE, TRUE, Term, binary, both, const, either, ite, negate, resize

_TYPES = {
    "uint8_t": (8, False),
    "int32_t": (32, True),
    "uint32_t": (32, False),
    "int64_t": (64, True),
    "uint64_t": (64, False),
    "size_t": (64, False),
}
_PRELUDE = "typedef unsigned char uint8_t; typedef int int32_t; typedef unsigned int uint32_t; typedef long int64_t; typedef unsigned long uint64_t; typedef unsigned long size_t;\n"
#: How often a loop is unrolled: the header's go over the bits of a word.
_ROUNDS = 64


#: A frame's entry for the type that its function returns.
_RETURNS = "return"


class UnknownCError(ValueError):
    """Text that the executor does not know. The message has the place."""


@dataclass(frozen=True, slots=True)
class Int:
    """An integer value of a C type."""

    term: Term
    is_signed: bool

    @property
    def width(self) -> int:
        """Bits."""
        return self.term.width


@dataclass(frozen=True, slots=True)
class Struct:
    """A structure's members; replaced, never changed."""

    members: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Array:
    """Constant values."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address in the memory, or the name of a function; 0 is null."""

    to: Any


NULL = Pointer(0)


@dataclass(slots=True)
class _State:
    """Memory, and what a function has returned: `done` says where it has."""

    memory: dict[Any, Any]
    done: Term = FALSE
    returned: Any = None

    def copy(self) -> _State:
        return _State(dict(self.memory), self.done, self.returned)


def number(value: int, width: int = 32, *, is_signed: bool = True) -> Int:
    """A constant."""
    return Int(const(value, width), is_signed)


def merge(test: Term, a: Any, b: Any) -> Any:
    """a where the test holds, else b; what only one has is that one's, since the other never reads it."""
    if a is b or b is None or test is TRUE:
        return a
    if a is None or test is FALSE:
        return b
    if isinstance(a, Int):
        return Int(ite(test, a.term, b.term), a.is_signed)
    if isinstance(a, Struct):
        return Struct({name: merge(test, value, b.members[name]) for name, value in a.members.items()})
    if a == b:
        return a
    raise UnknownCError(f"the branches of a test leave {a} and {b}; pointers and arrays are not merged")


def _merge_states(test: Term, a: _State, b: _State) -> _State:
    memory = {k: merge(test, a.memory.get(k), b.memory.get(k)) for k in dict.fromkeys((*a.memory, *b.memory))}
    return _State(memory, ite(test, a.done, b.done), merge(test, a.returned, b.returned))


def truth(value: Any) -> Term:
    """Whether a value is not zero."""
    if isinstance(value, Pointer):
        return const(value != NULL, BOOL)
    term = value.term
    # What a test made, and C turned into 0 or 1.
    if term.op == "ite" and {term.args[1].value, term.args[2].value} == {0, 1}:
        return term.args[0] if term.args[1].value == 1 else negate(term.args[0])
    return negate(binary("=", term, const(0, term.width)))


def _flag(test: Term) -> Int:
    return Int(ite(test, const(1, 32), const(0, 32)), True)


def convert(value: Any, kind: Any) -> Any:
    """An integer as a C integer type, (width, signed); other values, and values of other types, as they are."""
    if not isinstance(kind, tuple) or not isinstance(value, Int):
        return value
    return Int(resize(value.term, kind[0], is_signed=value.is_signed), kind[1])


def _promote(value: Int) -> Int:
    return value if value.width >= 32 else Int(resize(value.term, 32, is_signed=value.is_signed), True)


def _usual(a: Int, b: Int) -> tuple[Int, Int]:
    """The usual arithmetic conversions."""
    a, b = _promote(a), _promote(b)
    width = max(a.width, b.width)
    unsigned = any(v.width == width and not v.is_signed for v in (a, b))
    return convert(a, (width, not unsigned)), convert(b, (width, not unsigned))


@lru_cache(maxsize=4096)
def _conjuncts(path: Term) -> frozenset[Term]:
    """What is true where a conjunction is."""
    if path.op == "and":
        return _conjuncts(path.args[0]) | _conjuncts(path.args[1])
    return frozenset((path,))


@dataclass
class Program:
    """A header, ready to be executed."""

    text: str
    _functions: dict[str, Any] = field(default_factory=dict, repr=False)
    _globals: dict[str, Any] = field(default_factory=dict, repr=False)
    _enums: dict[str, int] = field(default_factory=dict, repr=False)
    _structs: dict[str, Any] = field(default_factory=dict, repr=False)
    _typedefs: dict[str, Any] = field(default_factory=dict, repr=False)
    _frames: int = 0
    #: The tests that lead to where execution is, and where a loop would go on after `_ROUNDS`: claims must show that these cannot hold.
    _path: Term = TRUE
    unfinished: list[Term] = field(default_factory=list)

    def __post_init__(self) -> None:
        import pycparser
        from pycparser import c_ast

        self._ast = c_ast
        plain = re.sub(r"/\*.*?\*/", "", self.text, flags=re.DOTALL)
        plain = "\n".join(line for line in plain.splitlines() if not line.startswith("#"))
        for item in pycparser.CParser().parse(_PRELUDE + plain, "mxspec_c99.h").ext:
            if isinstance(item, c_ast.FuncDef):
                self._functions[item.decl.name] = item
            elif isinstance(item, c_ast.Typedef):
                self._typedefs[item.name] = item.type
                self._note(item.type)
            elif isinstance(item, c_ast.Decl):
                self._note(item.type)
                if item.name:
                    self._globals[item.name] = item

    def _note(self, kind: Any) -> None:
        """Enumerators and structures that a declaration brings."""
        inner = kind.type if isinstance(kind, self._ast.TypeDecl) else kind
        if isinstance(inner, self._ast.Enum) and inner.values:
            for i, e in enumerate(inner.values.enumerators):
                self._enums[e.name] = i
        if isinstance(inner, self._ast.Struct) and inner.decls:
            self._structs[inner.name or str(id(inner))] = inner

    # Types

    def _kind(self, kind: Any) -> Any:
        """(width, signed) of an integer type, the declarations of a structure, or None for what is neither."""
        c = self._ast
        while isinstance(kind, c.TypeDecl | c.Typename):
            kind = kind.type
        if isinstance(kind, c.IdentifierType):
            name = " ".join(kind.names)
            if name in _TYPES:
                return _TYPES[name]
            if name in self._typedefs:
                return self._kind(self._typedefs[name])
            return {"int": (32, True), "char": (8, True)}.get(name)
        if isinstance(kind, c.Struct):
            return kind if kind.decls else self._structs.get(kind.name)
        return None

    def _initial(self, kind: Any, init: Any, state: _State, frame: dict[str, Any]) -> Any:
        """The value of an initializer."""
        c = self._ast
        if isinstance(init, c.InitList):
            if isinstance(kind, c.ArrayDecl):
                return Array(tuple(self._initial(kind.type, e, state, frame) for e in init.exprs))
            struct = self._kind(kind)
            pairs = zip(struct.decls, init.exprs, strict=True)
            return Struct({d.name: self._initial(d.type, e, state, frame) for d, e in pairs})
        value, resolved = self._value(init, state, frame), self._kind(kind)
        if isinstance(kind, c.PtrDecl) or (resolved is None and isinstance(value, Int)):
            return NULL if isinstance(value, Int) else value
        return convert(value, resolved)

    def rules(self, row: int) -> Struct:
        """A row of `mx_all`."""
        table = self._globals["mx_all"]
        return self._initial(table.type.type, table.init.exprs[row], _State({}), {})  # type: ignore[no-any-return]

    # Calls

    def call(self, name: str, *arguments: Any, memory: Mapping[Any, Any]) -> Any:
        """What a function returns."""
        return self._call(name, arguments, _State(dict(memory)))

    def _call(self, name: str, arguments: Sequence[Any], state: _State) -> Any:
        item = self._functions[name]
        self._frames += 1
        if self._frames > 2_000_000:
            raise UnknownCError(f"{name} is called without end")
        parameters = item.decl.type.args.params if item.decl.type.args else []
        frame: dict[str, Any] = {_RETURNS: (None, self._kind(item.decl.type.type))}
        for p, value in zip(parameters, arguments, strict=True):
            self._declare(p, value, state, frame)
        kept = state.done, state.returned
        state.done, state.returned = FALSE, None
        self._block(item.body.block_items or [], state, frame)
        result = state.returned
        state.done, state.returned = kept
        for address in frame.values():
            state.memory.pop(address[0], None)
        return result

    def _declare(self, decl: Any, value: Any, state: _State, frame: dict[str, Any]) -> None:
        kind = self._kind(decl.type)
        self._frames += 1
        frame[decl.name] = address, _ = (self._frames, decl.name), kind
        if value is None and not isinstance(kind, tuple) and kind is not None:
            value = Struct({d.name: None for d in kind.decls})
        state.memory[address] = convert(value, kind)

    # Statements

    def _block(self, items: Sequence[Any], state: _State, frame: dict[str, Any]) -> None:
        frame = dict(frame)
        for i, item in enumerate(items):
            if state.done is TRUE:
                return
            if state.done is not FALSE:  # what follows happens only where nothing was returned

                def go_on(rest: _State, following: Sequence[Any] = items[i:]) -> None:
                    rest.done = FALSE
                    self._block(following, rest, frame)

                self._fork(state.done, state, lambda _: None, go_on)
                return
            self._statement(item, state, frame)

    def _known(self, test: Term) -> Term:
        """A test, with what the path to here decides."""
        facts = _conjuncts(self._path)
        if test in facts:
            return TRUE
        if negate(test) in facts:
            return FALSE
        if test.op == "not":
            return negate(self._known(test.args[0]))
        if test.op == "and":
            return both(self._known(test.args[0]), self._known(test.args[1]))
        return test

    @contextmanager
    def _where(self, test: Term) -> Iterator[None]:
        """What is executed meanwhile is reached where a test holds."""
        kept, self._path = self._path, both(self._path, test)
        yield
        self._path = kept

    def _fork(self, test: Term, state: _State, then: Callable[[_State], Any], otherwise: Callable[[_State], Any]) -> Any:
        """What either branch gives; where the test is not decided, both are executed on copies of the memory, which are merged."""
        if test.value is not None:
            return (then if test.value else otherwise)(state)
        one, other = state.copy(), state.copy()
        with self._where(test):
            a = then(one)
        with self._where(negate(test)):
            b = otherwise(other)
        merged = _merge_states(test, one, other)
        state.memory, state.done, state.returned = merged.memory, merged.done, merged.returned
        return merge(test, *(_usual(a, b) if isinstance(a, Int) else (a, b)))

    def _statement(self, item: Any, state: _State, frame: dict[str, Any]) -> None:
        c = self._ast
        if isinstance(item, c.Decl):
            value = None if item.init is None else self._initial(item.type, item.init, state, frame)
            self._declare(item, value, state, frame)
        elif isinstance(item, c.Return):
            state.returned = convert(self._value(item.expr, state, frame), frame[_RETURNS][1])
            state.done = TRUE
        elif isinstance(item, c.Compound):
            self._block(item.block_items or [], state, frame)
        elif isinstance(item, c.If):
            test = self._known(truth(self._value(item.cond, state, frame)))
            branches = [item.iftrue], [item.iffalse] if item.iffalse else []
            self._fork(test, state, *(partial(self._block, branch, frame=frame) for branch in branches))
        elif isinstance(item, c.While):
            self._loop(item.cond, [item.stmt], state, frame, 0)
        elif isinstance(item, c.For):
            if item.init is not None:
                self._value(item.init, state, frame)
            self._loop(item.cond, [item.stmt, item.next], state, frame, 0)
        elif isinstance(item, c.Switch):
            self._switch(item, state, frame)
        elif not isinstance(item, c.EmptyStatement):
            self._value(item, state, frame)

    def _loop(self, cond: Any, body: list[Any], state: _State, frame: dict[str, Any], count: int) -> None:
        test = self._known(truth(self._value(cond, state, frame)))
        if test is FALSE:
            return
        if count == _ROUNDS:
            self.unfinished.append(both(self._path, test))
            return

        def go_round(inside: _State) -> None:
            self._block(body, inside, frame)
            if inside.done is not FALSE:
                raise UnknownCError(f"{cond.coord}: a loop with a return")
            self._loop(cond, body, inside, frame, count + 1)

        self._fork(test, state, go_round, lambda _: None)

    def _switch(self, item: Any, state: _State, frame: dict[str, Any]) -> None:
        """Cases that each end by a return."""
        c = self._ast
        asked = self._value(item.cond, state, frame)
        otherwise, cases = ([p for p in item.stmt.block_items if isinstance(p, kind)] for kind in (c.Default, c.Case))
        for part in cases:
            if not isinstance(part.stmts[-1], c.Return):
                raise UnknownCError(f"{part.coord}: a case without return")

        def go(i: int, at: _State) -> None:
            if i == len(cases):
                self._block(otherwise[0].stmts if otherwise else [], at, frame)
                return
            test = truth(self._binary("==", asked, self._value(cases[i].expr, at, frame)))
            self._fork(test, at, partial(self._block, cases[i].stmts, frame=frame), partial(go, i + 1))

        go(0, state)

    # Expressions

    def _value(self, e: Any, state: _State, frame: dict[str, Any]) -> Any:
        c = self._ast
        if isinstance(e, c.Constant):
            if e.type == "string":
                return e.value.strip('"')
            digits = e.value.rstrip("uUlL")
            n = int(digits, 0)
            is_signed = "u" not in e.value.lower()
            return number(n, 64 if n >> (31 if is_signed else 32) else 32, is_signed=is_signed)
        if isinstance(e, c.ID):
            return self._identifier(e.name, state, frame)
        if isinstance(e, c.ExprList):
            for part in e.exprs[:-1]:
                self._value(part, state, frame)
            return self._value(e.exprs[-1], state, frame)
        if isinstance(e, c.Assignment):
            return self._assign(e, state, frame)
        if isinstance(e, c.UnaryOp):
            return self._unary(e, state, frame)
        if isinstance(e, c.BinaryOp):
            return self._lazy(e, state, frame)
        if isinstance(e, c.TernaryOp):
            test = self._known(truth(self._value(e.cond, state, frame)))
            return self._fork(test, state, *(partial(self._value, branch, frame=frame) for branch in (e.iftrue, e.iffalse)))
        if isinstance(e, c.Cast):
            return convert(self._value(e.expr, state, frame), self._kind(e.to_type))
        if isinstance(e, c.StructRef):
            whole = self._value(e.name, state, frame)
            return (self._at(whole.to, state) if e.type == "->" else whole).members[e.field.name]
        if isinstance(e, c.ArrayRef):
            return self._index(self._value(e.name, state, frame), self._value(e.subscript, state, frame))
        if isinstance(e, c.FuncCall):
            arguments = [self._value(a, state, frame) for a in (e.args.exprs if e.args else [])]
            return self._call(self._value(e.name, state, frame).to, arguments, state)
        raise UnknownCError(f"{e.coord}: {type(e).__name__}")

    def _identifier(self, name: str, state: _State, frame: dict[str, Any]) -> Any:
        if name in frame:
            return state.memory[frame[name][0]]
        if name == "INT32_MAX":
            return number((1 << 31) - 1)
        if name in self._enums:
            return number(self._enums[name])
        if name in self._functions:
            return Pointer(name)
        return self._at(name, state)

    def _at(self, address: Any, state: _State) -> Any:
        """What lies at an address; constants of the header are read when they are first needed."""
        if address not in state.memory:
            decl = self._globals[address]
            state.memory[address] = self._initial(decl.type, decl.init, state, {})
        return state.memory[address]

    def _address(self, e: Any, state: _State, frame: dict[str, Any]) -> Any:
        """Where an expression that can be assigned to lies: (address, members below it, type)."""
        c = self._ast
        if isinstance(e, c.ID):
            if e.name in frame:
                return frame[e.name][0], (), frame[e.name][1]
            self._identifier(e.name, state, frame)
            return e.name, (), None
        if isinstance(e, c.UnaryOp) and e.op == "*":
            return self._value(e.expr, state, frame).to, (), None
        if isinstance(e, c.StructRef):
            if e.type == "->":
                return self._value(e.name, state, frame).to, (e.field.name,), None
            address, path, _ = self._address(e.name, state, frame)
            return address, (*path, e.field.name), None
        raise UnknownCError(f"{e.coord}: assignment to {type(e).__name__}")

    def _assign(self, e: Any, state: _State, frame: dict[str, Any]) -> Any:
        value = self._value(e.rvalue, state, frame)
        address, path, kind = self._address(e.lvalue, state, frame)
        old: Any = state.memory.get(address)
        for name in path:
            old = old.members[name]
        if e.op != "=":
            value = self._binary(e.op[:-1], old, value)
        if isinstance(value, Int):
            value = convert(value, kind or ((old.width, old.is_signed) if isinstance(old, Int) else self._member(path)))
        self._store(state, address, path, value)
        return value

    def _member(self, path: tuple[str, ...]) -> tuple[int, bool] | None:
        """The type of a member that has no value yet: by its name, of which there is one among the runtime's structures."""
        if not path:
            return None
        kinds = [self._kind(d.type) for s in self._structs.values() for d in s.decls if d.name == path[-1]]
        return next((k for k in kinds if isinstance(k, tuple)), None)

    def _store(self, state: _State, address: Any, path: tuple[str, ...], value: Any) -> None:
        def put(whole: Any, names: tuple[str, ...]) -> Any:
            return value if not names else Struct({**whole.members, names[0]: put(whole.members[names[0]], names[1:])})

        state.memory[address] = put(state.memory.get(address), path)

    def _unary(self, e: Any, state: _State, frame: dict[str, Any]) -> Any:
        if e.op == "&":
            address, path, _ = self._address(e.expr, state, frame)
            if path:
                raise UnknownCError(f"{e.coord}: the address of a member")
            return Pointer(address)
        if e.op in ("p++", "p--", "++", "--"):
            address, path, _ = self._address(e.expr, state, frame)
            old = self._value(e.expr, state, frame)
            new = convert(self._binary(e.op[-1], old, number(1)), (old.width, old.is_signed))
            self._store(state, address, path, new)
            return old if e.op[0] == "p" else new
        value = self._value(e.expr, state, frame)
        if e.op == "*":
            return self._at(value.to, state)
        if e.op == "!":
            return _flag(negate(truth(value)))
        value = _promote(value)
        if e.op == "-":
            return Int(binary("bvsub", const(0, value.width), value.term), value.is_signed)
        if e.op == "~":
            return Int(terms.invert(value.term), value.is_signed)
        raise UnknownCError(f"{e.coord}: {e.op}")

    def _lazy(self, e: Any, state: _State, frame: dict[str, Any]) -> Any:
        if e.op not in ("&&", "||"):
            return self._binary(e.op, self._value(e.left, state, frame), self._value(e.right, state, frame))
        left = self._known(truth(self._value(e.left, state, frame)))
        if left is (FALSE if e.op == "&&" else TRUE):
            return _flag(left)
        with self._where(left if e.op == "&&" else negate(left)):
            right = self._known(truth(self._value(e.right, state, frame)))
        return _flag((both if e.op == "&&" else either)(left, right))

    def _index(self, whole: Any, at: Int) -> Any:
        if at.term.value is not None:
            return whole.items[at.term.value]
        result = whole.items[-1]
        for i in reversed(range(len(whole.items) - 1)):
            result = merge(binary("=", at.term, const(i, at.width)), whole.items[i], result)
        return result

    def _binary(self, op: str, a: Any, b: Any) -> Any:
        if isinstance(a, Pointer) or isinstance(b, Pointer):
            same = a == b or (isinstance(b, Int) and b.term.value == 0 and a == NULL)
            return _flag(const(same == (op == "=="), BOOL))
        if op in ("<<", ">>"):
            a, b = _promote(a), _promote(b)
            by = resize(b.term, a.width, is_signed=b.is_signed)
            return Int(terms.shift("bvshl" if op == "<<" else "bvashr" if a.is_signed else "bvlshr", a.term, by), a.is_signed)
        a, b = _usual(a, b)
        if op in _ARITHMETIC:
            return Int(binary(_ARITHMETIC[op], a.term, b.term), a.is_signed)
        if op in ("==", "!="):
            equal = binary("=", a.term, b.term)
            return _flag(equal if op == "==" else negate(equal))
        if op in ("<", ">", "<=", ">="):
            x, y = (a, b) if op in ("<", ">=") else (b, a)
            less = terms.less(x.term, y.term, is_signed=a.is_signed)
            return _flag(negate(less) if "=" in op else less)
        raise UnknownCError(f"operator {op}")


_ARITHMETIC = {"+": "bvadd", "-": "bvsub", "*": "bvmul", "&": "bvand", "|": "bvor", "^": "bvxor"}
