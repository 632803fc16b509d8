"""How does a module with many frozen dataclasses load quickly? By compiling nothing for them until one is made.

Before Python 3.13 the standard library compiles each generated method separately at import, and a hook imports a
hundred and fifty dataclasses on every prompt, of which it makes a dozen. Here `__init__` is compiled when the first
instance of its class is made; `==`, `hash`, `repr` and the refusal of assignments do the same in all of them, so they
are ordinary functions. What the fields are is left to the standard library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    from functools import cache

    _MISSING = dataclasses.MISSING

    def dataclass(*, frozen, eq=True, **options):
        assert frozen

        def build(cls):
            own = set(vars(cls))
            about = cls.__doc__
            cls.__doc__ = about or cls.__name__  # otherwise the library renders the signature as an unused docstring
            # The library compiles methods for `frozen`, too.
            built = dataclasses.dataclass(init=False, eq=False, repr=False, **options)(cls)
            built.__doc__ = about
            built.__init__ = _late_init(built)
            for name, function in (_SHARED | (_COMPARING if eq else {})).items():
                if name not in own:
                    setattr(built, name, function)
            return built

        return build

    def _late_init(cls):
        def make(self, *values, **named):
            cls.__init__ = _compiled_init(cls)
            cls.__init__(self, *values, **named)

        return make

    def _compiled_init(cls):
        """An `__init__` as the standard library compiles it for a frozen dataclass."""
        items = dataclasses.fields(cls)
        scope = {"_set": object.__setattr__, "_missing": _MISSING}
        ordered = [
            *(item for item in items if item.init and not item.kw_only),
            None,  # after it, fields are given by name
            *(item for item in items if item.init and item.kw_only),
        ]
        arguments = ["*" if item is None else _argument(item, scope) for item in ordered]
        arguments = arguments[:-1] if ordered[-1] is None else arguments
        body = [line for item in items if (line := _assignment(item, scope))]
        body += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
        source = f"def __init__({', '.join(['self', *arguments])}):\n " + ("\n ".join(body) or "pass")
        exec(source, scope)  # noqa: S102 - of names of fields alone
        scope["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
        return scope["__init__"]

    def _argument(item, scope):
        if item.default is not _MISSING:
            scope[f"_default_{item.name}"] = item.default
            return f"{item.name}=_default_{item.name}"
        return item.name if item.default_factory is _MISSING else f"{item.name}=_missing"

    def _assignment(item, scope):
        value = item.name
        if item.default_factory is not _MISSING:
            scope[f"_make_{item.name}"] = item.default_factory
            value = f"_make_{item.name}() if {item.name} is _missing else {item.name}"
            value = value if item.init else f"_make_{item.name}()"
        elif not item.init:
            if item.default is _MISSING:
                return ""
            scope[f"_default_{item.name}"] = item.default
            value = f"_default_{item.name}"
        return f"_set(self, {item.name!r}, {value})"

    @cache
    def _compared(cls):
        return tuple(item.name for item in dataclasses.fields(cls) if item.compare)

    def _values(thing):
        return tuple([getattr(thing, name) for name in _compared(thing.__class__)])

    def _equal(self, other):
        return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented

    def _hash(self):
        return hash(_values(self))

    def _repr(self):
        shown = (f"{item.name}={getattr(self, item.name)!r}" for item in dataclasses.fields(self) if item.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _refuse_set(self, name, value):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_delete(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _state(self):
        return [getattr(self, item.name) for item in dataclasses.fields(self)], getattr(self, "__dict__", None)

    def _restore(self, state):
        values, others = state
        for item, value in zip(dataclasses.fields(self), values, strict=True):
            object.__setattr__(self, item.name, value)
        if others:
            self.__dict__.update(others)

    _SHARED = {
        "__repr__": _repr,
        "__setattr__": _refuse_set,
        "__delattr__": _refuse_delete,
        "__getstate__": _state,  # copies and pickles set the fields of an instance with slots by assignment otherwise
        "__setstate__": _restore,
    }
    _COMPARING = {"__eq__": _equal, "__hash__": _hash}
