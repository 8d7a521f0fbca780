"""The disk cache of compiled kernels: content keys in, verified files out.

Input: a key (the hash of everything that decides the result) with a freshly built library or a
blob of bytes. Output: the path of a library whose checksum has just been verified, or the bytes.
Entries are written to a temporary name and renamed, so that a reader sees a whole entry or none;
each carries a checksum, so that a torn, zeroed or truncated file reads as absent and is rebuilt.
The directory belongs to one user (mode 0700, ownership checked) because what it holds is
executed. A directory that cannot be used (read-only, full, mounted noexec, owned by somebody
else) is replaced by a private temporary one, with one warning for the whole process. Nothing is
created before the first use.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from stax.config import from_environment
from stax.core.source import user_stacklevel
from stax.errors import CacheError, DegradedWarning
from stax.forked import Lock

__all__ = [
    "Cache",
    "content_key",
    "default_cache",
    "lasting_cache",
    "library_caches",
    "load_blob",
    "load_library_path",
    "open_caches",
    "store_blob",
    "warn_degraded_once",
]

_BLOB_MAGIC = b"STAXBLB1"
_TOUCH_AFTER = 3600.0
_KEEP_YOUNGER_THAN = 120.0
_STALE_BUILD = 3600.0
_STORES_BETWEEN_SCANS = 64

_warned: set[str] = set()
_lock = Lock()


def warn_degraded_once(topic: str, message: str) -> None:
    """Warn with `DegradedWarning`, once for each topic in the life of the process."""
    with _lock:
        if topic in _warned:
            return
        _warned.add(topic)
    warnings.warn(message, DegradedWarning, stacklevel=user_stacklevel())


def content_key(*parts: str | bytes) -> str:
    """Return the SHA-256 (hex) of the parts, each framed by its length."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class Cache:
    """One cache directory of one user; every method is safe among threads and processes."""

    def __init__(self, base: Path, *, limit: int = 1 << 30) -> None:
        """Open (and create) the store under `base`; raises `CacheError` if it is not safe to use.

        Args:
          base: directory that holds, or will hold, the store.
          limit: bytes kept; the least recently used entries beyond it are removed.
        """
        user = os.geteuid() if hasattr(os, "geteuid") else 0
        self.limit = limit
        self.directory = base / f"kernels-{user}"
        self._stores = 0
        try:
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_private(base, user, is_store=False)
            self.directory.mkdir(mode=0o700, exist_ok=True)
            _check_private(self.directory, user, is_store=True)
        except CacheError:
            raise
        except (OSError, ValueError) as error:
            raise CacheError(f"cache directory {base} cannot be used: {error}") from error
        self.executable = self._maps_executable()

    def _maps_executable(self) -> bool:
        """Return whether the file system lets libraries be mapped (it is not mounted noexec)."""
        flag = getattr(os, "ST_NOEXEC", 0)
        try:
            return not (flag and os.statvfs(self.directory).f_flag & flag)
        except OSError:
            return False

    # -- blobs ------------------------------------------------------------------------------

    def load_blob(self, key: str) -> bytes | None:
        """Return the bytes stored under `key`, or None when absent or damaged."""
        path = self.directory / f"{_file_stem(key)}.blob"
        try:
            data = path.read_bytes()
        except OSError:
            return None
        head = len(_BLOB_MAGIC)
        payload = data[head + 32 :]
        if data[:head] != _BLOB_MAGIC or hashlib.sha256(payload).digest() != data[head : head + 32]:
            return None
        _touch(path)
        return payload

    def store_blob(self, key: str, data: bytes) -> None:
        """Store `data` under `key`; raises `OSError` when it cannot be written."""
        framed = _BLOB_MAGIC + hashlib.sha256(data).digest() + data
        self._write(self.directory / f"{_file_stem(key)}.blob", framed)
        self._after_store()

    # -- libraries --------------------------------------------------------------------------

    def library(self, key: str) -> Path | None:
        """Return the path of the library under `key` after verifying its checksum, else None."""
        path = self.directory / f"{_file_stem(key)}.so"
        try:
            expected = path.with_suffix(".sum").read_bytes()
            data = path.read_bytes()
        except OSError:
            return None
        if not data or expected != _checksum_line(data):
            return None
        _touch(path)
        return path

    def install(self, key: str, built: Path) -> Path:
        """Move a freshly built library into the cache and return its place there."""
        data = built.read_bytes()
        path = self.directory / f"{_file_stem(key)}.so"
        os.replace(built, path)
        self._write(path.with_suffix(".sum"), _checksum_line(data))
        self._after_store()
        return path

    @contextlib.contextmanager
    def build_directory(self) -> Iterator[Path]:
        """Yield a fresh private directory on the cache's file system, removed afterwards."""
        path = Path(tempfile.mkdtemp(prefix="build-", dir=self.directory))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def discard(self, key: str) -> None:
        """Remove the library under `key`, so that the next request builds it anew."""
        for suffix in (".sum", ".so"):
            _remove(str(self.directory / (_file_stem(key) + suffix)))

    # -- upkeep -----------------------------------------------------------------------------

    def _write(self, path: Path, data: bytes) -> None:
        handle, temporary = tempfile.mkstemp(prefix="part-", dir=self.directory)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def _after_store(self) -> None:
        self._stores += 1
        if self._stores % _STORES_BETWEEN_SCANS == 1:
            self.evict()

    def evict(self) -> int:
        """Remove stale temporaries, and the oldest entries until three quarters of the limit."""
        now = time.time()
        entries: list[tuple[float, int, str]] = []
        total = 0
        try:
            with os.scandir(self.directory) as scan:
                for item in scan:
                    info = item.stat(follow_symlinks=False)
                    if item.name.startswith(("part-", "build-")):
                        if now - info.st_mtime > _STALE_BUILD:
                            _remove(item.path)
                        continue
                    total += info.st_size
                    entries.append((info.st_mtime, info.st_size, item.path))
        except OSError:
            return 0
        removed = 0
        if total <= self.limit:
            return removed
        for modified, size, path in sorted(entries):
            if total <= self.limit * 3 // 4 or now - modified < _KEEP_YOUNGER_THAN:
                break
            if _remove(path):
                total -= size
                removed += 1
        return removed


