"""Tables of the study of methods: what is counted as a win, and which sets are complete."""

from __future__ import annotations

import csv

import pytest

family = pytest.importorskip("studies.family", reason="this distribution comes without the studies")


def make_rows(name, accuracy, log_loss, targets=("a", "b", "c")):
    """Results of all methods; those of `accuracy` and `log_loss` by method, 50 and 1.0 for the others."""
    return [
        {
            "data": name,
            "target": target,
            "method": method,
            "accuracy": accuracy.get(method, 50.0),
            "AUC": 70.0,
            "log loss": log_loss.get(method, 1.0),
            "seconds": 1.0,
        }
        for target in targets
        for method in family.METHODS
    ]


def test_tables_count_wins_and_losses_of_complete_sets(tmp_path, capsys):
    rows = make_rows("heart", {"CIDG": 60.0}, {"CIDG": 0.5})
    rows += make_rows("vowel", {"CIDG": 45.0}, {"CIDG": 1.5})
    rows += make_rows("wisdm", {"CIDG": 99.0}, {}, targets=("a", "b"))
    family.write_tables(rows, tmp_path / "family.csv")
    assert "missing: wisdm" in capsys.readouterr().out
    with (tmp_path / "family.csv").open() as file:
        means = list(csv.reader(file))
    assert means[0] == ["Metric", "Data", *family.METHODS]
    assert [line[:4] for line in means[1:3]] == [
        ["accuracy", "heart", "50.0", "60.0"],
        ["accuracy", "vowel", "50.0", "45.0"],
    ]
    with (tmp_path / "family_comparisons.csv").open() as file:
        comparisons = {tuple(line[:2]): line[2:] for line in csv.reader(file)}
    assert comparisons["CIDG against logistic", "accuracy"] == ["1", "1", "0", "+2.50", "7.50"]
    assert comparisons["CIDG against logistic", "log loss"] == ["1", "1", "0", "+0.0000", "0.5000"]
    assert comparisons["CIDG against logistic", "AUC"][:3] == ["0", "0", "2"]
    assert comparisons["marginal transfer against logistic", "accuracy"][:3] == ["0", "0", "2"]
