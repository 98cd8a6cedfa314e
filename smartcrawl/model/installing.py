"""The packages of the extras, and the commands that install them.

A message names the packages themselves: our own name at a package index is not ours.
"""

from __future__ import annotations

from typing import Final

#: Requirements of each extra; pyproject.toml has the same.
EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "s3": ("s3fs==2026.9.0",),
    "azure": ("adlfs==2026.8.0",),
    "vectors": (
        "wordllama==0.4.0.post1",
        "tokenizers==0.23.3",
        "safetensors==0.8.0",
        "numpy==2.4.6",
        "sqlite-vec==0.1.9",
    ),
    "onnx": ("onnxruntime==1.32.0", "tokenizers==0.23.3", "numpy==2.4.6", "sqlite-vec==0.1.9"),
    "openai": ("openai==3.52.0", "sqlite-vec==0.1.9"),
    "mcp": ("mcp==2.3.0",),
    "sharepoint": ("msal==1.39.0",),
    "libraries": ("msal==1.39.0", "openai==3.52.0"),
}


def extra_installation(extra: str) -> str:
    """Return the commands that install an extra, as part of a message.

    >>> extra_installation("mcp")
    "pip install 'mcp==2.3.0', in a checkout script/setup mcp"
    """
    packages = " ".join(f"'{package}'" for package in EXTRAS[extra])
    return f"pip install {packages}, in a checkout script/setup {extra}"
