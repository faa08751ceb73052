"""Eight threads, several processes, several hash seeds: the bits of one thread in one process.

Each fit is done alone, and then by eight threads at the same time; all that a fitted model holds, and all that it says,
is compared bit by bit. BLAS, left alone, adds up in another order when it has another number of threads, so that all is
done with one of them and with two.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from benchmarks.measure import Row, samples
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_info

import unseen
from hardening.digest import digest
from unseen import CIDG, DICA, KFDA, MDA, SCA, DomainCenterer, PivotedNystroem, ProjectionSearchCV, UndoBias
from unseen import UnseenClassifier as Unseen
from unseen.model_selection import LeaveOneDomainOut, LeavePDomainsOut, WithinDomainSplit
from unseen.shift import Novelty

THREADS = 8
ROUNDS = 2
ROWS, FEATURES = 240, 40  # large enough for BLAS to divide the work among threads
HASH_SEEDS = ("0", "1", "12345")
FEW = ["CIDG", "RBF SVM", "linear SVM", "gradient boosting", "extra trees", "centered logistic"]
ASKED = ("transform", "predict", "predict_proba", "decision_function")
ROOT = Path(__file__).parents[1]
Case = Callable[[], Any]  # fits, and gives what was fitted

X, Y, D = samples(ROWS, FEATURES)
NEW = samples(ROWS, FEATURES)[0][::-1] + 0.3
WIDE = np.tile(X[:90], 3) + np.random.default_rng(1).normal(size=(90, 3 * FEATURES))  # fewer samples than features


def fit(estimator: Any, X: Any = X, y: Any = Y, d: Any = D) -> Case:
    return lambda: clone(estimator).fit(X, y, sample_domain=d)


def stream(estimator: Any) -> Case:
    def fitted() -> Any:
        model = clone(estimator)
        for k in range(0, ROWS, 60):
            model.partial_fit(X[k : k + 60], Y[k : k + 60], sample_domain=D[k : k + 60])
        assert model.finalize().coef_ is not None
        return model

    return fitted


def plain_cases() -> dict[str, Case]:
    """Estimators that are fitted once, with as many threads of BLAS as there are."""
    landmarks, waves = PivotedNystroem(60, random_state=0), RBFSampler(n_components=90, random_state=0)
    return {
        "CIDG": fit(CIDG(3)),
        "CIDG, target-centered": fit(CIDG(3, centering="target")),
        "CIDG, linear kernel": fit(CIDG(3, kernel="linear")),
        "KFDA": fit(KFDA(3)),
        "SCA": fit(SCA(3)),
        "DICA": fit(DICA(3)),
        "UDICA": fit(DICA(3, supervised=False)),
        "MDA": fit(MDA(3)),
        "CIDG by landmarks": fit(CIDG(3, feature_map=landmarks)),
        "MDA by random features": fit(MDA(3, feature_map=waves)),
        "SCA in a stream": stream(SCA(3, feature_map="linear")),
        "CIDG in a stream": stream(CIDG(3, feature_map=waves)),
        "PivotedNystroem": lambda: clone(landmarks).fit(X),
        "UndoBias": fit(UndoBias()),
        "UndoBias, wide": fit(UndoBias(), WIDE, Y[:90], D[:90]),
        "DomainCenterer": fit(DomainCenterer()),
        "Novelty": lambda: Novelty(random_state=0).fit(X, sample_domain=D),
        "splitters": lambda: [
            list(cut.split(X, Y, D))
            for cut in (LeaveOneDomainOut(), LeavePDomainsOut(2), WithinDomainSplit(0.7, n_splits=2, random_state=0))
        ],
    }


def search_cases(n_jobs: int | None = None) -> dict[str, Case]:
    """What chooses by asking many candidates, which keeps to one thread of BLAS."""
    grid = {"gamma": ["0.5*median", "median"], "conditional_weight": [0.0, 1.0], "n_components": [2, 4]}
    narrow = Y[:90], D[:90]
    return {
        "search": fit(ProjectionSearchCV(CIDG(), grid, n_jobs=n_jobs)),
        "search, logistic": fit(ProjectionSearchCV(SCA(), {}, classifier=LogisticRegression(), n_jobs=n_jobs)),
        "search, wide, linear SVM": fit(
            ProjectionSearchCV(KFDA(60, kernel="linear"), {}, classifier=LinearSVC(random_state=0), n_jobs=n_jobs),
            WIDE,
            *narrow,
        ),
        "UnseenClassifier": fit(Unseen(methods=FEW, n_jobs=n_jobs)),
        "UnseenClassifier, wide": fit(Unseen(n_jobs=n_jobs), WIDE, *narrow),
        "unseen.fit": lambda: unseen.fit(table(), methods="auto", label="y", domain="d", n_jobs=n_jobs).estimator,
    }


def table() -> Any:
    import polars as pl

    columns = {f"x{k}": X[:150, k] for k in range(12)}
    return pl.DataFrame(columns | {"y": Y[:150].astype(str), "d": D[:150].astype(str)})


def answers(model: Any) -> dict[str, Any]:
    """All that a fitted model says of new samples."""
    if isinstance(model, list):
        return {}
    width = getattr(model, "n_features_in_", 12)
    new = NEW[:, :width] if width <= FEATURES else WIDE[::-1]
    return {name: getattr(model, name)(new) for name in ASKED if hasattr(model, name)}


def at_once(works: list[Callable[[], str]]) -> list[str]:
    """What comes of works, each in a thread of its own, that begin together."""
    gate = threading.Barrier(len(works))

    def work(own: Callable[[], str]) -> str:
        gate.wait()
        return own()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(work, works))


def process_state() -> dict[str, Any]:
    """Settings of the process that a library must leave as they were."""
    return {
        "threads": sorted((pool["filepath"], pool["num_threads"]) for pool in threadpool_info()),
        "scikit-learn": sklearn.get_config(),
        "floating point errors": np.geterr(),
        "random numbers of NumPy": digest(np.random.get_state()),  # noqa: NPY002 - the global ones are meant
        "random numbers of Python": digest(random.getstate()),
        "environment": dict(os.environ),
    }


def left_behind(before: list[Any]) -> list[str]:
    """Warnings that are ignored now and were not before."""
    more = [one for one in warnings.filters if one not in before]
    return [str(one) for one in more if one[0] == "ignore"]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def check_threads() -> dict[str, Any]:
    """In a process of its own: how many fits and answers of eight threads are not those of one."""
    warnings.simplefilter("ignore")  # what models say of such data is of no interest, and those of threads mix
    cases = plain_cases() | search_cases()
    for case in cases.values():
        case()  # imports, and what is made once
    before, filters = process_state(), list(warnings.filters)
    found: dict[str, Any] = {"fits": 0, "asked": 0, "wrong": [], "answers": [], "mixed": [], "estimators": len(cases)}
    models = {}
    for name, case in cases.items():
        say(f"threads: {name}")
        models[name] = case()
        right = digest(models[name])
        for _ in range(ROUNDS):
            done = at_once([lambda case=case: digest(case())] * THREADS)
            found["fits"] += THREADS
            found["wrong"] += [name] * sum(own != right for own in done)
    for kind in (plain_cases(), search_cases()):
        say(f"threads: {', '.join(kind)} at once")
        for k in range(ROUNDS):
            names = [list(kind)[(k * THREADS + i) % len(kind)] for i in range(THREADS)]
            done = at_once([lambda case=kind[name]: digest(case()) for name in names])
            found["mixed"] += [name for name, own in zip(names, done, strict=True) if own != digest(models[name])]
    after = process_state()
    found["state"] = [name for name, value in before.items() if after[name] != value]
    found["filters"] = left_behind(filters)
    # After this the threads of BLAS are as scikit-learn's neighbors leave them, who are asked at once: perhaps one.
    for name, model in models.items():
        said = digest(answers(model))
        done = at_once([lambda model=model: digest(answers(model))] * THREADS)
        found["asked"] += THREADS
        found["answers"] += [name] * sum(own != said for own in done)
    return found


def results(n_jobs: int | None = None) -> dict[str, str]:
    """Names of all that searches, fits and comparisons give."""
    warnings.simplefilter("ignore")
    named = {}
    for name, case in search_cases(n_jobs).items():
        model = case()
        if hasattr(model, "n_jobs"):
            model.n_jobs = None  # all else must be the same
        named[name] = digest(model, answers(model))
    frame = table()
    compared = unseen.compare(frame, label="y", domain="d", methods=[*FEW, "auto"], repeats=1, n_jobs=n_jobs)
    rows = sorted(compared.rows, key=lambda row: (row.task, row.repeat, row.method))
    named["compare, rows"] = digest(rows)
    named["compare, verdict"] = digest(compared.verdict)
    named["compare, diagnosis"] = digest(compared.diagnosis)
    return named


def check_jobs() -> dict[str, Any]:
    """Which results depend on the number of processes."""
    ways: dict[str, dict[str, str]] = {}
    for n_jobs in (1, 2, -1):
        say(f"threads: n_jobs={n_jobs}")
        ways[str(n_jobs)] = results(n_jobs)
    return {"ways": ways}


def in_process(function: Callable[[], Mapping[str, Any]], **environment: str) -> Any:
    """What a function of this module gives in a process of its own."""
    code = f"import json, hardening.threads as h; print(json.dumps(h.{function.__name__}()))"
    path = os.pathsep.join([str(ROOT), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path} | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def blas(threads: int) -> dict[str, str]:
    return dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))


def differing(ways: Mapping[str, Mapping[str, str]]) -> list[str]:
    first, *others = ways.values()
    return sorted({name for other in others for name in first if first[name] != other[name]})


def told(names: list[str], otherwise: str) -> str:
    return ", ".join(dict.fromkeys(names)) or otherwise


def rows() -> Iterator[Row]:
    for threads in (1, 2):
        found = in_process(check_threads, **blas(threads))
        about = f"{THREADS} threads, {threads} of BLAS"
        yield Row(
            f"fits that differ from a fit alone: {about}",
            len(found["wrong"]),
            0,
            True,
            told(found["wrong"], f"{found['fits']} fits of {found['estimators']} estimators and searches"),
        )
        yield Row(
            f"answers of a shared model that differ: {about}",
            len(found["answers"]),
            0,
            True,
            told(found["answers"], f"{found['asked']} times all that {found['estimators']} of them say"),
        )
        yield Row(
            f"fits that differ beside other estimators: {about}",
            len(found["mixed"]),
            0,
            True,
            told(found["mixed"], f"{2 * ROUNDS * THREADS} fits"),
        )
        kept = "threads of BLAS, configuration, errors of numbers, random numbers, environment"
        yield Row(f"settings left changed: {about}", len(found["state"]), 0, True, told(found["state"], kept))
        yield Row(
            f"filters of warnings left behind: {about}", len(found["filters"]), 0, True, told(found["filters"], "")
        )
    for threads in (1, 2):
        ways = in_process(check_jobs, **blas(threads))["ways"]
        yield Row(
            f"results that depend on n_jobs: {threads} of BLAS",
            len(differing(ways)),
            0,
            True,
            told(differing(ways), f"n_jobs {', '.join(ways)}: {', '.join(ways['1'])}"),
        )
    ways = {}
    for seed in HASH_SEEDS:
        say(f"threads: PYTHONHASHSEED={seed}")
        ways[seed] = in_process(results, PYTHONHASHSEED=seed)
    found = differing(ways)
    yield Row("results that depend on the hash seed", len(found), 0, True, told(found, f"seeds {', '.join(ways)}"))
