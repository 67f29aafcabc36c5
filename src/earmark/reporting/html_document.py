"""Self-contained HTML pages: one file that opens from disk and asks nothing of the network.

Text from outside reaches a page in one of two ways: through `escape` as part of its body, or
through `data` as JSON that its script reads and only ever sets as text. Neither can become markup,
and a content security policy lets nothing run but that one script.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from earmark.selection.notebook import escape

_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
{body}{scripts}</body>
</html>
"""


def assemble(
    title: str,
    body: str,
    *,
    style: str,
    script: str = "",
    data: Any = None,
    has_files: bool = False,
) -> str:
    """A page as HTML: its title as text, its body as markup, style and script from us alone.

    The script finds `data`, anything JSON can hold, in the element of that id. With `has_files`,
    the page shows pictures that lie beside it.
    """
    scripts = ""
    if script:
        scripts = (
            f'<script type="application/json" id="data">{embed_json(data)}</script>\n'
            f"<script>{script}</script>\n"
        )
    pictures = "data: file: 'self'" if has_files else "data:"
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; "
        f"img-src {pictures}; media-src file: http: https:; base-uri 'none'; form-action 'none'"
    )
    return _FRAME.format(
        policy=policy, title=escape(title), style=style, body=body, scripts=scripts
    )


def embed_image(data: bytes, kind: str = "image/jpeg") -> str:
    """The address of a picture that lies in the page itself."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def embed_json(value: Any) -> str:
    r"""`value` as JSON that can stand in a script element: no text in it can end the element.

    >>> embed_json("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    # Halves of surrogate pairs are no characters, and UTF-8 cannot hold them.
    return text.encode("utf-8", "replace").decode()


def _source(text: str) -> str:
    """How a content security policy names an inline script or style."""
    if not text:
        return "'none'"
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