def _check_private(path: Path, user: int, *, is_store: bool) -> None:
    info = os.lstat(path) if is_store else os.stat(path)
    if not stat.S_ISDIR(info.st_mode):
        raise CacheError(f"cache directory {path} is not a directory")
    if not hasattr(os, "geteuid"):
        return
    others_write = info.st_mode & 0o022
    if is_store:
        if info.st_uid != user:
            raise CacheError(f"cache directory {path} belongs to user {info.st_uid}, not {user}")
        if info.st_mode & 0o077:
            os.chmod(path, 0o700)
    elif info.st_uid not in (user, 0) or (others_write and not info.st_mode & stat.S_ISVTX):
        raise CacheError(
            f"cache directory {path} can be written by other users; compiled code is not read "
            "from there",
            hint="use a directory of your own: chmod go-w, or set STAX_CACHE_DIR",
        )


def _file_stem(key: str) -> str:
    plain = len(key) == 64 and all(c in "0123456789abcdef" for c in key)
    return key if plain else content_key(key)


def _checksum_line(data: bytes) -> bytes:
    return f"sha256 {hashlib.sha256(data).hexdigest()} {len(data)}\n".encode()


def _touch(path: Path) -> None:
    """Mark an entry as used, at most once an hour, so that eviction takes the unused ones."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _TOUCH_AFTER:
            os.utime(path)
            if path.suffix == ".so":
                os.utime(path.with_suffix(".sum"))


def _remove(path: str) -> bool:
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
    except OSError:
        return False
    return True


# -- the process's cache ------------------------------------------------------------------------


class _Places:
    """The configured cache and its temporary stand-in, opened when first needed."""

    def __init__(self, base: Path | None, limit: int) -> None:
        self.limit = limit
        self.primary: Cache | None = None
        self._temporary: Cache | None = None
        self._temporary_failed = False
        self._primary_fault: str | None = None
        if base is None:
            self._primary_fault = "no home directory is known"
            return
        try:
            self.primary = Cache(base, limit=limit)
        except CacheError as error:
            self._primary_fault = str(error).partition("\n")[0]

    def stand_in(self, why: str) -> Cache | None:
        """Return the private temporary cache, warning once why it is used; None without one."""
        with _lock:
            if self._temporary is None and not self._temporary_failed:
                self._temporary = _open_temporary(self.limit)
                self._temporary_failed = self._temporary is None
            outcome = (
                "kernels are kept in a temporary directory and compiled anew by each process"
                if self._temporary is not None
                else "and no temporary directory can hold one: nothing can be compiled"
            )
        warn_degraded_once(
            "cache", f"stax: {why}; {outcome}. Set STAX_CACHE_DIR to a writable directory."
        )
        return self._temporary

    def readable(self) -> list[Cache]:
        """Return the caches to look in, in order."""
        return [cache for cache in (self.primary, self._temporary) if cache is not None]

    def writable(self) -> Cache | None:
        """Return the cache to write blobs to."""
        if self.primary is not None:
            return self.primary
        return self.stand_in(self._primary_fault or "the cache cannot be used")


def _open_temporary(limit: int) -> Cache | None:
    for parent in (None, "/var/tmp", "/dev/shm"):
        try:
            path = tempfile.mkdtemp(prefix="stax-", dir=parent)
        except OSError:
            continue
        try:
            cache = Cache(Path(path), limit=limit)
            usable = cache.executable and _accepts(cache)
        except CacheError:
            usable = False
        if usable:
            atexit.register(_remove_own, path, os.getpid())
            return cache
        shutil.rmtree(path, ignore_errors=True)
    return None


def _accepts(cache: Cache) -> bool:
    try:
        cache.store_blob("probe", b"\0" * 256)
    except OSError:
        return False
    return True


def _remove_own(path: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


_places: dict[tuple[str | None, ...], _Places] = {}


def _current() -> _Places:
    """Return the places for the environment as it is now (read anew at each call)."""
    names = ("STAX_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "STAX_CACHE_BYTES")
    key = tuple(os.environ.get(name) for name in names)
    places = _places.get(key)
    if places is None:
        with _lock:
            places = _places.get(key)
            if places is None:
                places = _places[key] = _Places(_configured_base(), _configured_limit())
    return places


def _configured_base() -> Path | None:
    explicit = os.environ.get("STAX_CACHE_DIR")
    if explicit:
        try:
            return Path(explicit).expanduser().absolute()
        except RuntimeError:  # `~somebody`, of whom no home is known
            return None
    xdg = os.environ.get("XDG_CACHE_HOME")
    if xdg and os.path.isabs(xdg):
        return Path(xdg) / "stax"
    home = os.path.expanduser("~")
    return Path(home) / ".cache" / "stax" if os.path.isabs(home) else None


def _configured_limit() -> int:
    name = "STAX_CACHE_BYTES"
    return from_environment({name: os.environ.get(name, "")}).cache_bytes


def default_cache() -> Cache | None:
    """Return the cache now in use (for reports); None when no directory can hold one."""
    places = _current()
    return places.writable()


def load_blob(key: str) -> bytes | None:
    """Return the bytes stored under `key`, or None when absent or damaged."""
    for cache in _current().readable():
        data = cache.load_blob(key)
        if data is not None:
            return data
    return None


def store_blob(key: str, data: bytes) -> bool:
    """Store `data` under `key`; False when no directory takes it (a warning has said so)."""
    places = _current()
    cache = places.writable()
    while cache is not None:
        try:
            cache.store_blob(key, data)
        except OSError as error:
            if cache is not places.primary:
                return False
            cache = places.stand_in(f"the cache in {cache.directory} cannot be written ({error})")
        else:
            return True
    return False


def load_library_path(key: str) -> Path | None:
    """Return the verified path of the library under `key`, or None."""
    for cache in _current().readable():
        path = cache.library(key) if cache.executable else None
        if path is not None:
            return path
    return None


def lasting_cache() -> Cache | None:
    """Return the cache that later processes find libraries in; None where there is none such."""
    primary = _current().primary
    return primary if primary is not None and primary.executable else None


def open_caches() -> list[Cache]:
    """Return the caches opened so far under the present environment."""
    return _current().readable()


def library_caches() -> Iterator[Cache]:
    """Yield the caches a library may be built in, the preferred one first."""
    places = _current()
    if places.primary is not None and places.primary.executable:
        yield places.primary
        why = f"the cache in {places.primary.directory} cannot be written"
    elif places.primary is not None:
        why = f"the cache in {places.primary.directory} is on a file system mounted noexec"
    else:
        why = places._primary_fault or "the cache cannot be used"
    stand_in = places.stand_in(why)
    if stand_in is not None:
        yield stand_in
