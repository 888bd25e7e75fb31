"""Mistral AI's own service.

It refuses a user right after a tool, and ids of calls that are not nine letters and digits.
"""

from __future__ import annotations

import re
from functools import partial

from gateway.upstream.chat.request import shape
from gateway.upstream.chat.stream import converter
from gateway.upstream.chat.template import TemplateForm
from gateway.upstream.dialect import Dialect
from lanes.stream.profile import Profile

DIALECT = Dialect(
    "mistral",
    Profile(),
    path="/chat/completions",
    keeps_nulls=False,
    shape=partial(
        shape, template=TemplateForm(user_follows=False, call_id=re.compile("[a-zA-Z0-9]{9}"))
    ),
    converter=converter,
    hosts=("api.mistral.ai",),
)
