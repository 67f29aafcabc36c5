"""Self-contained HTML pages: one file that opens from disk and needs no network.

Untrusted text enters a page in one of two ways: through `escape` as part of the body, or through
`data` as JSON that the script reads and only sets as text. Neither can become markup, and a content
security policy allows no other script to run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from earmark.text_format import escape

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
    """`title` is text; `body`, `style` and `script` are trusted markup and code.

    The script finds `data` in the element with that id. With `has_files`, the page may show
    pictures from files beside it.
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
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def embed_json(value: Any) -> str:
    r"""No text in it can end the script element.

    >>> embed_json("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    # UTF-8 cannot encode lone surrogates.
    return text.encode("utf-8", "replace").decode()


def _source(text: str) -> str:
    if not text:
        return "'none'"
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
