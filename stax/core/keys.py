"""Arrays of keys: what `random.key` gives, a value of its own kind that is no number.

Input: 64-bit words, one a key, as an array or a traced value of the keys' shape.  Output: an array
that can be indexed, reshaped, stacked and chosen from, drawn from with `stax.random`, and computed
with in no other way.  To transformations it is a container of its words (so `vmap`, `scan` and
`jit` see an array of the same shape), to a user's tree functions a leaf.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

import numpy as np

from stax.core.trace import ARRAY_FUNCTIONS, Tracer
from stax.dtypes import KEY_DTYPE, KeyDtype
from stax.errors import DtypeError
from stax.pytree import register_pytree_node, seal

F = TypeVar("F", bound=Callable[..., Any])

_WORD = np.dtype(np.uint64)
# NumPy's functions that move elements and look at none.
_MOVING = frozenset(
    "append array array_equal array_split asarray atleast_1d atleast_2d atleast_3d block "
    "broadcast_arrays broadcast_to choose column_stack compress concat concatenate copy "
    "delete diagonal dsplit dstack expand_dims extract flip fliplr flipud hsplit hstack "
    "insert matrix_transpose moveaxis ndim permute_dims ravel repeat reshape resize roll "
    "rollaxis rot90 select shape size split squeeze stack swapaxes take take_along_axis tile "
    "transpose unstack vsplit vstack where".split()
)


class KeyArray:
    """Keys of the random generator; make one with `stax.random.key(seed)`."""

    __slots__ = ("_words",)
    __array_priority__ = 2000.0
    __hash__ = None  # type: ignore[assignment]  # as arrays, which compare by element
    in_use: ClassVar[bool] = False

    def __init__(self, words: Any) -> None:
        self._words = words
        KeyArray.in_use = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents: `()` for one key."""
        return tuple(self._words.shape)

    @property
    def dtype(self) -> KeyDtype:
        """`key<fry>`, which is of the kind `dtypes.prng_key`."""
        return KEY_DTYPE

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of keys."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def itemsize(self) -> int:
        """Bytes of a key."""
        return KEY_DTYPE.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all keys."""
        return self.size * self.itemsize

    @property
    def T(self) -> KeyArray:
        """The keys with their axes reversed."""
        return KeyArray(self._words.T)

    @property
    def at(self) -> _At:
        """`keys.at[index].set(keys)` and `.get()`."""
        return _At(self._words)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[KeyArray]:
        if not self.shape:
            raise TypeError("iteration over a 0-d key array")
        return iter([self[k] for k in range(self.shape[0])])

    def __getitem__(self, index: Any) -> KeyArray:
        return KeyArray(_array(self._words[index]))

    def __eq__(self, other: object) -> Any:
        return self._words == other._words if isinstance(other, KeyArray) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return self._words != other._words if isinstance(other, KeyArray) else NotImplemented

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise DtypeError(
            "keys are no numbers, and make no NumPy array",
            operands=[str(self)],
            hint="take their words with stax.random.key_data(keys), or draw from them with "
            "stax.random",
        )

    def __bool__(self) -> bool:
        raise TypeError("keys have no truth value")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        name = ufunc.__name__
        if name in ("equal", "not_equal") and method == "__call__" and not kwargs:
            a, b = inputs
            return (
                NotImplemented if type(a) is not type(b) else a == b if name == "equal" else a != b
            )
        raise _no_arithmetic(name, self)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        return moved_keys(ARRAY_FUNCTIONS.get(func, func), func.__name__, args, kwargs)

    def reshape(self, *shape: Any) -> KeyArray:
        """The keys in another shape."""
        return KeyArray(self._words.reshape(*shape))

    def ravel(self) -> KeyArray:
        """The keys along one axis."""
        return KeyArray(self._words.reshape(-1))

    flatten = ravel

    def squeeze(self, axis: Any = None) -> KeyArray:
        """The keys without axes of one element."""
        return KeyArray(_array(self._words.squeeze(axis)))

    def transpose(self, *axes: Any) -> KeyArray:
        """The keys with their axes in another order."""
        return KeyArray(self._words.transpose(*axes))

    def swapaxes(self, axis1: int, axis2: int) -> KeyArray:
        """The keys with two axes exchanged."""
        return KeyArray(self._words.swapaxes(axis1, axis2))

    def take(self, indices: Any, axis: Any = None) -> KeyArray:
        """The keys at the positions `indices` along an axis."""
        return KeyArray(_array(self._words.take(indices, axis)))

    def repeat(self, repeats: Any, axis: Any = None) -> KeyArray:
        """Each key several times."""
        return KeyArray(self._words.repeat(repeats, axis))

    def copy(self) -> KeyArray:
        """The same keys."""
        return KeyArray(self._words)

    def block_until_ready(self) -> KeyArray:
        """The same keys: they are computed when a call returns."""
        return self

    def __repr__(self) -> str:
        head = f"Array({self.shape}, dtype={KEY_DTYPE})"
        if not isinstance(self._words, np.ndarray | np.generic):
            return f"{head} of {self._words!r}"
        return f"{head} overlaying:\n{data_of(self)}"


class _At:
    """`keys.at` and `keys.at[index]`, in terms of the words'."""

    __slots__ = ("words", "index")

    def __init__(self, words: Any, index: Any = None) -> None:
        self.words = words
        self.index = index

    def __getitem__(self, index: Any) -> _At:
        return _At(self.words, index)

    def set(self, values: Any, **how: Any) -> KeyArray:
        """The keys with some replaced."""
        if not isinstance(values, KeyArray):
            raise _no_arithmetic("at[...].set", values)
        words = self.words if isinstance(self.words, Tracer) else np.asarray(self.words)
        return KeyArray(words.at[self.index].set(values._words, **how))  # type: ignore[union-attr]  # `stax.numpy` adds it to arrays

    def get(self, **how: Any) -> KeyArray:
        """Some of the keys."""
        words = self.words if isinstance(self.words, Tracer) else np.asarray(self.words)
        return KeyArray(_array(words.at[self.index].get(**how)))  # type: ignore[union-attr]  # as above


