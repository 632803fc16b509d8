"""How does a module with many frozen dataclasses load quickly? By sharing the methods that are the same in all of them.

Before Python 3.13 each generated method is compiled separately at import, and a hook imports a hundred dataclasses on
every prompt. `==`, `hash` and `repr` do the same in all of them, so they are ordinary functions here; what differs
(`__init__`, and the refusal of assignments) is left to the standard library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses

    def _compared(thing):
        return tuple(getattr(thing, item.name) for item in dataclasses.fields(thing) if item.compare)

    def _equal(self, other):
        return _compared(self) == _compared(other) if other.__class__ is self.__class__ else NotImplemented

    def _hash(self):
        return hash(_compared(self))

    def _repr(self):
        shown = (f"{item.name}={getattr(self, item.name)!r}" for item in dataclasses.fields(self) if item.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def dataclass(*, frozen, eq=True, **options):
        def build(cls):
            own = {name: function for name, function in _SHARED.items() if name not in vars(cls)}
            about = cls.__doc__
            cls.__doc__ = about or cls.__name__  # otherwise the library renders the signature as an unused docstring
            built = dataclasses.dataclass(frozen=frozen, eq=False, repr=False, **options)(cls)
            built.__doc__ = about
            for name, function in own.items():
                if eq or name == "__repr__":
                    setattr(built, name, function)
            return built

        return build

    _SHARED = {"__eq__": _equal, "__hash__": _hash, "__repr__": _repr}
