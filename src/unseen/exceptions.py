"""Warnings that a user may want to filter by name."""


class SingleDomainWarning(UserWarning):
    """All samples come from one domain, so there is no shift between domains to learn from."""


class FewerComponentsWarning(UserWarning):
    """The data support fewer components than were asked for."""
