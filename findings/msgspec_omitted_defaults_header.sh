#!/usr/bin/env bash
# msgspec 0.22.0: a Struct with omit_defaults=True and more than 15 fields gets the long map header of msgpack, however
# few of its fields are written.
# Seen: with one field set, 15 fields give 81..., 16 fields give de0001...; a dict of the same content, by msgspec itself
# or by msgpack 1.2.4, gives 81.... All of them read alike. So the bytes of a message change, and with them a digest
# or a recorded message that a test compares, when a sixteenth field is declared that nobody sets.
# Right: msgpack's specification has serializers use the format of the fewest bytes; the header would count what is
# written.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'msgspec==0.22.0' 'msgpack==1.2.4'
"$folder/venv/bin/python" - <<'PYTHON'
import msgpack
import msgspec


def written(fields: int) -> bytes:
    kind = msgspec.defstruct(
        "Message", [(f"field_{i}", int, i) for i in range(fields)], omit_defaults=True
    )
    return msgspec.msgpack.encode(kind(field_0=7))


content = {"field_0": 7}
short, long = written(15), written(16)
print("15 fields:", short.hex(), " 16 fields:", long.hex())
assert short == msgpack.packb(content) == msgspec.msgpack.encode(content)
assert msgpack.unpackb(long) == content
assert long.startswith(b"\xde\x00\x01"), "the header counts what is written now"
PYTHON
