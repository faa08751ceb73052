"""Code that reproduces a setting: a Python script, and a command."""

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
from unseen.tables import make_preprocessor
{table}
new = table.domain == {held_out!r}  # held out
y = table.y[~new]
domain = table.domain[~new]
prepare = make_preprocessor(table.schema, {scale!r}).fit(table.X[~new])
X = prepare.transform(table.X[~new])
X_new = prepare.transform(table.X[new])
projection = {method}({arguments}).fit(X, y, sample_domain=domain)
classifier = {head}
classifier.fit(projection.transform(X, sample_domain=domain), y)
accuracy = classifier.score(projection.transform(X_new, sample_domain=table.domain[new]), table.y[new])
print(f"Accuracy on {{str({held_out!r})}}: {{accuracy:.4f}}")
"""


def python_code(session: Session, setting: Setting) -> str:
    """Return a script that fits the setting and evaluates it on the held-out domain, as the page does."""
    table = session.origin.code
    if session.is_subsampled:
        table += f"\ntable = table.take(table.samples.subsample_rows({session.max_rows}, {session.seed}))"
    head_import, head = HEAD_CODE[setting.head]
    return PYTHON_TEMPLATE.format(
        head_import=head_import,
        head=head,
        table=table,
        method=setting.method,
        held_out=setting.held_out,
        scale=session.scale,
        arguments=", ".join(f"{name}={value!r}" for name, value in setting.arguments.items()),
    )


def command_line_code(session: Session, setting: Setting) -> str:
    """Return a command that prints the results of the setting; with ``-o`` it writes the model or the report."""
    return shlex.join(["unseen", "explore", *session.origin.command, "--setting", str(setting), "--format", "json"])
