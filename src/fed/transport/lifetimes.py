"""How long certificates are valid. Light, so that the command's help can say it."""

from __future__ import annotations

import datetime
from typing import Final

#: A year for a party, ten for its authority: a renewal is two files, but a person brings them.
PARTY_DAYS: Final = 365
AUTHORITY_DAYS: Final = 3650
#: Twenty years. Above it a certificate outlives the trust in its kind of key.
MAX_DAYS: Final = 7300

#: Certificates are valid from a little before they are made: the clock of the machine that first
#: sees one may be behind, by up to an hour where a time zone was set wrongly.
BACKDATED: Final = datetime.timedelta(hours=1)
