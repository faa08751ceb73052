r"""Permutation tests of shift, with one statistic for every kind of shift, and distances between domains.

The scatter of the class-prior-normalized domain means (the paper's L, eq. 12) covers all the cases: with all samples
as one class it is the domain scatter, with the samples of one class only it is the part of that class in the
conditional scatter. Its sample weights :math:`V`, one column per domain, sum to zero over every
class, and the statistic is :math:`\operatorname{tr} V^\top K V`.

Domain labels are permuted within classes. This does not change the table of counts and the weights, only the order of
the rows of :math:`V`, so that all permutations are one matrix product. Averaged over *all* permutations the
statistic is exactly :math:`\sum_j \|V_j\|^2 \sigma_j^2`, with :math:`V_j` the rows and :math:`\sigma_j^2` the unbiased
kernel variance of class j: the contribution of chance.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from scipy import sparse, stats
from sklearn.utils import gen_batches

from ..linalg import Array, Ints, Membership, average_class_means, prior_normalized_contrast
from ..utils.progress import track

BATCH_ENTRIES = 2**20  # weights in one matrix product: large enough for speed, small compared with the Gram matrix
# Relative to the total variance. Permutations this close to the data are ties, which count against significance.
TIE_TOLERANCE = 1e-9
# Ratio of the smallest distance of an outlier domain to the largest distance between the others.
OUTLIER_GAP = 1.25
ROUNDING = 1e-12  # of statistics of a kernel whose values are at most 1


@dataclass(frozen=True)
class PermutationResult:
    """A statistic, its values under permutation, and its scale.

    Attributes
    ----------
    draws : ndarray of shape (1 + n_permutations,)
        The statistic of the data, then of the permutations.
    chance : float
        Mean over all permutations.
    total : float
        Largest possible value: the entire kernel variance.
    """

    draws: Array
    chance: float
    total: float

    def __add__(self, other: PermutationResult) -> PermutationResult:
        return PermutationResult(self.draws + other.draws, self.chance + other.chance, self.total + other.total)

    def __mul__(self, factor: float) -> PermutationResult:
        return PermutationResult(self.draws * factor, self.chance * factor, self.total * factor)

    @property
    def statistic(self) -> float:
        """The statistic of the data."""
        return float(self.draws[0])

    @property
    def p_value(self) -> float:
        """Share of draws that reach the statistic of the data, including the data themselves."""
        return float(np.mean(self.draws >= self.draws[0] - TIE_TOLERANCE * self.total - ROUNDING))

    @property
    def share(self) -> float:
        """Share of the variance explained, adjusted for chance: for equal counts of one class, the adjusted R squared.

        Chance gives 0 on average; domains that explain everything give 1.
        """
        largest = self.total - self.chance
        if largest <= ROUNDING:
            return 0.0
        return float(np.clip((self.statistic - self.chance) / largest, 0.0, 1.0))


@dataclass(frozen=True)
class PermutationTest:
    """A test of domains within classes in the space of a kernel; samples are sorted by class, and no class is empty."""

    gram: Array
    membership: Membership

    def run(self, labels: Ints) -> PermutationResult:
        """Run the test; the columns of `labels` are the domain labels of the data and permutations of them."""
        return PermutationResult(self.scatter(labels), self.chance, self.total)

    def scatter(self, domain: Ints) -> Array:
        """Return the mean squared distance of the domain means from their average, for every column of domain labels.

        All columns must have the same counts in every cell.
        """
        n_domains, n_classes = self.membership.counts.shape
        weights = self._per_sample(prior_normalized_contrast(self.membership.counts))
        classes = self.membership.cell[:, None] % n_classes
        scatter = np.empty(domain.shape[1])
        for batch in gen_batches(domain.shape[1], max(1, BATCH_ENTRIES // (len(domain) * n_domains))):
            V = weights[domain[:, batch] * n_classes + classes].reshape(len(domain), -1)
            scatter[batch] = np.einsum("ik,ik->k", V, self.gram @ V).reshape(-1, n_domains).sum(axis=1)
        return scatter

    @functools.cached_property
    def chance(self) -> float:
        """Mean of `scatter` over all permutations within classes."""
        counts = self.membership.counts
        squares = (self._per_sample(prior_normalized_contrast(counts)) ** 2).sum(axis=1).reshape(counts.shape) * counts
        return float(squares.sum(axis=0) @ self._class_variances)

    @functools.cached_property
    def total(self) -> float:
        """Kernel variance of all samples, with equal weights of classes and of domains within a class."""
        average = self._per_sample(average_class_means(self.membership.counts).mean(axis=0)[:, None])
        w = average[self.membership.cell, 0]
        return max(0.0, float(w @ np.diagonal(self.gram) - w @ self.gram @ w))

    @property
    def _class_variances(self) -> Array:
        """Unbiased kernel variance of each class; 0 for a class with one sample."""
        sizes = self.membership.counts.sum(axis=0)
        blocks = [self.gram[end - n : end, end - n : end] for n, end in zip(sizes, np.cumsum(sizes), strict=True)]
        return np.array([(np.trace(K) - K.sum() / len(K)) / (len(K) - 1) if len(K) > 1 else 0.0 for K in blocks])

    def _per_sample(self, contrast: Array) -> Array:
        """Return weights of the means of present cells as weights of the samples of every cell; 0 for absent cells."""
        counts = self.membership.counts
        weights = np.zeros((counts.size, contrast.shape[1]))
        weights[counts.ravel() > 0] = contrast / counts[counts > 0][:, None]
        return weights


def permute_labels(domain: Ints, classes: Ints, n_permutations: int, rng: np.random.Generator) -> Ints:
    """Return the domain labels and permutations of them within classes, in columns; samples are sorted by class."""
    labels = np.repeat(domain[:, None], 1 + n_permutations, axis=1)
    for members in np.split(np.arange(len(domain)), np.flatnonzero(np.diff(classes)) + 1):
        part = slice(members[0], members[-1] + 1)
        labels[part, 1:] = rng.permuted(labels[part, 1:], axis=0)
    return labels


def run_kernel_tests(
    gram: Array, domain: Ints, classes: Ints, n_permutations: int, rng: np.random.Generator, verbose: int = 0
) -> tuple[dict[str, PermutationResult | None], dict[int, PermutationResult]]:
    """Return the results for every kind of shift of features, None if no class is in two domains; and for every class.

    Samples are sorted by class. Classes in a single domain have no result.
    """
    one_class = np.zeros_like(classes)
    across = permute_labels(domain, one_class, n_permutations, rng)
    within = permute_labels(domain, classes, n_permutations, rng)
    names, starts, compact = np.unique(classes, return_index=True, return_inverse=True)
    jobs: list[tuple[int | str, PermutationTest, Ints]] = [
        ("P(X)", PermutationTest(gram, Membership.from_codes(one_class, domain)), across)
    ]
    domain_shares = {}
    for name, start, end in zip(names.tolist(), starts, [*starts[1:], len(classes)], strict=True):
        present, codes = np.unique(domain[start:end], return_inverse=True)
        if len(present) > 1:
            part = PermutationTest(gram[start:end, start:end], Membership.from_codes(one_class[start:end], codes))
            jobs.append((name, part, np.searchsorted(present, within[start:end])))
            domain_shares[name] = len(present) / (domain.max() + 1)
    if domain_shares:
        jobs.append(("L", PermutationTest(gram, Membership.from_codes(compact, domain)), within))
    results = {key: test.run(labels) for key, test, labels in track(jobs, len(jobs), "Testing for shift", verbose)}
    # In the paper's H an absent cell has no shift, so the weight of a class is the share of domains that have it.
    parts = [results[name] * share for name, share in domain_shares.items()]
    conditional = functools.reduce(PermutationResult.__add__, parts) if parts else None
    kinds = {"covariate": results["P(X)"], "conditional": conditional, "prior_normalized": results.get("L")}
    return kinds, {name: results[name] for name in domain_shares}


def sample_tables(counts: Ints, n_permutations: int, rng: np.random.Generator) -> Ints:
    """Return the table of counts, then tables for domain labels permuted over all samples.

    These are random tables with the same margins, so that the samples themselves are not permuted.
    """
    distribution = stats.random_table(counts.sum(axis=1), counts.sum(axis=0))
    tables = distribution.rvs(n_permutations, random_state=rng).reshape(n_permutations, *counts.shape)
    return np.concatenate([counts[None], tables])


def chi_square_result(tables: Ints) -> PermutationResult:
    """Return the result of the test of label shift: the sum over cells of (count - expected)^2 / expected."""
    rows = tables[0].sum(axis=1)
    columns = tables[0].sum(axis=0)
    n = rows.sum()
    expected = np.outer(rows, columns) / n
    draws = ((tables - expected) ** 2 / expected).sum(axis=(1, 2))
    degrees_of_freedom = (len(rows) - 1) * (len(columns) - 1)
    return PermutationResult(
        draws=draws,
        chance=degrees_of_freedom * n / (n - 1),
        total=n * min(len(rows) - 1, len(columns) - 1),
    )


def sum_over_groups(gram: Array, group: Ints, n_groups: int) -> tuple[Array, Array]:
    """Return the sums of a kernel matrix over pairs of groups, and of its diagonal over groups."""
    n = len(group)
    members = sparse.csr_array((np.ones(n), (group, np.arange(n))), shape=(n_groups, n))
    return members @ (members @ gram).T, members @ np.diagonal(gram)


def mean_discrepancies(sums: Array, diagonal: Array, counts: Ints) -> Array:
    """Return unbiased squared mean discrepancies between groups (Gretton et al. 2012, eq. 3); NaN for groups of one.

    `sums` and `diagonal` are the result of `sum_over_groups`.
    """
    pairs = np.where(counts > 1, counts * (counts - 1.0), np.nan)
    within = (np.diagonal(sums) - diagonal) / pairs
    sizes = np.outer(counts, counts)
    between = sums / np.where(sizes > 0, sizes, np.nan)
    squared = within[:, None] + within - 2 * between
    np.fill_diagonal(squared, 0.0)
    return squared


def distance_matrices(gram: Array, membership: Membership) -> tuple[Array, Array]:
    """Return distances between domains: of P(X), and of P(X|Y) as the root mean square over common classes.

    Estimates of squared distances are unbiased and can be negative; such distances are reported as 0. Distances are NaN
    if there is nothing to compare.
    """
    counts = membership.counts
    n_domains, n_classes = counts.shape
    domain, classes = np.divmod(membership.cell, n_classes)
    marginal = mean_discrepancies(*sum_over_groups(gram, domain, n_domains), counts.sum(axis=1))
    total, n_common = np.zeros((2, n_domains, n_domains))
    for j in range(n_classes):
        rows = np.flatnonzero(classes == j)
        squared = mean_discrepancies(*sum_over_groups(gram[np.ix_(rows, rows)], domain[rows], n_domains), counts[:, j])
        is_known = np.isfinite(squared)
        total[is_known] += squared[is_known]
        n_common += is_known
    conditional = total / np.where(n_common > 0, n_common, np.nan)
    return np.sqrt(np.maximum(marginal, 0.0)), np.sqrt(np.maximum(conditional, 0.0))


def find_confirmed_outlier(
    gram: Array, membership: Membership, *, by_class: bool, rng: np.random.Generator
) -> int | None:
    """Return the domain that is an outlier in all samples and in both halves of them, or None.

    With `by_class` distances are those of P(X|Y), otherwise of P(X).
    """
    order = rng.permutation(len(membership.cell))
    order = order[np.argsort(membership.cell[order], kind="stable")]  # Each half gets half of every cell.
    outliers = set()
    for part in (order, order[::2], order[1::2]):
        cell = membership.cell[part]
        counts = np.bincount(cell, minlength=membership.counts.size).reshape(membership.counts.shape)
        distances = distance_matrices(gram[np.ix_(part, part)], Membership(counts.astype(np.intp), cell))
        outliers.add(find_outlier(distances[by_class]))
    return outliers.pop() if len(outliers) == 1 else None


def find_outlier(distances: Array) -> int | None:
    """Return the domain whose distances exceed those between the others by the factor `OUTLIER_GAP`, or None."""
    if len(distances) < 3 or not np.isfinite(distances).all():
        return None
    candidate = int(np.argmax(distances.sum(axis=1)))
    others = np.delete(np.arange(len(distances)), candidate)
    is_outlier = distances[candidate, others].min() > OUTLIER_GAP * distances[np.ix_(others, others)].max()
    return candidate if is_outlier else None


def adjust_by_holm(p_values: Array) -> list[float]:
    """Adjust p-values for testing all of them, by Holm's step-down method."""
    order = np.argsort(p_values)
    stepped = np.maximum.accumulate(np.arange(len(p_values), 0, -1) * p_values[order])
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted.tolist()
