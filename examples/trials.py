"""Simulate a collection of trials of head injury: writes trials.csv.

Fifteen trials recruited different patients: their age, the severity of the injuries and the frequency of death differ,
and in some trials the same findings mean a different risk. A CT scan was not always read. Nothing is copied from real
patients. `python trials.py 6` writes six trials instead of fifteen.
"""

import csv
import math
import random
import sys

TRIALS = ("alpha", "bravo", "cedar", "delta", "echo", "fjord", "grove", "harbor", "iris", "juno", "kappa", "lima")
TRIALS += ("maple", "north", "ocean")
COLUMNS = ("trial", "age", "motor", "pupils", "hypoxia", "hypotension", "ct", "died")
MOTOR = {"none": 1.6, "extension": 1.4, "flexion": 0.8, "withdrawal": 0.2, "localizes": -0.4}
PUPILS = {"both": 0.0, "one": 0.6, "none": 1.3}
CT = {"I-II": 0.0, "III-IV": 0.8, "mass": 0.6}


def patients(trial, seed):
    """Yield the patients of one trial; the seed determines how it differs from the others."""
    rng = random.Random(seed)
    rows = rng.choice((120, 160, 240, 300))
    older = rng.gauss(0, 5)
    severity = rng.gauss(0, 0.4)
    offset = rng.gauss(0, 0.3)  # frequency of death that the findings do not explain
    strength = rng.uniform(0.75, 1.25)  # how much the findings say about the risk
    scanned = rng.uniform(0.8, 0.95)
    for _ in range(rows):
        age = min(max(rng.gauss(35 + older, 16), 14), 90)
        motor = rng.choices(list(MOTOR), [math.exp(severity * effect) for effect in MOTOR.values()])[0]
        pupils = rng.choices(list(PUPILS), [6, 1 + severity / 2, 2 + severity])[0]
        ct = rng.choices(list(CT), [4, 2, 4])[0]
        hypoxia = rng.random() < 0.2
        hypotension = rng.random() < 0.17
        findings = MOTOR[motor] + PUPILS[pupils] + CT[ct] + 0.4 * hypoxia + 0.8 * hypotension + 0.035 * (age - 35)
        risk = 1 / (1 + math.exp(2.0 - offset - strength * findings))
        yield {
            "trial": trial,
            "age": round(age),
            "motor": motor,
            "pupils": pupils,
            "hypoxia": "yes" if hypoxia else "no",
            "hypotension": "yes" if hypotension else "no",
            "ct": ct if rng.random() < scanned else None,
            "died": "yes" if rng.random() < risk else "no",
        }


def main(n_trials):
    """Write the table."""
    with open("trials.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for seed, trial in enumerate(TRIALS[:n_trials], start=1):
            writer.writerows(patients(trial, seed))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else len(TRIALS))
