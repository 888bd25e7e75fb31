"""The Lua of the response store. Each script has one key and can be run again after a late reply.

A branch is a list with two elements for each response: a mark and the id, then the packed items.
Marks: `.` plain, `+` another branch forks off here, `-` deleted. The last is never `-`, so what
nothing builds on is gone, and what a fork builds on stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha1


@dataclass(frozen=True, slots=True)
class Script:
    """One script and the name the server caches it under."""

    text: str
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        digest = sha1(self.text.encode(), usedforsecurity=False).hexdigest()
        object.__setattr__(self, "sha", digest)


#: A new branch. KEYS: branch. ARGV: id, items, ttl.
OPEN = Script("""
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('RPUSH', KEYS[1], '.' .. ARGV[1], ARGV[2])
end
redis.call('EXPIRE', KEYS[1], ARGV[3])
""")

#: Go on after a response if it is the branch's last. KEYS: branch. ARGV: its id, its position, the
#: new id, items, ttl. Answers `gone` if it is not there, `fork` if another response follows it.
APPEND = Script("""
local at = 2 * tonumber(ARGV[2])
local parent = redis.call('LINDEX', KEYS[1], at)
if not parent or string.sub(parent, 2) ~= ARGV[1] then return 'gone' end
redis.call('EXPIRE', KEYS[1], ARGV[5])
local child = redis.call('LINDEX', KEYS[1], at + 2)
if not child then
  redis.call('RPUSH', KEYS[1], '.' .. ARGV[3], ARGV[4])
elseif string.sub(child, 2) ~= ARGV[3] then
  redis.call('LSET', KEYS[1], at, '+' .. ARGV[1])
  return 'fork'
end
return 'ok'
""")

#: Delete a response's items, or mark them for when nothing follows them any more. KEYS: branch.
#: ARGV: id, position.
DROP = Script("""
local at = 2 * tonumber(ARGV[2])
if redis.call('LINDEX', KEYS[1], at) ~= '.' .. ARGV[1] then return end
redis.call('LSET', KEYS[1], at, '-' .. ARGV[1])
local last = redis.call('LINDEX', KEYS[1], -2)
while last and string.sub(last, 1, 1) == '-' do
  redis.call('LTRIM', KEYS[1], 0, -3)
  last = redis.call('LINDEX', KEYS[1], -2)
end
""")

#: Make a response known, unless it is, or was deleted meanwhile; answers its place. KEYS: response.
#: ARGV: place, object, ttl.
ENTER = Script("""
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'at', ARGV[1], 'body', ARGV[2])
  redis.call('EXPIRE', KEYS[1], ARGV[3])
end
return redis.call('HEXISTS', KEYS[1], 'body') == 1 and redis.call('HGET', KEYS[1], 'at')
""")

#: Forget a response; answers its place, also when asked again by the same token. KEYS: response.
#: ARGV: token, ttl of the note that it is gone.
FORGET = Script("""
local at = redis.call('HGET', KEYS[1], 'at')
local gone = redis.call('HGET', KEYS[1], 'gone')
if not at or (gone and gone ~= ARGV[1]) then return false end
redis.call('HDEL', KEYS[1], 'body')
redis.call('HSET', KEYS[1], 'gone', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return at
""")
