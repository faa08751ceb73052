"""Simulate patients with fever in hospitals with different measurements: writes hospitals.csv and new_hospital.csv.

Each hospital has its own devices, which shift the measurements; its own share of patients with a lactate measurement;
and a different population of patients. The differences between diagnoses are the same in all hospitals. `python
hospitals.py 3` writes three hospitals instead of six, for quick trials.
"""

import csv
import math
import random
import sys
from datetime import date, timedelta

HOSPITALS = ("aachen", "bonn", "essen", "kiel", "mainz", "trier")
COLUMNS = ("patient", "arrived", "hospital", "age", "sex", "arrival", "temperature", "heart_rate")
COLUMNS += ("crp", "leukocytes", "lactate", "diagnosis")
# Means of temperature, heart rate, and logarithms of CRP, leukocytes and lactate.
TYPICAL = {
    "viral": (38.3, 92, 3.0, 1.9, 0.2),
    "bacterial": (38.9, 98, 4.4, 2.5, 0.4),
    "sepsis": (39.0, 118, 5.0, 2.6, 1.3),
}
SPREAD = (0.5, 10, 0.6, 0.25, 0.3)
HABITS = (0.45, 7, 0.7, 0.3, 0.25)  # standard deviations of the means between hospitals


def patients(hospital, rows, seed):
    """Yield rows of one hospital; the seed determines its offsets."""
    rng = random.Random(seed)
    habits = [rng.gauss(0, size) for size in HABITS]
    orders_lactate, ill, older = rng.uniform(0.3, 0.9), rng.uniform(0.3, 0.5), rng.gauss(0, 5)
    for number in range(rows):
        diagnosis = rng.choices(list(TYPICAL), [0.93 - ill, ill, 0.07])[0]
        drawn = zip(TYPICAL[diagnosis], habits, SPREAD, strict=True)
        temperature, heart_rate, *logarithms = (rng.gauss(mean + habit, spread) for mean, habit, spread in drawn)
        crp, leukocytes, lactate = map(math.exp, logarithms)
        severe = diagnosis == "sepsis"
        yield {
            "patient": f"{hospital}-{number:04d}",
            "arrived": date(2025, 1, 1) + timedelta(days=rng.randrange(365)),
            "hospital": hospital,
            "age": round(min(max(rng.gauss(52 + older + 12 * severe, 18), 18), 98)),
            "sex": rng.choice("FM"),
            "arrival": rng.choices(["walk-in", "ambulance", "transfer"], [2, 1 + 4 * severe, 0.3])[0],
            "temperature": round(temperature, 1),
            "heart_rate": round(heart_rate),
            "crp": round(crp, 1),
            "leukocytes": round(leukocytes, 1) if rng.random() < 0.95 else None,
            "lactate": round(lactate, 2) if rng.random() < orders_lactate else None,
            "diagnosis": diagnosis,
        }


def write(path, rows, columns=COLUMNS):
    """Write a table; None is an empty cell."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    names = HOSPITALS[: int(sys.argv[1])] if len(sys.argv) > 1 else HOSPITALS
    write("hospitals.csv", [row for seed, name in enumerate(names) for row in patients(name, 60, seed)])
    write("new_hospital.csv", patients("ulm", 200, 6), COLUMNS[:-1])
    write("new_hospital_later.csv", patients("ulm", 200, 6))
