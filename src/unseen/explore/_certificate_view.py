"""The certificate of a setting, as plain values and sentences for the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..estimators import MIN_JACKKNIFE_DOMAINS, ProjectionCertificate


def describe_certificate(certificate: ProjectionCertificate) -> dict[str, Any]:
    """Return the components with intervals and stability, and sentences on the whole projection.

    The stability of a component is the share of its variance on the source rows that the components without one domain
    explain; the domain with the smallest share is named. Numbers that do not exist are None.
    """
    components = []
    for j, eigenvalue in enumerate(certificate.eigenvalues.tolist()):
        shares = np.square(certificate.component_cosines[:, j])
        low, high = certificate.intervals[j].tolist()
        component = {
            "eigenvalue": eigenvalue,
            "low": _finite(low),
            "high": _finite(high),
            "error": _finite(certificate.eigenvalue_errors[j]),
            "sine": _finite(certificate.component_errors[j]),
            "stability": None,
            "domain": None,
        }
        if np.isfinite(shares).any():
            least = int(np.nanargmin(shares))
            component |= {"stability": min(float(shares[least]), 1.0), "domain": str(certificate.domains[least])}
        components.append(component)
    return {
        "components": components,
        "missing": certificate.n_missing,
        "sentences": [_describe_stability(certificate, components), *_describe_accuracy(certificate)],
    }


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _describe_stability(certificate: ProjectionCertificate, components: list[dict[str, Any]]) -> str:
    """Name the component that depends most on a single domain."""
    n_domains = len(certificate.domains)
    if n_domains < MIN_JACKKNIFE_DOMAINS:
        return (
            f"Intervals and stability need at least {MIN_JACKKNIFE_DOMAINS} source domains, which are left out in "
            f"turn; there are {n_domains}."
        )
    stabilities = [1.0 if component["stability"] is None else component["stability"] for component in components]
    cannot_be_left_out = np.isnan(certificate.subspace_cosines)
    if cannot_be_left_out.all():
        return "No domain can be left out, because the others lack a class or have fewer components."
    least = int(np.argmin(stabilities))
    text = (
        f"Component {least + 1} depends most on a single domain: a fit without {components[least]['domain']} retains "
        f"{100 * stabilities[least]:.0f}% of it."
    )
    if cannot_be_left_out.any():
        names = ", ".join(map(str, np.asarray(certificate.domains)[cannot_be_left_out]))
        text += f" Not left out, because the others would lack a class or a component: {names}."
    return text


def _describe_accuracy(certificate: ProjectionCertificate) -> list[str]:
    """Describe the numerical errors, and whether the solver found all components."""
    sentences = []
    sines = certificate.component_errors
    is_bounded = np.isfinite(sines)
    if is_bounded.any():
        largest = float(certificate.eigenvalue_errors[is_bounded].max())
        sentences.append(
            f"Numerical errors: eigenvalues are accurate to {largest:.0e} (relative), components to "
            f"{sines[is_bounded].max():.0e} (sine of the angle to the exact component)."
        )
    if not is_bounded.all():
        numbers = ", ".join(str(j + 1) for j in np.flatnonzero(~is_bounded))
        sentences.append(
            f"The error of component {numbers} has no bound: other eigenvalues are close, or the ridge is too small."
        )
    if certificate.is_complete:
        sentences.append("The solver missed no component with a larger eigenvalue.")
    else:
        sentences.append(f"The solver missed {certificate.n_missing} components with larger eigenvalues.")
    return sentences
