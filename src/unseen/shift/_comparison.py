r"""One statistic for every kind of shift of features, and its distribution under permutation.

The scatter of the class-prior-normalised domain means (the paper's L, eq. 12) covers all the cases: with all samples
as one class it is the domain scatter, with the samples of one class alone it is that class's part of the conditional
scatter, with every class it is itself. Its sample weights :math:`V`, one column per domain, sum to zero over every
class, and the statistic is :math:`\operatorname{tr} V^\top K V`.

Domain labels are permuted within classes, so the table of counts, hence the weights, stay what they are: only the rows
of :math:`V` change places. All permutations are then one matrix product. Averaged over *all* permutations the
statistic is exactly :math:`\sum_j \|V_j\|^2 \sigma_j^2`, with :math:`V_j` the rows and :math:`\sigma_j^2` the unbiased
kernel variance of class j: what chance alone contributes.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from scipy import stats

from ..algebra import Array, Ints, cell_means, prior_normalised
from ..progress import track

BATCH = 2**20  # weights in one matrix product: large enough for speed, small beside the Gram matrix
TIE = 1e-9  # of the total variance: permutations this close to the data are ties, and count against significance
ROUNDING = 1e-12  # of statistics of a kernel whose values are at most 1


@dataclass(frozen=True)
class Evidence:
    """A statistic, its permutations, and the scale to judge it on.

    Attributes
    ----------
    draws : ndarray of shape (1 + n_permutations,)
        The statistic of the data, then of the permutations.
    chance : float
        Its mean over all permutations.
    total : float
        Its largest possible value: all of the kernel variance.
    """

    draws: Array
    chance: float
    total: float

    def __add__(self, other: Evidence) -> Evidence:
        """Evidence of a sum of statistics under the same permutations."""
        return Evidence(self.draws + other.draws, self.chance + other.chance, self.total + other.total)

    def __mul__(self, factor: float) -> Evidence:
        """Evidence of a multiple of the statistic."""
        return Evidence(self.draws * factor, self.chance * factor, self.total * factor)

    @property
    def statistic(self) -> float:
        """The statistic of the data."""
        return float(self.draws[0])

    @property
    def p_value(self) -> float:
        """How often the statistic of the data is reached, by the data themselves included."""
        return float(np.mean(self.draws >= self.draws[0] - TIE * self.total - ROUNDING))

    @property
    def share(self) -> float:
        """Share of the variance explained, adjusted for chance: for equal counts of one class, the adjusted R squared.

        Chance gives 0 on average; domains that explain everything give 1.
        """
        room = self.total - self.chance
        return float(np.clip((self.statistic - self.chance) / room, 0.0, 1.0)) if room > ROUNDING else 0.0


@dataclass(frozen=True)
class Comparison:
    """Domains to compare, within each class, in the space of a kernel.

    Attributes
    ----------
    gram : ndarray of shape (n, n)
        Kernel matrix of the samples.
    domain : ndarray of shape (n,)
        Domain of each sample, 0..m-1, none empty.
    classes : ndarray of shape (n,)
        Class of each sample, 0..C-1, none empty, in ascending order.
    """

    gram: Array
    domain: Ints
    classes: Ints

    @functools.cached_property
    def counts(self) -> Ints:
        """Samples in each cell: shape (n_domains, n_classes)."""
        shape = (self.domain.max() + 1, self.classes.max() + 1)
        cell = self.domain * shape[1] + self.classes
        return np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape).astype(np.intp)

    def evidence(self, labels: Ints) -> Evidence:
        """Evidence of shift, from the domain labels of the data, in the first column, and permutations of them."""
        return Evidence(self.scatter(labels), self.chance, self.total)

    def scatter(self, domain: Ints) -> Array:
        """Mean squared distance of the domain means from their average, for every column of domain labels.

        Parameters
        ----------
        domain : ndarray of shape (n, labellings)
            Labels that keep the counts of every cell.

        Returns
        -------
        scatter : ndarray of shape (labellings,)
            The statistic of each.
        """
        n_domains, n_classes = self.counts.shape
        weights = _per_sample(prior_normalised(self.counts), self.counts)
        found = np.empty(domain.shape[1])
        step = max(1, BATCH // (len(domain) * n_domains))
        for start in range(0, domain.shape[1], step):
            labels = domain[:, start : start + step]
            V = weights[labels * n_classes + self.classes[:, None]].reshape(len(domain), -1)
            found[start : start + step] = np.einsum("ik,ik->k", V, self.gram @ V).reshape(-1, n_domains).sum(axis=1)
        return found

    @functools.cached_property
    def chance(self) -> float:
        """Mean of `scatter` over all permutations within classes."""
        weights = _per_sample(prior_normalised(self.counts), self.counts)
        squares = (weights**2).sum(axis=1).reshape(self.counts.shape) * self.counts
        return float(squares.sum(axis=0) @ self._class_variances)

    @functools.cached_property
    def total(self) -> float:
        """Kernel variance of all samples, every class weighing the same, and every domain within it."""
        n_classes = self.counts.shape[1]
        average = _per_sample(cell_means(self.counts).mean(axis=(0, 1))[:, None], self.counts)[:, 0]
        w = average[self.domain * n_classes + self.classes]
        return max(0.0, float(w @ np.diagonal(self.gram) - w @ self.gram @ w))

    @property
    def _class_variances(self) -> Array:
        """Unbiased kernel variance of each class; 0 for a class of one sample, which cannot shift."""
        ends = np.cumsum(self.counts.sum(axis=0))
        variances = np.zeros(len(ends))
        for j, (start, end) in enumerate(zip(np.r_[0, ends[:-1]], ends, strict=True)):
            block = self.gram[start:end, start:end]
            if end - start > 1:
                variances[j] = (np.trace(block) - block.sum() / (end - start)) / (end - start - 1)
        return variances


def labellings(domain: Ints, classes: Ints, n_permutations: int, rng: np.random.Generator) -> Ints:
    """Return the domain labels and permutations of them within classes, in columns; classes are in ascending order."""
    labels = np.repeat(domain[:, None], 1 + n_permutations, axis=1)
    for members in np.split(np.arange(len(domain)), np.flatnonzero(np.diff(classes)) + 1):
        part = slice(members[0], members[-1] + 1)
        labels[part, 1:] = rng.permuted(labels[part, 1:], axis=0)
    return labels


@dataclass(frozen=True)
class KernelEvidence:
    """Evidence of every kind of shift of features; None where no class was found in two domains."""

    covariate: Evidence
    conditional: Evidence | None
    prior_normalised: Evidence | None
    by_class: dict[int, Evidence]

    @classmethod
    def of(
        cls, gram: Array, domain: Ints, classes: Ints, n_permutations: int, rng: np.random.Generator, verbose: int = 0
    ) -> KernelEvidence:
        """Test samples whose `classes` are in ascending order; classes in a single domain have no evidence."""
        n_domains = domain.max() + 1
        everyone = np.zeros_like(classes)
        shuffled = labellings(domain, everyone, n_permutations, rng)
        within = labellings(domain, classes, n_permutations, rng)
        names, starts, compact = np.unique(classes, return_index=True, return_inverse=True)
        jobs: list[tuple[int | str, Comparison, Ints]] = [("P(X)", Comparison(gram, domain, everyone), shuffled)]
        reach = {}
        for name, start, end in zip(names.tolist(), starts, [*starts[1:], len(classes)], strict=True):
            present, codes = np.unique(domain[start:end], return_inverse=True)
            if len(present) > 1:
                part = Comparison(gram[start:end, start:end], codes, everyone[start:end])
                jobs.append((name, part, np.searchsorted(present, within[start:end])))
                reach[name] = len(present) / n_domains
        if reach:
            jobs.append(("L", Comparison(gram, domain, compact.astype(np.intp)), within))
        found = {
            key: comparison.evidence(labels)
            for key, comparison, labels in track(jobs, len(jobs), "Testing for shift", verbose)
        }
        # The paper's H counts an absent cell as no shift: a class weighs as the share of domains that have it.
        parts = [found[name] * share for name, share in reach.items()]
        return cls(
            covariate=found["P(X)"],
            conditional=functools.reduce(Evidence.__add__, parts) if parts else None,
            prior_normalised=found.get("L"),
            by_class={name: found[name] for name in reach},
        )


def permuted_tables(counts: Ints, n_permutations: int, rng: np.random.Generator) -> Ints:
    """Return the table of counts, then tables for domain labels permuted over all samples.

    These are the tables that share its margins, so that no sample need be touched.
    """
    law = stats.random_table(counts.sum(axis=1), counts.sum(axis=0))
    drawn = law.rvs(n_permutations, random_state=rng).reshape(n_permutations, *counts.shape)
    return np.concatenate([counts[None], drawn])


def chi_square(tables: Ints) -> Evidence:
    """Evidence of label shift: the sum over cells of (count - expected)^2 / expected."""
    rows, columns = tables[0].sum(axis=1), tables[0].sum(axis=0)
    n = rows.sum()
    expected = np.outer(rows, columns) / n
    draws = ((tables - expected) ** 2 / expected).sum(axis=(1, 2))
    freedom = (len(rows) - 1) * (len(columns) - 1)
    return Evidence(draws, freedom * n / (n - 1), n * min(len(rows) - 1, len(columns) - 1))


def _per_sample(contrast: Array, counts: Ints) -> Array:
    """Weights on cell means as weights on their samples; absent cells have none."""
    return contrast / np.maximum(counts, 1).reshape(-1, 1)
