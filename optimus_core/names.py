"""Names that Kubernetes accepts, derived from anything a user may write.

A name is ``<slug>-<hash>``: the slug is for people, the hash of the whole original keeps distinct inputs
distinct. It is a DNS-1035 label (a Service needs one) and leaves room for ``-worker-1023-g99999``.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

LABEL_LIMIT = 63
"""Letters in a DNS label (RFC 1035)."""
SUFFIX_ROOM = len("-scheduler-1023-g99999")
"""Letters kept free for role, index and generation."""
_HASH_LETTERS = 10


def job_name(*parts: object) -> str:
    """Return the DNS-1035 label of a job identified by ``parts``; distinct parts give distinct names."""
    original = "".join(f"{len(str(part))}:{part}" for part in parts)
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LETTERS]
    room = LABEL_LIMIT - SUFFIX_ROOM - len(digest) - 1
    return f"{slug('-'.join(str(part) for part in parts), room)}-{digest}"


def slug(text: str, room: int) -> str:
    """Return at most ``room`` letters of ``[a-z0-9-]`` for people to read, beginning with a letter."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "-", ascii_text.lower()).strip("-")
    if not words or not words[0].isalpha():
        words = f"job-{words}".rstrip("-")
    return words[:room].rstrip("-")


def replica_name(job: str, role: str, index: int, generation: int) -> str:
    """Return the deterministic name of one replica: creating it twice can't make two."""
    return f"{job}-{role}-{index}-g{generation}"


def group_name(job: str, generation: int) -> str:
    """Return the name of all replicas of one generation of a job."""
    return f"{job}-g{generation}"
