"""The command `term2 doctor`: runs every check, whatever fails, and prints the report."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator

from term2_acp import __version__
from term2_acp.doctor import configuration, isolation, network, output, storage, versions
from term2_acp.doctor.report import Check, Report, failed
from term2_acp.doctor.table import table
from term2_acp.folders import Folders
from term2_acp.stdio import print_whole

logger = logging.getLogger(__name__)


def run(*, as_json: bool) -> int:
    """Check everything and print it; 0 if nothing has failed, else 1."""
    # A person who is tired of waiting ends it; there is nothing to take down.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    report = Report(__version__, tuple(_checks()))
    if as_json:
        text = json.dumps(report.as_json(), indent=2) + "\n"
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        text = table(report, width=shutil.get_terminal_size().columns, colour=colour)
    return 0 if print_whole(text) and report.ok else 1


def _checks() -> Iterator[Check]:
    folders = Folders.of_user()
    yield guarded("versions", versions.check)
    settings = configuration.Settings()
    yield guarded("configuration", lambda: configuration.check(folders.config_file, settings))
    yield guarded("provider", lambda: configuration.check_provider(settings))
    yield guarded("service", lambda: network.check(settings.selection))
    yield guarded("sandbox", isolation.check)
    yield guarded("store", lambda: storage.check(folders.state))
    yield guarded("diagnostics", output.check)


def guarded(name: str, check: Callable[[], Check]) -> Check:
    """Make the check, or say that it could not be made: one fault does not hide the others."""
    try:
        return check()
    except Exception as error:
        logger.debug("the check %s failed", name, exc_info=True)
        message = f"the check itself failed: {type(error).__name__}: {error}"
        return Check(name, "could not be checked", (failed(message, "report this as a bug"),))
