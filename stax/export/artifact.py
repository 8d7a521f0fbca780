"""The file of an exported function: what is in it, and how it is read without trusting it.

Input: the parts of an exported function, or bytes.  Output: the other.  The file is a zip archive:
`manifest.json`; for each program its C text and its graph; the raw bytes of arrays under the digest
of their contents; and a checksum over all of it.  Nothing in it is a pickle.  It does hold C code,
which is compiled and run when the function is called: a file is as trustworthy as its source.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stax import __version__
from stax.backends.c.program import CONTEXT
from stax.errors import ExportError
from stax.export.units import Derivative, Unit
from stax.programs.records import Arrays, image_from, image_record

FORMAT = 2
_MANIFEST = "manifest.json"
_CHECKSUM = "checksum"
_KIND = "stax exported function"
_PARTS = ("forward", "tangent", "backward")
_MASKS = ("sources", "in_mask", "out_mask", "received")


def packed(manifest: dict[str, Any], unit: Unit) -> bytes:
    """The bytes of the file of `unit`; `manifest` is what else it is to hold."""
    files: dict[str, bytes] = {}
    arrays: Arrays = {}
    record = _unit_record(unit, files, arrays)
    head = {"kind": _KIND, "format": FORMAT, "stax": __version__, **manifest, "unit": record}
    files[_MANIFEST] = json.dumps(head, indent=1).encode()
    files.update({f"arrays/{digest}": raw for digest, raw in arrays.items()})
    files[_CHECKSUM] = _checksum(files).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in sorted(files.items()):
            info = zipfile.ZipInfo(name)  # without a date: equal functions give equal files
            if not name.startswith("arrays/"):
                info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return made.getvalue()


def unpacked(data: bytes, place: str) -> tuple[dict[str, Any], Unit]:
    """The manifest and the unit in the bytes of a file; `place` names it in errors.

    Raises:
      ExportError: the bytes are damaged, of another version, or something else altogether.
    """
    files = _files(data, place)
    try:
        manifest = json.loads(files[_MANIFEST])
        kind, version = manifest["kind"], manifest["format"]
    except (KeyError, TypeError, ValueError):
        raise _foreign(place) from None
    if kind != _KIND:
        raise _foreign(place)
    if version != FORMAT:
        raise _of_another_version(place, manifest)
    if files.get(_CHECKSUM, b"").decode("ascii", "replace") != _checksum(files):
        raise _damaged(place, "its checksum is not that of its contents")
    try:
        arrays = {n.partition("/")[2]: raw for n, raw in files.items() if n.startswith("arrays/")}
        unit = _unit_from(manifest["unit"], files, arrays, manifest["origin"])
    except ExportError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(place, f"{type(error).__name__}: {error}") from error
    if any(CONTEXT not in part.image.functions for part in _all_units(unit)):
        raise _of_another_version(place, manifest)
    return manifest, unit


def write(path: Path, data: bytes) -> None:
    """Put `data` at `path` whole or not at all."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _foreign(place: str) -> ExportError:
    return ExportError(
        f"{place} is not the file of an exported function",
        hint="it is written by stax.export(f)(*args).save(path)",
    )


def _damaged(place: str, what: str) -> ExportError:
    return ExportError(
        f"{place} is damaged: {what}", hint="copy it again, or export the function again"
    )


def _of_another_version(place: str, manifest: Mapping[str, Any]) -> ExportError:
    return ExportError(
        f"{place} was written by stax {manifest.get('stax', '?')} in format "
        f"{manifest.get('format')}, this is stax {__version__} with format {FORMAT}",
        hint="export the function again with this version, or load it with that one",
    )


def _checksum(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(files):
        if name != _CHECKSUM:
            digest.update(f"{len(name)} {len(files[name])} {name}".encode())
            digest.update(files[name])
    return digest.hexdigest()


def _files(data: bytes, place: str) -> dict[str, bytes]:
    if not data.startswith(b"PK"):
        raise _foreign(place)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except Exception as error:  # zipfile and zlib raise many kinds for bytes that are no archive
        raise _damaged(place, str(error) or type(error).__name__) from error


def _unit_record(unit: Unit, files: dict[str, bytes], arrays: Arrays) -> dict[str, Any]:
    number = sum(name.endswith("/graph.txt") for name in files)
    files[f"programs/{number}/functions.c"] = unit.image.functions.encode()
    files[f"programs/{number}/body.c"] = unit.image.body.encode()
    files[f"programs/{number}/graph.txt"] = unit.text.encode()
    arrays.update(unit.arrays)
    record: dict[str, Any] = {
        "name": unit.name,
        "program": number,
        "image": image_record(unit.image, arrays),
        "derivative": None,
    }
    rule = unit.derivative
    if rule is not None:
        parts = {name: getattr(rule, name) for name in _PARTS}
        record["derivative"] = {name: list(getattr(rule, name)) for name in _MASKS} | {
            name: None if part is None else _unit_record(part, files, arrays)
            for name, part in parts.items()
        }
    return record


def _unit_from(
    record: Any, files: Mapping[str, bytes], arrays: Mapping[str, bytes], origin: str
) -> Unit:
    folder = f"programs/{int(record['program'])}"
    functions, body, text = (
        files[f"{folder}/{name}"].decode() for name in ("functions.c", "body.c", "graph.txt")
    )
    image = image_from(record["image"], functions, body, arrays)
    unit = Unit(str(record["name"]), image, text, arrays, origin=origin)
    rule = record["derivative"]
    if rule is not None:
        forward, tangent, backward = (
            None if rule[name] is None else _unit_from(rule[name], files, arrays, origin)
            for name in _PARTS
        )
        if forward is None:
            raise ValueError("a derivative without its forward program")
        masks = (tuple(rule[name]) for name in _MASKS)
        unit.derivative = Derivative(forward, tangent, backward, *masks)
    return unit


def _all_units(unit: Unit) -> Iterator[Unit]:
    yield unit
    if unit.derivative is not None:
        for name in _PARTS:
            part = getattr(unit.derivative, name)
            if part is not None:
                yield from _all_units(part)
