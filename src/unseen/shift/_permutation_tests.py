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

from dataclasses import dataclass

import numpy as np
from scipy import sparse, stats
from sklearn.utils import gen_batches

from ..linalg import Array, Ints, Membership, average_class_means, prior_normalized_contrast

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


def run_kernel_test(gram: Array, membership: Membership, labels: Ints) -> PermutationResult:
    """Test domains within classes in the space of a kernel; samples are sorted by class, and no class is empty.

    The statistic is the mean squared distance of the domain means from their average. The columns of `labels` are the
    domain labels of the data and permutations of them, with the same counts in every cell.
    """
    counts = membership.counts
    n_domains, n_classes = counts.shape
    weights = _spread_over_samples(prior_normalized_contrast(counts), counts)
    classes = membership.cell[:, None] % n_classes
    scatter = np.empty(labels.shape[1])
    for batch in gen_batches(labels.shape[1], max(1, BATCH_ENTRIES // (len(labels) * n_domains))):
        V = weights[labels[:, batch] * n_classes + classes].reshape(len(labels), -1)
        scatter[batch] = np.einsum("ik,ik->k", V, gram @ V).reshape(-1, n_domains).sum(axis=1)
    # Unbiased kernel variance of each class; 0 for a class with one sample.
    sizes = counts.sum(axis=0)
    blocks = [gram[end - n : end, end - n : end] for n, end in zip(sizes, np.cumsum(sizes), strict=True)]
    variances = [(np.trace(K) - K.sum() / len(K)) / max(len(K) - 1, 1) for K in blocks]
    squares = (weights**2).sum(axis=1).reshape(counts.shape) * counts
    # Kernel variance of all samples, with equal weights of classes and of domains within a class.
    w = _spread_over_samples(average_class_means(counts).mean(axis=0)[:, None], counts)[membership.cell, 0]
    total = max(0.0, float(w @ np.diagonal(gram) - w @ gram @ w))
    return PermutationResult(scatter, chance=float(squares.sum(axis=0) @ variances), total=total)


def _spread_over_samples(contrast: Array, counts: Ints) -> Array:
    """Return weights of the means of present cells as weights of the samples of every cell; 0 for absent cells."""
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
    gram: Array, domain: Ints, classes: Ints, n_permutations: int, rng: np.random.Generator
) -> tuple[dict[str, PermutationResult | None], dict[int, PermutationResult]]:
    """Return the results for every kind of shift of features, None if no class is in two domains; and for every class.

    Samples are sorted by class. Classes in a single domain have no result.
    """
    one_class = np.zeros_like(classes)
    across = permute_labels(domain, one_class, n_permutations, rng)
    within = permute_labels(domain, classes, n_permutations, rng)
    names, starts, compact = np.unique(classes, return_index=True, return_inverse=True)
    covariate = run_kernel_test(gram, Membership.from_codes(one_class, domain), across)
    results = {}
    conditional = None
    for name, start, end in zip(names.tolist(), starts, [*starts[1:], len(classes)], strict=True):
        part = slice(start, end)
        present, codes = np.unique(domain[part], return_inverse=True)
        if len(present) > 1:
            membership = Membership.from_codes(one_class[part], codes)
            results[name] = run_kernel_test(gram[part, part], membership, np.searchsorted(present, within[part]))
            # In the paper's H an absent cell has no shift, so a class weighs the share of domains that have it.
            weighted = results[name] * (len(present) / (domain.max() + 1))
            conditional = weighted if conditional is None else conditional + weighted
    common = run_kernel_test(gram, Membership.from_codes(compact, domain), within) if results else None
    return {"covariate": covariate, "conditional": conditional, "prior_normalized": common}, results


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
