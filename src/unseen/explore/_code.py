"""The current setting as code to run elsewhere: Python, and a command."""

from __future__ import annotations

import shlex

from ._session import Session
from ._setting import Setting

HEAD_CODE = {
    "1-NN": ("from sklearn.neighbors import KNeighborsClassifier", "KNeighborsClassifier(1)"),
    "logistic": (
        "from sklearn.linear_model import LogisticRegression\n"
        "from sklearn.pipeline import make_pipeline\n"
        "from sklearn.preprocessing import StandardScaler",
        'make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000, solver="newton-cg"))',
    ),
}
PYTHON_TEMPLATE = """\
{head_import}
from unseen import {method}
from unseen.tables import preprocessor
{table}
new = table.domain == {held!r}  # held out
y, domain = table.y[~new], table.domain[~new]
prepare = preprocessor(table.schema, {scale!r}).fit(table.X[~new])
X, X_new = prepare.transform(table.X[~new]), prepare.transform(table.X[new])
projection = {method}({arguments}).fit(X, y, sample_domain=domain)
classifier = {head}
classifier.fit(projection.transform(X, sample_domain=domain), y)
accuracy = classifier.score(projection.transform(X_new, sample_domain=table.domain[new]), table.y[new])
print(f"Accuracy on {{str({held!r})}}: {{accuracy:.4f}}")
"""


def python_code(session: Session, setting: Setting) -> str:
    """A script that fits the setting and scores it on the held-out domain, as the page does."""
    table = session.origin.code
    if session.thinned:
        table += f"\ntable = table.take(table.samples.thinned({session.most}, {session.seed}))"
    head_import, head = HEAD_CODE[setting.head]
    return PYTHON_TEMPLATE.format(
        head_import=head_import,
        head=head,
        table=table,
        method=setting.method,
        held=setting.held,
        scale=session.scale,
        arguments=", ".join(f"{name}={value!r}" for name, value in setting.arguments.items()),
    )


def command_line_code(session: Session, setting: Setting) -> str:
    """A command that tells the figures of the setting; with ``-o`` it writes the model or the report."""
    return shlex.join(["unseen", "explore", *session.origin.command, "--at", str(setting), "--json"])
