"""Whether the files of a folder go together: names, widths, columns, kinds of labels, names of classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ._domain_file import DomainFile, brief


def disagreements(files: Sequence[DomainFile]) -> list[str]:
    """All that keeps files, each sound in itself, from being stacked."""
    if not files:
        return []
    return [*_repeated_names(files), *_columns(files), *_kinds_of_labels(files), *_classes(files)]


def same_columns(files: Sequence[DomainFile]) -> list[DomainFile]:
    """The files with their columns in the order of the first."""
    order = files[0].columns
    if order is None:
        return list(files)
    aligned = []
    for file in files:
        position = {name: i for i, name in enumerate(file.columns or ())}
        aligned.append(file._replace(data=file.data[:, [position[name] for name in order]], columns=order))
    return aligned


def feature_names(files: Sequence[DomainFile]) -> list[str]:
    """The columns of tables; features of arrays are numbered."""
    return list(files[0].columns or (f"feature_{i}" for i in range(files[0].data.shape[1])))


def class_names(files: Sequence[DomainFile]) -> list[str]:
    """A name for each label that occurs, in sorted order."""
    labels = np.unique(np.concatenate([file.target for file in files]))
    names = next((file.classes for file in files if file.classes), ())
    start = _first_label(labels, names)
    if start is None:
        return [str(label) for label in labels]
    return [names[label - start] for label in labels]


def _first_label(labels: Iterable[object], names: Sequence[str]) -> int | None:
    """The label of the first name, 0 or 1; None where there are no names or the labels do not tell."""
    present = set(labels)
    if not names or any(isinstance(label, str) for label in present):
        return None
    return 0 if 0 in present else 1 if len(names) in present else None


def _repeated_names(files: Sequence[DomainFile]) -> list[str]:
    names = [file.name for file in files]
    repeated = sorted({name for name in names if names.count(name) > 1})
    return [f"two or more files are called {name}, so they would be one domain. Rename one." for name in repeated]


def _columns(files: Sequence[DomainFile]) -> list[str]:
    tables = [file for file in files if file.columns is not None]
    if tables and len(tables) < len(files):
        arrays = [file.name for file in files if file.columns is None]
        return [
            "tables name their features and arrays do not, so the two cannot be matched: "
            f"tables are {brief(file.name for file in tables)}; arrays are {brief(arrays)}."
        ]
    if not tables:
        widths = {file.data.shape[1] for file in files}
        each = brief(f"{file.name} has {file.data.shape[1]}" for file in files)
        return [f"the files differ in their number of features: {each}."] if len(widths) > 1 else []
    first, problems = tables[0], []
    for file in tables[1:]:
        lacks = [repr(name) for name in first.columns or () if name not in (file.columns or ())]
        extra = [repr(name) for name in file.columns or () if name not in (first.columns or ())]
        if lacks or extra:
            problems.append(
                f"{file.name} and {first.name} differ in their columns of numbers: only {first.name} has "
                f"{brief(lacks)}; only {file.name} has {brief(extra)}. Pass features= to choose columns."
            )
    return problems


def _kinds_of_labels(files: Sequence[DomainFile]) -> list[str]:
    text = [file.name for file in files if file.target.dtype.kind == "U"]
    if not text or len(text) == len(files):
        return []
    numbers = [file.name for file in files if file.target.dtype.kind != "U"]
    return [f"labels must all be numbers or all be strings: {brief(text)} has strings, {brief(numbers)} has numbers."]


def _classes(files: Sequence[DomainFile]) -> list[str]:
    naming = [file for file in files if file.classes]
    if not naming:
        return []
    first, names = naming[0].name, naming[0].classes or ()
    problems = [
        f"'classes' differs: {first} has {brief(names)}; {file.name} has {brief(file.classes or ())}."
        for file in naming[1:]
        if file.classes != names
    ]
    numbers = {label for file in files if file.target.dtype.kind != "U" for label in file.target.tolist()}
    if numbers and not (numbers <= set(range(len(names))) or numbers <= set(range(1, len(names) + 1))):
        found = brief(str(label) for label in sorted(numbers))
        problems.append(f"'classes' has {len(names)} names, which do not fit the labels {found}.")
    return problems
