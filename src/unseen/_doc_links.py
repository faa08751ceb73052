"""Where the HTML view of an estimator links to: its page in this package's documentation, not in scikit-learn's."""

from __future__ import annotations

from typing import ClassVar

SITE = "https://unseen.readthedocs.io/en/latest"


class DocLinkMixin:
    """Give an estimator that is public as ``unseen.<Name>`` a link to its page; goes before `BaseEstimator`."""

    _doc_link_module: ClassVar[str] = "unseen"
    _doc_link_template: ClassVar[str] = f"{SITE}/generated/unseen.{{estimator_name}}.html"