register_pytree_node(
    KeyArray, lambda keys: ((keys._words,), None), lambda _, words: KeyArray(*words)
)
seal(KeyArray)


def words_of_keys(keys: KeyArray) -> Any:
    """Their 64-bit words, an array of the shape of the keys."""
    return keys._words


def data_of(keys: KeyArray) -> Any:
    """High and low halves of the words of keys that are known, on a last axis, as uint32."""
    words = np.asarray(keys._words)
    halves = [words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)]
    return np.stack(halves, -1).astype(np.uint32)


def _array(words: Any) -> Any:
    """A scalar that NumPy took out of an array, as an array of no axes."""
    return np.asarray(words) if isinstance(words, np.generic) else words


def holds_keys(values: Any) -> bool:
    """True when `values`, or a list or tuple among them, holds keys."""
    for value in values:
        if isinstance(value, KeyArray) or (isinstance(value, list | tuple) and holds_keys(value)):
            return True
    return False


def _opened(value: Any) -> Any:
    if isinstance(value, KeyArray):
        return value._words
    if isinstance(value, list | tuple) and holds_keys(value):
        return [_opened(v) for v in value]
    return value


def _closed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)([_closed(v) for v in value])
    return KeyArray(_array(value)) if getattr(value, "dtype", None) == _WORD else value


def moved_keys(function: Callable[..., Any], name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of a function that moves elements, of keys.

    Raises:
      DtypeError: it computes with them, or one of the operands is not of keys.
    """
    if name not in _MOVING:
        raise _no_arithmetic(name, next(v for v in _leaves((*args, *kwargs.values()))))
    opened = {k: _opened(v) for k, v in kwargs.items()}
    return _closed(function(*[_opened(v) for v in args], **opened))


def _leaves(values: Any) -> Iterator[KeyArray]:
    for value in values:
        if isinstance(value, KeyArray):
            yield value
        elif isinstance(value, list | tuple):
            yield from _leaves(value)


def takes_keys(function: F) -> F:
    """Let a function that moves elements, and looks at none, take keys as well."""

    @functools.wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        if KeyArray.in_use and (holds_keys(args) or holds_keys(kwargs.values())):
            opened = {k: _opened(v) for k, v in kwargs.items()}
            return _closed(function(*[_opened(v) for v in args], **opened))
        return function(*args, **kwargs)

    return public  # type: ignore[return-value]  # same signature


def _no_arithmetic(name: str, keys: Any) -> DtypeError:
    return DtypeError(
        f"{name} does not take keys: they are no numbers",
        op=name,
        operands=[str(keys).partition(" overlaying")[0]],
        hint="draw from a key with stax.random, or take its words with stax.random.key_data",
    )
