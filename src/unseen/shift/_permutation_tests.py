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

from typing import NamedTuple

import numpy as np
from scipy import stats
from sklearn.utils import gen_batches

from ..linalg import Array, Ints, Membership, prior_normalized_contrast

BATCH_ENTRIES = 2**20  # weights in one matrix product: large enough for speed, small compared with the Gram matrix
# Relative to the total variance. Permutations this close to the data are ties, which count against significance.
TIE_TOLERANCE = 1e-9
ROUNDING = 1e-12  # of statistics of a kernel whose values are at most 1


class PermutationResult(NamedTuple):
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
        return float(np.clip((self.statistic - self.chance) / largest, 0.0, 1.0)) if largest > ROUNDING else 0.0


def run_kernel_test(gram: Array, membership: Membership, labels: Ints) -> PermutationResult:
    """Test domains within classes in the space of a kernel; samples are sorted by class, and no class is empty.

    The statistic is the mean squared distance of the domain means from their average. The columns of `labels` are the
    domain labels of the data and permutations of them, with the same counts in every cell.
    """
    counts = membership.counts
    n_domains, n_classes = counts.shape
    is_present = counts > 0
    classes = membership.cell % n_classes
    # Weights of the samples of each cell in the shift of each domain, which are the columns.
    weights = np.zeros((counts.size, n_domains))
    weights[is_present.ravel()] = prior_normalized_contrast(counts) / counts[is_present][:, None]
    scatter = np.empty(labels.shape[1])
    for batch in gen_batches(labels.shape[1], max(1, BATCH_ENTRIES // (len(labels) * n_domains))):
        V = weights[labels[:, batch] * n_classes + classes[:, None]].reshape(len(labels), -1)
        scatter[batch] = np.einsum("ik,ik->k", V, gram @ V).reshape(-1, n_domains).sum(axis=1)
    # Unbiased kernel variance of each class; 0 for a class with one sample.
    ends = np.cumsum(counts.sum(axis=0))
    blocks = [gram[start:end, start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    variances = [(np.trace(K) - K.sum() / len(K)) / max(len(K) - 1, 1) for K in blocks]
    squares = (weights**2).sum(axis=1).reshape(counts.shape) * counts
    # Kernel variance of all samples, with equal weights of classes and of domains within a class.
    w = 1 / (n_classes * is_present.sum(axis=0)[classes] * counts.ravel()[membership.cell])
    total = max(0.0, float(w @ np.diagonal(gram) - w @ gram @ w))
    return PermutationResult(scatter, chance=float(squares.sum(axis=0) @ variances), total=total)


def permute_labels(domain: Ints, classes: Ints, n_permutations: int, rng: np.random.Generator) -> Ints:
    """Return the domain labels and permutations of them within classes, in columns; samples are sorted by class."""
    labels = np.repeat(domain[:, None], 1 + n_permutations, axis=1)
    for block in np.split(labels, np.flatnonzero(np.diff(classes)) + 1):
        block[:, 1:] = rng.permuted(block[:, 1:], axis=0)
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
    covariate = run_kernel_test(gram, Membership.from_codes(one_class, domain), across)
    conditional = common = None
    results = {}
    weights = []
    for name in np.unique(classes).tolist():
        part = slice(*np.searchsorted(classes, [name, name + 1]))
        present, codes = np.unique(domain[part], return_inverse=True)
        if len(present) > 1:
            membership = Membership.from_codes(one_class[part], codes)
            results[name] = run_kernel_test(gram[part, part], membership, np.searchsorted(present, within[part]))
            # In the paper's H an absent cell has no shift, so a class weighs the share of domains that have it.
            weights.append(len(present) / (domain.max() + 1))
    if results:
        draws, chance, total = (
            np.tensordot(weights, np.array(values), 1) for values in zip(*results.values(), strict=True)
        )
        conditional = PermutationResult(draws, float(chance), float(total))
        compact = np.unique(classes, return_inverse=True)[1]
        common = run_kernel_test(gram, Membership.from_codes(compact, domain), within)
    return {"covariate": covariate, "conditional": conditional, "prior_normalized": common}, results


def run_label_test(counts: Ints, n_permutations: int, rng: np.random.Generator) -> tuple[Ints, PermutationResult]:
    """Return the table of counts, then tables for permuted domain labels; and the result of the chi-square test.

    These are random tables with the same margins, so that the samples themselves are not permuted.
    """
    rows = counts.sum(axis=1)
    columns = counts.sum(axis=0)
    n = rows.sum()
    permuted = stats.random_table(rows, columns).rvs(n_permutations, random_state=rng)
    tables = np.concatenate([counts[None], permuted.reshape(n_permutations, *counts.shape)])
    expected = np.outer(rows, columns) / n
    draws = ((tables - expected) ** 2 / expected).sum(axis=(1, 2))
    n_rows, n_columns = np.array(counts.shape) - 1
    return tables, PermutationResult(draws, chance=n_rows * n_columns * n / (n - 1), total=n * min(n_rows, n_columns))


def mean_discrepancies(gram: Array, group: Ints, n_groups: int) -> Array:
    """Return unbiased squared mean discrepancies between groups (Gretton et al. 2012, eq. 3); NaN for groups of one."""
    counts = np.bincount(group, minlength=n_groups)
    members = np.eye(n_groups)[group]
    sums = members.T @ gram @ members
    pairs = np.where(counts > 1, counts * (counts - 1.0), np.nan)
    within = (np.diagonal(sums) - np.diagonal(gram) @ members) / pairs
    squared = within[:, None] + within - 2 * sums / np.maximum(np.outer(counts, counts), 1)
    np.fill_diagonal(squared, 0.0)
    return squared


def distance_matrices(gram: Array, membership: Membership) -> tuple[Array, Array]:
    """Return distances between domains: of P(X), and of P(X|Y) as the root mean square over common classes.

    Estimates of squared distances are unbiased and can be negative; such distances are reported as 0. Distances are NaN
    if there is nothing to compare.
    """
    n_domains, n_classes = membership.counts.shape
    domain, classes = np.divmod(membership.cell, n_classes)
    by_class = []
    for j in range(n_classes):
        rows = np.flatnonzero(classes == j)
        by_class.append(mean_discrepancies(gram[np.ix_(rows, rows)], domain[rows], n_domains))
    conditional = np.ma.masked_invalid(by_class).mean(axis=0).filled(np.nan)
    marginal = mean_discrepancies(gram, domain, n_domains)
    return np.sqrt(np.maximum(marginal, 0.0)), np.sqrt(np.maximum(conditional, 0.0))


def adjust_by_holm(p_values: Array) -> list[float]:
    """Adjust p-values for testing all of them, by Holm's step-down method."""
    order = np.argsort(p_values)
    stepped = np.maximum.accumulate(np.arange(len(p_values), 0, -1) * p_values[order])
    return np.minimum(stepped, 1.0)[np.argsort(order)].tolist()
