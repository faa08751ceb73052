"""A summary for the tests of the report, plain or with names that try to break a page, and a reader of pages."""

from __future__ import annotations

import random
from html.parser import HTMLParser

NASTY = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "=cmd()|'/C calc'!A0",
    "quotes \" and ' and `",
    "commas, and\nnew lines",
    "emoji 🐈‍⬛ & more",
    "مرحبا بالعالم",
    "\u202eevil reversed",
    "{{ 7 * 7 }} {% raw %}",
    "<!-- ]]> --> <b>bold",
]

VOID = {"meta", "link", "input", "br", "img"}


class Page(HTMLParser):
    """What a browser would find: elements with their attributes, text and ancestors. Tags must nest."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements, self._open = [], []
        self.feed(html)
        self.close()
        assert not self._open, f"left open: {self._open}"

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, "attrs": dict(attrs), "text": "", "inside": [each["tag"] for each in self._open]}
        assert len(attrs) == len(element["attrs"]), f"an attribute of {tag} is given twice"
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1]["tag"] == tag, f"</{tag}> closes {self._open[-1]['tag']}"
        self._open.pop()

    def handle_data(self, data):
        for element in self._open:
            element["text"] += data

    def find(self, tag, **attrs):
        return [e for e in self.elements if e["tag"] == tag and attrs.items() <= e["attrs"].items()]


def names(count, stem, nasty):
    return [NASTY[i % len(NASTY)] + f" {stem} {i}" if nasty else f"{stem} {i + 1}" for i in range(count)]


def diagnosis(*, n_domains=4, n_classes=5, nasty=False, seed=0):
    rng = random.Random(seed)
    domains, classes = names(n_domains, "domain", nasty), names(n_classes, "class", nasty)
    word = NASTY[0] if nasty else ""

    def distances(scale):
        half = [[rng.uniform(-0.002, scale) for _ in domains] for _ in domains]
        return [[0.0 if i == j else half[min(i, j)][max(i, j)] for j in range(n_domains)] for i in range(n_domains)]

    tests = [
        ("P(Y)", "label", 0.31, False, "Do the class proportions differ?", "negligible", "at most 1.2 points"),
        ("P(X)", "covariate", 0.002, True, "Do the samples as a whole lie elsewhere?", "large", "14% of the variance"),
        ("P(X|Y)", "conditional", 0.002, True, "Does a class look different?", "moderate", "8% of the variance"),
        ("P(X), priors equal", "prior_normalized", 0.004, True, "And with equal classes?", "moderate", "6%"),
    ]
    return {
        "n_samples": 2533,
        "n_used": 2000,
        "classes": classes,
        "domains": domains,
        "counts": [[rng.randrange(5, 90) for _ in classes] for _ in domains],
        "alpha": 0.05,
        "n_permutations": 499,
        "gamma": 0.01234,
        "tests": [
            {
                "name": name,
                "key": key,
                "statistic": rng.uniform(0, 0.1),
                "p_value": p,
                "effect": rng.uniform(0, 0.2),
                "effect_label": label,
                "effect_text": text + word,
                "flagged": flagged,
                "question": question + word,
            }
            for name, key, p, flagged, question, label, text in tests
        ],
        "classes_tests": [
            {
                "class": name,
                "p_value": 0.002,
                "p_adjusted": min(1, 0.01 * (i + 1)),
                "effect": 0.2 / (i + 1),
                "flagged": i < 3,
            }
            for i, name in enumerate(classes)
        ],
        "distances": {"marginal": distances(0.04), "conditional": distances(0.06)},
        "reading": [
            "P(X|Y) moves while P(Y) does not: methods that match marginal distributions only may align the wrong "
            "thing." + word,
            "The p-values say how surprising such differences would be if there were none; the shares say how large.",
        ],
        "notices": ["500 samples of each domain were used, drawn with seed 0." + word],
    }


def ensemble(word=""):
    return {
        "method": "auto" + word,
        "n": 12,
        "weights": {"RBF SVM" + word: 0.6, "logistic": 0.3, "CIDG + logistic, target-centered": 0.1},
    }


def comparison(*, n_domains=4, n_classes=5, nasty=False, seed=0):
    rng = random.Random(seed)
    domains, classes = names(n_domains, "domain", nasty), names(n_classes, "class", nasty)
    word = NASTY[1] if nasty else ""

    def method(name, kind, level, *, transductive=False, failed="", seconds=1.0):
        accuracies = {
            domain: {"mean": level + rng.uniform(-0.15, 0.15), "sd": rng.uniform(0.003, 0.04)} for domain in domains
        }
        if failed:
            accuracies[domains[0]] = None
        means = [cell["mean"] for cell in accuracies.values() if cell]
        return {
            "name": name + word,
            "kind": kind,
            "transductive": transductive,
            "mean": None if failed else sum(means) / len(means),
            "sd": None if failed else 0.0225,
            "seconds": seconds,
            "failed": failed,
            "accuracies": accuracies,
        }

    methods = [
        method("1-NN", "plain", 0.62, seconds=0.31),
        method("Linear SVM", "plain", 0.68, seconds=2.4),
        method("RBF SVM", "plain", 0.69, seconds=12.9),
        method("CIDG", "invariant", 0.73, seconds=8.25),
        method("CIDG, target centering", "invariant", 0.76, transductive=True, seconds=8.5),
        method("SCA", "invariant", 0.66, seconds=21.75),
        method("DICA", "invariant", 0.60, failed="SingularProblemError: classes coincide,\nraise the ridge" + word),
        method("Trained on the target", "reference", 0.84, seconds=3.0),
    ]

    def counts():
        return [
            [rng.randrange(30, 60) if i == j else max(0, rng.randrange(-8, 9)) for j in range(n_classes)]
            for i in range(n_classes)
        ]

    return {
        "title": "Office and Caltech: which method for a new camera?" + word,
        "data": {
            "name": "office_caltech_surf" + word,
            "n_samples": 2533,
            "n_features": 800,
            "classes": classes,
            "domains": [
                {"name": name, "n": 100 * n_classes, "counts": [rng.randrange(0, 200) for _ in classes]}
                for name in domains
            ],
            "notices": ["3 rows held no label and were left out." + word],
            "columns": [],
        },
        "verdict": {
            "decision": "invariant",
            "headline": "CIDG beats the best plain classifier on domains it has never seen." + word,
            "sentences": [
                "Over 4 held-out domains and 5 repeats CIDG was right 3.4 points more often than an RBF SVM.",
                "The gain comes from two domains; on the others they cannot be told apart.",
            ],
            "intervals": [
                {"label": "Invariant against plain", "difference": 0.034, "low": 0.006, "high": 0.063},
                {"label": "Invariant projections against KFDA", "difference": -0.012, "low": -0.041, "high": 0.017},
                {"label": "Auto, transductive against auto" + word, "difference": 0.002, "low": None, "high": None},
            ],
            "level": 0.95,
            "metric": "accuracy",
            "share": True,
            "recommendation": {
                "method": "CIDG" + word,
                "expected": 0.745,
                "low": 0.52,
                "high": 0.97,
                "scores": {domain: 0.61 + 0.27 * i / max(n_domains - 1, 1) for i, domain in enumerate(domains)},
                "sentence": f"Use CIDG{word}. Expect about 74.5% accuracy on a new domain (95% prediction "
                f"interval 52.0% to 97.0%); worst domain here: {domains[0]}, 61.0%. It did best in the validation.",
            },
        },
        "domains": domains,
        "methods": methods,
        "ensemble": ensemble(word),
        "diagnosis": diagnosis(n_domains=n_domains, n_classes=n_classes, nasty=nasty, seed=seed),
        "confusion": [
            {"domain": name, "method": "CIDG" + word, "classes": classes, "counts": counts()} for name in domains
        ],
        "settings": [
            {
                "domain": domain,
                "repeat": repeat,
                "method": name + word,
                "settings": {"conditional_weight": 10.0 * repeat, "ridge": 1e-06, "gamma": "0.1*median" + word},
                "ties": rng.randrange(1, 40),
            }
            for domain in domains
            for repeat in range(3)
            for name in ("CIDG", "SCA")
        ]
        + [{"domain": domains[0], "repeat": 0, "method": "1-NN", "settings": {}, "ties": None}],
        "provenance": {
            "command": "unseen compare data/office --methods cidg,sca,dica --repeats 5 --seed 0 --output report.html"
            + word,
            "date": "2026-03-01 12:00",
            "seconds": 193.0,
            "seed": 0,
            "protocol": {"validation": "leave one domain out", "repeats": 5, "standardize": True, "note": word},
            "versions": {"unseen": "0.3.0", "scikit-learn": "1.9.1", "numpy": "2.4.6"},
            "machine": {"processor": "8 cores", "memory": "16 GB", "system": "Linux" + word},
        },
    }
