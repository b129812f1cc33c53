"""What the document cannot say of keys."""

import uuid

import schemathesis

KEYS = ("Idempotency-Key", "Fencepost-Natural-Key")


@schemathesis.hook
def before_call(context, case, kwargs):
    headers = case.headers or {}
    # Either of the two will do: a request that is to lack the one must lack the other, too.
    if KEYS[0] not in headers:
        headers.pop(KEYS[1], None)
    # Generated keys are few, and a key that belongs to another request is refused before all else: each gets one of its own.
    for name in KEYS:
        key = headers.get(name)
        if isinstance(key, str) and 0 < len(key) < 200 and key.isascii() and key.isprintable() and '"' not in key and key.strip() == key:
            headers[name] = key + uuid.uuid4().hex
