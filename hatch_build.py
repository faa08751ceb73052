"""Build hook: the README for package indexes, where relative links lead nowhere."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

SITE = "https://unseen.readthedocs.io/en/latest"


def use_absolute_links(text):
    """Point links to pages and pictures to the documentation, and keep only the text of other relative links."""
    text = re.sub(r"\]\(docs/(\S+)\.rst\)", rf"]({SITE}/\1.html)", text)
    text = re.sub(r"\]\(docs/(_static/\S+)\)", rf"]({SITE}/\1)", text)
    return re.sub(r"\[([^\]]+)\]\((?!\w+://)[^)\s]+\)", r"\1", text)


class ReadmeHook(MetadataHookInterface):
    """Set the description of the package."""

    def update(self, metadata):
        """Replace relative links of the README."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": use_absolute_links(text)}
